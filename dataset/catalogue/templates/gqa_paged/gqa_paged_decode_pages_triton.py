import torch
import triton
import triton.language as tl
from torch import Tensor

NUM_QO_HEADS = 32
NUM_KV_HEADS = 8
HEAD_DIM = 128
PAGE_SIZE = 16
GROUP = NUM_QO_HEADS // NUM_KV_HEADS
MEMBERS = max(16, triton.next_power_of_2(GROUP))
"""Query heads of a KV head, as rows of a matrix product."""
DIM = triton.next_power_of_2(HEAD_DIM)
TOKENS = 64 if HEAD_DIM <= 128 else 32
"""Of a step."""
PROGRAMS = 264
"""Two for each of an H100's or H200's processors."""


@triton.jit
def attend(
    q,
    k_cache,
    v_cache,
    indptr,
    pages,
    last,
    scale,
    partial,
    tops,
    totals,
    splits,
    kv_heads: tl.constexpr,
    group: tl.constexpr,
    members: tl.constexpr,
    size: tl.constexpr,
    dim: tl.constexpr,
    tokens: tl.constexpr,
    page_size: tl.constexpr,
):
    sequence, kv_head, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    begin, end = tl.load(indptr + sequence), tl.load(indptr + sequence + 1)
    length = tl.where(end > begin, (end - begin - 1) * page_size + tl.load(last + sequence), 0)
    share = tl.cdiv(tl.cdiv(length, splits), tokens) * tokens
    stop = tl.minimum((split + 1) * share, length)
    column, member = tl.arange(0, dim), tl.arange(0, members)
    inside = column < size
    head = kv_head * group + member
    real = (member < group)[:, None] & inside[None, :]
    query = tl.load(q + (sequence * kv_heads * group + head[:, None]) * size + column[None, :], mask=real, other=0.0)
    top = tl.full((members,), -float("inf"), tl.float32)
    total = tl.zeros((members,), tl.float32)
    mixed = tl.zeros((members, dim), tl.float32)
    for at in range(split * share, stop, tokens):
        token = at + tl.arange(0, tokens)
        known = token < stop
        page = tl.load(pages + begin + token // page_size, mask=known, other=0).to(tl.int64)
        row = ((page * page_size + token % page_size) * kv_heads + kv_head) * size
        keys = tl.load(k_cache + row[None, :] + column[:, None], mask=known[None, :] & inside[:, None], other=0.0)
        logits = tl.where(known[None, :], tl.dot(query, keys) * scale, -float("inf"))
        high = tl.maximum(top, tl.max(logits, axis=1))
        weights = tl.exp(logits - high[:, None])
        fade = tl.exp(top - high)
        values = tl.load(v_cache + row[:, None] + column[None, :], mask=known[:, None] & inside[None, :], other=0.0)
        mixed = tl.dot(weights.to(values.dtype), values, mixed * fade[:, None])
        total = total * fade + tl.sum(weights, axis=1)
        top = high
    place = (sequence * kv_heads * group + head) * splits + split
    tl.store(partial + place[:, None] * size + column[None, :], mixed, mask=real)
    tl.store(tops + place, top, mask=member < group)
    tl.store(totals + place, total, mask=member < group)


@triton.jit
def merge(partial, tops, totals, output, lse, size: tl.constexpr, dim: tl.constexpr, splits: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    split, column = tl.arange(0, splits), tl.arange(0, dim)
    inside = column < size
    top = tl.load(tops + row * splits + split)
    high = tl.max(top, axis=0)
    level = tl.where(high == -float("inf"), 0.0, high)
    fade = tl.exp(top - level)
    total = tl.sum(tl.load(totals + row * splits + split) * fade, axis=0)
    parts = tl.load(partial + (row * splits + split[:, None]) * size + column[None, :], mask=inside[None, :], other=0.0)
    empty = total == 0.0
    mixed = tl.where(empty, 0.0, tl.sum(parts * fade[:, None], axis=0) / tl.where(empty, 1.0, total))
    tl.store(output + row * size + column, mixed.to(tl.bfloat16), mask=inside)
    logarithm = level * 1.4426950408889634 + tl.log2(tl.where(empty, 1.0, total))  # base 2
    tl.store(lse + row, tl.where(empty, -float("inf"), logarithm))


def run(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    kv_last_page_len: Tensor,
    sm_scale: float,
    output: Tensor,
    lse: Tensor,
) -> None:
    batch, device = q.shape[0], q.device
    # Lengths are not known here without waiting for the device; their mean is.
    mean = max(1, kv_indices.shape[0] * PAGE_SIZE // batch)
    wanted = min(PROGRAMS // (batch * NUM_KV_HEADS), triton.cdiv(mean, TOKENS), 64)
    splits = triton.next_power_of_2(max(1, wanted))
    partial = torch.empty((batch, NUM_QO_HEADS, splits, HEAD_DIM), dtype=torch.float32, device=device)
    tops, totals = torch.empty((2, batch, NUM_QO_HEADS, splits), dtype=torch.float32, device=device)
    attend[(batch, NUM_KV_HEADS, splits)](
        q,
        k_cache,
        v_cache,
        kv_indptr,
        kv_indices,
        kv_last_page_len,
        sm_scale,
        partial,
        tops,
        totals,
        splits,
        NUM_KV_HEADS,
        GROUP,
        MEMBERS,
        HEAD_DIM,
        DIM,
        TOKENS,
        PAGE_SIZE,
        num_warps=4,
        num_stages=3,
    )
    merge[(batch * NUM_QO_HEADS,)](partial, tops, totals, output, lse, HEAD_DIM, DIM, splits, num_warps=4)
