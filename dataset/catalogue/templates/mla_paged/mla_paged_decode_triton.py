import torch
import triton
import triton.language as tl
from torch import Tensor

NUM_QO_HEADS = 16
HEAD_DIM_CKV = 512
HEAD_DIM_KPE = 64
HEADS = 16
"""Of a program, as rows of a matrix product."""
BLOCKS = triton.cdiv(NUM_QO_HEADS, HEADS)
TOKENS = 32
"""Of a step."""
PROGRAMS = 132
"""One for each of an H100's or H200's processors."""


@triton.jit
def attend(
    q_nope,
    q_pe,
    ckv_cache,
    kpe_cache,
    indptr,
    pages,
    scale,
    partial,
    tops,
    totals,
    splits,
    heads: tl.constexpr,
    block: tl.constexpr,
    latent: tl.constexpr,
    rotary: tl.constexpr,
    tokens: tl.constexpr,
    page_size: tl.constexpr,
):
    sequence, split = tl.program_id(0).to(tl.int64), tl.program_id(2)
    head = tl.program_id(1) * block + tl.arange(0, block)
    begin, end = tl.load(indptr + sequence), tl.load(indptr + sequence + 1)
    length = end - begin
    share = tl.cdiv(tl.cdiv(length, splits), tokens) * tokens
    stop = tl.minimum((split + 1) * share, length)
    column, turned = tl.arange(0, latent), tl.arange(0, rotary)
    real = (head < heads)[:, None]
    query = tl.load(q_nope + (sequence * heads + head[:, None]) * latent + column[None, :], mask=real, other=0.0)
    query_pe = tl.load(q_pe + (sequence * heads + head[:, None]) * rotary + turned[None, :], mask=real, other=0.0)
    top = tl.full((block,), -float("inf"), tl.float32)
    total = tl.zeros((block,), tl.float32)
    mixed = tl.zeros((block, latent), tl.float32)
    for at in range(split * share, stop, tokens):
        token = at + tl.arange(0, tokens)
        known = token < stop
        page = tl.load(pages + begin + token // page_size, mask=known, other=0).to(tl.int64)
        row = page * page_size + token % page_size
        # Read once: a token's latent is its key and its value.
        values = tl.load(ckv_cache + row[:, None] * latent + column[None, :], mask=known[:, None], other=0.0)
        keys_pe = tl.load(kpe_cache + row[None, :] * rotary + turned[:, None], mask=known[None, :], other=0.0)
        logits = (tl.dot(query, tl.trans(values)) + tl.dot(query_pe, keys_pe)) * scale
        logits = tl.where(known[None, :], logits, -float("inf"))
        high = tl.maximum(top, tl.max(logits, axis=1))
        weights = tl.exp(logits - high[:, None])
        fade = tl.exp(top - high)
        mixed = tl.dot(weights.to(values.dtype), values, mixed * fade[:, None])
        total = total * fade + tl.sum(weights, axis=1)
        top = high
    place = (sequence * heads + head) * splits + split
    tl.store(partial + place[:, None] * latent + column[None, :], mixed, mask=real)
    tl.store(tops + place, top, mask=head < heads)
    tl.store(totals + place, total, mask=head < heads)


@triton.jit
def merge(partial, tops, totals, output, lse, latent: tl.constexpr, splits: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column, each = tl.arange(0, latent), tl.arange(0, splits)
    high = tl.max(tl.load(tops + row * splits + each), axis=0)
    level = tl.where(high == -float("inf"), 0.0, high)
    total = tl.full((), 0.0, tl.float32)
    mixed = tl.zeros((latent,), tl.float32)
    for split in range(splits):
        fade = tl.exp(tl.load(tops + row * splits + split) - level)
        total += tl.load(totals + row * splits + split) * fade
        mixed += tl.load(partial + (row * splits + split) * latent + column) * fade
    empty = total == 0.0
    mixed = tl.where(empty, 0.0, mixed / tl.where(empty, 1.0, total))
    tl.store(output + row * latent + column, mixed.to(tl.bfloat16))
    logarithm = level * 1.4426950408889634 + tl.log2(tl.where(empty, 1.0, total))  # base 2
    tl.store(lse + row, tl.where(empty, -float("inf"), logarithm))


def run(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    sm_scale: float,
    output: Tensor,
    lse: Tensor,
) -> None:
    batch, device = q_nope.shape[0], q_nope.device
    # Lengths are not known here without waiting for the device; their mean is.
    mean = max(1, kv_indices.shape[0] * 1 // batch)
    wanted = min(PROGRAMS // (batch * BLOCKS), triton.cdiv(mean, TOKENS), 64)
    splits = triton.next_power_of_2(max(1, wanted))
    partial = torch.empty((batch, NUM_QO_HEADS, splits, HEAD_DIM_CKV), dtype=torch.float32, device=device)
    tops, totals = torch.empty((2, batch, NUM_QO_HEADS, splits), dtype=torch.float32, device=device)
    attend[(batch, BLOCKS, splits)](
        q_nope,
        q_pe,
        ckv_cache,
        kpe_cache,
        kv_indptr,
        kv_indices,
        sm_scale,
        partial,
        tops,
        totals,
        splits,
        NUM_QO_HEADS,
        HEADS,
        HEAD_DIM_CKV,
        HEAD_DIM_KPE,
        TOKENS,
        1,
        num_warps=4,
        num_stages=2,
    )
    merge[(batch * NUM_QO_HEADS,)](partial, tops, totals, output, lse, HEAD_DIM_CKV, splits, num_warps=4)
