import torch
import triton
import triton.language as tl
from torch import Tensor

VOCAB_SIZE = 128256
PARTS = 32
PART = triton.cdiv(VOCAB_SIZE, PARTS)
"""Tokens of a program."""
PADDED = triton.next_power_of_2(PART)


@triton.jit
def peak(probs, peaks, vocabulary: tl.constexpr, part: tl.constexpr, padded: tl.constexpr):
    row, number, column = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, padded)
    token = number * part + column
    p = tl.load(probs + row * vocabulary + token, mask=(column < part) & (token < vocabulary), other=0.0)
    tl.store(peaks + row * tl.num_programs(1) + number, tl.max(p, axis=0))


@triton.jit
def keep(
    probs,
    min_p,
    peaks,
    lines,
    masses,
    vocabulary: tl.constexpr,
    part: tl.constexpr,
    padded: tl.constexpr,
    parts: tl.constexpr,
):
    """The mass of each part that is at or above min_p of the row's largest probability."""
    row, number, column = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, padded)
    line = tl.load(min_p + row) * tl.max(tl.load(peaks + row * parts + tl.arange(0, parts)), axis=0)
    token = number * part + column
    p = tl.load(probs + row * vocabulary + token, mask=(column < part) & (token < vocabulary), other=0.0)
    tl.store(masses + row * parts + number, tl.sum(tl.where(p >= line, p, 0.0), axis=0))
    if number == 0:
        tl.store(lines + row, line)


@triton.jit
def pick(
    probs,
    lines,
    masses,
    luck,
    samples,
    vocabulary: tl.constexpr,
    part: tl.constexpr,
    padded: tl.constexpr,
    parts: tl.constexpr,
):
    """One token of those at or above the row's level, in proportion: first its part, then itself."""
    row = tl.program_id(0).to(tl.int64)
    each, column = tl.arange(0, parts), tl.arange(0, padded)
    mass = tl.load(masses + row * parts + each)
    until = tl.cumsum(mass, axis=0)
    drawn = tl.load(luck + row) * tl.sum(mass, axis=0)
    last = tl.max(tl.where(mass > 0.0, each, 0), axis=0)
    number = tl.minimum(tl.sum((until <= drawn).to(tl.int32), axis=0), last)
    drawn -= tl.sum(tl.where(each < number, mass, 0.0), axis=0)
    token = number * part + column
    known = (column < part) & (token < vocabulary)
    p = tl.load(probs + row * vocabulary + token, mask=known, other=0.0)
    kept = tl.where((p >= tl.load(lines + row)) & (p > 0.0), p, 0.0)
    passed = (tl.cumsum(kept, axis=0) > drawn) & (kept > 0.0)
    found = tl.min(tl.where(passed, token, vocabulary), axis=0)
    highest = tl.max(tl.where(kept > 0.0, token, 0), axis=0)  # where rounding leaves the drawn mass beyond all of it
    tl.store(samples + row, tl.where(found == vocabulary, highest, found).to(tl.int64))


def run(probs: Tensor, min_p: Tensor, samples: Tensor) -> None:
    rows, device = probs.shape[0], probs.device
    peaks, masses = torch.empty((2, rows, PARTS), device=device)
    lines, grid = torch.empty(rows, device=device), (rows, PARTS)
    peak[grid](probs, peaks, VOCAB_SIZE, PART, PADDED, num_warps=8)
    keep[grid](probs, min_p, peaks, lines, masses, VOCAB_SIZE, PART, PADDED, PARTS, num_warps=8)
    luck = torch.rand(rows, device=device)
    pick[(rows,)](probs, lines, masses, luck, samples, VOCAB_SIZE, PART, PADDED, PARTS, num_warps=8)
