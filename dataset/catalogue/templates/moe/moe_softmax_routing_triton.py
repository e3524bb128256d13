import triton
import triton.language as tl
from torch import Tensor

NUM_EXPERTS = 128
TOP_K = 8
PADDED = triton.next_power_of_2(NUM_EXPERTS)
PLACES = triton.next_power_of_2(TOP_K)


@triton.jit
def route(logits, weights, ids, experts: tl.constexpr, padded: tl.constexpr, top_k: tl.constexpr, places: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    expert, place = tl.arange(0, padded), tl.arange(0, places)
    left = tl.load(logits + token * experts + expert, mask=expert < experts, other=-float("inf")).to(tl.float32)
    taken = expert >= experts
    chosen = tl.zeros((places,), tl.int32)
    best = tl.full((places,), -float("inf"), tl.float32)
    for at in tl.static_range(top_k):
        value = tl.max(tl.where(taken, -float("inf"), left), axis=0)
        first = tl.min(tl.where((left == value) & (taken == 0), expert, padded), axis=0)
        chosen = tl.where(place == at, first, chosen)
        best = tl.where(place == at, value, best)
        taken = taken | (expert == first)
    shares = tl.exp(best - tl.max(best, axis=0))
    shares = shares / tl.sum(shares, axis=0)
    tl.store(weights + token * top_k + place, shares, mask=place < top_k)
    tl.store(ids + token * top_k + place, chosen, mask=place < top_k)


def run(router_logits: Tensor, topk_weights: Tensor, topk_ids: Tensor) -> None:
    grid = (router_logits.shape[0],)
    route[grid](router_logits, topk_weights, topk_ids, NUM_EXPERTS, PADDED, TOP_K, PLACES, num_warps=1)
