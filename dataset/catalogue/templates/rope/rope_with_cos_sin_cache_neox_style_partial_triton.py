import triton
import triton.language as tl
from torch import Tensor

HEAD_SIZE = 128
ROTARY_DIM = 64
HEADS = 8
"""Of a program, all of one token."""
HALF = ROTARY_DIM // 2
PADDED = triton.next_power_of_2(HALF)
REST = triton.next_power_of_2(HEAD_SIZE - ROTARY_DIM)


@triton.jit
def turn(
    heads,
    out,
    count,
    first,
    token,
    cosine,
    sine,
    rest: tl.constexpr,
    half: tl.constexpr,
    padded: tl.constexpr,
    many: tl.constexpr,
    size: tl.constexpr,
):
    head, column = first + tl.arange(0, many), tl.arange(0, padded)
    start = (token * count + head[:, None]) * size
    known = (head < count)[:, None] & (column < half)[None, :]
    place = start + column[None, :]
    low = tl.load(heads + place, mask=known, other=0.0).to(tl.float32)
    high = tl.load(heads + place + half, mask=known, other=0.0).to(tl.float32)
    tl.store(out + place, (low * cosine - high * sine).to(tl.bfloat16), mask=known)
    tl.store(out + place + half, (high * cosine + low * sine).to(tl.bfloat16), mask=known)
    beyond = 2 * half + tl.arange(0, rest)
    known = (head < count)[:, None] & (beyond < size)[None, :]
    kept = tl.load(heads + start + beyond[None, :], mask=known, other=0.0)
    tl.store(out + start + beyond[None, :], kept, mask=known)


@triton.jit
def rotate(
    q,
    k,
    angles,
    positions,
    q_out,
    k_out,
    q_heads,
    k_heads,
    rest: tl.constexpr,
    half: tl.constexpr,
    padded: tl.constexpr,
    many: tl.constexpr,
    size: tl.constexpr,
):
    token, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.arange(0, padded)
    row = angles + tl.load(positions + token) * 2 * half + column
    cosine = tl.load(row, mask=column < half, other=0.0)[None, :]
    sine = tl.load(row + half, mask=column < half, other=0.0)[None, :]
    q_groups = tl.cdiv(q_heads, many)
    if group < q_groups:
        turn(q, q_out, q_heads, group * many, token, cosine, sine, rest, half, padded, many, size)
    else:
        turn(k, k_out, k_heads, (group - q_groups) * many, token, cosine, sine, rest, half, padded, many, size)


def run(q: Tensor, k: Tensor, cos_sin_cache: Tensor, positions: Tensor, q_out: Tensor, k_out: Tensor) -> None:
    tokens, q_heads, k_heads = q.shape[0], q.shape[1], k.shape[1]
    grid = (tokens, triton.cdiv(q_heads, HEADS) + triton.cdiv(k_heads, HEADS))
    rotate[grid](
        q,
        k,
        cos_sin_cache,
        positions,
        q_out,
        k_out,
        q_heads,
        k_heads,
        REST,
        HALF,
        PADDED,
        HEADS,
        HEAD_SIZE,
        num_warps=4,
    )
