import torch
from torch import Tensor

TOP_K = 8


@torch.no_grad()
def run(router_logits: Tensor, topk_weights: Tensor, topk_ids: Tensor) -> None:
    experts = router_logits.shape[1]
    bits = (router_logits + 0.0).view(torch.int16).int()  # + 0.0 makes -0 and 0 the same
    ordered = torch.where(bits < 0, bits ^ 0x7FFF, bits)
    keys = ordered * experts + torch.arange(experts - 1, -1, -1, dtype=torch.int32)
    best = keys.topk(TOP_K, dim=-1).values
    torch.sub(experts - 1, best.remainder(experts), out=topk_ids)
    chosen = router_logits.gather(1, topk_ids.long())
    torch.softmax(chosen, dim=-1, dtype=torch.float32, out=topk_weights)
