import torch
import triton
import triton.language as tl
from torch import Tensor

VOCAB_SIZE = 128256
PARTS = 32
PART = triton.cdiv(VOCAB_SIZE, PARTS)
"""Tokens of a program."""
PADDED = triton.next_power_of_2(PART)
CHUNK = min(256, PADDED)
LEVELS = 32
STAGES = 6
"""33 ** 6 exceeds the bit patterns of all floats from 0 to 1, so the last bracket is one of them wide."""


@triton.jit
def bracket(wanted, brackets, sums, row, rows, stage, parts: tl.constexpr, levels: tl.constexpr):
    """Where the level lies: what the stage before found, narrowed by the sums over all parts of the row."""
    if stage == 0:
        low = tl.full((), 0, tl.int32)
        high = tl.full((), 0x3F800001, tl.int32)
    else:
        low = tl.load(brackets + ((stage - 1) * rows + row) * 2)
        high = tl.load(brackets + ((stage - 1) * rows + row) * 2 + 1)
        each, level = tl.arange(0, parts), tl.arange(0, levels)
        place = ((stage - 1) * rows + row) * parts * levels
        found = tl.sum(tl.load(sums + place + each[:, None] * levels + level[None, :]), axis=0)
        step = (high - low + levels) // (levels + 1)
        enough = tl.sum((found >= wanted).to(tl.int32), axis=0)  # the sums fall from level to level
        low = low + enough * step
        high = tl.minimum(low + step, high)
    return low, high


@triton.jit
def narrow(
    probs,
    limits,
    brackets,
    sums,
    rows,
    stage,
    vocabulary: tl.constexpr,
    part: tl.constexpr,
    chunk: tl.constexpr,
    parts: tl.constexpr,
    levels: tl.constexpr,
):
    """Sums of what is at or above each of 32 levels in the bracket. Floats order as their bits do, from 0 on."""
    row, number = tl.program_id(0).to(tl.int64), tl.program_id(1)
    wanted = tl.load(limits + row).to(tl.float32)
    low, high = bracket(wanted, brackets, sums, row, rows, stage, parts, levels)
    if number == 0:
        tl.store(brackets + (stage * rows + row) * 2, low)
        tl.store(brackets + (stage * rows + row) * 2 + 1, high)
    step = (high - low + levels) // (levels + 1)
    level = low + (tl.arange(0, levels) + 1) * step
    line = tl.where(level < high, level, 0x3F800001).to(tl.float32, bitcast=True)
    total = tl.zeros((levels, chunk), tl.float32)
    column = tl.arange(0, chunk)
    for start in range(0, part, chunk):
        token = number * part + start + column
        known = (start + column < part) & (token < vocabulary)
        p = tl.load(probs + row * vocabulary + token, mask=known, other=-1.0)
        total += tl.where(p[None, :] >= line[:, None], 1.0, 0.0)
    tl.store(sums + ((stage * rows + row) * parts + number) * levels + tl.arange(0, levels), tl.sum(total, axis=1))


@triton.jit
def keep(
    probs,
    limits,
    brackets,
    sums,
    lines,
    masses,
    rows,
    stages,
    vocabulary: tl.constexpr,
    part: tl.constexpr,
    padded: tl.constexpr,
    parts: tl.constexpr,
    levels: tl.constexpr,
):
    """The mass of each part that is at or above the level which was found."""
    row, number = tl.program_id(0).to(tl.int64), tl.program_id(1)
    wanted = tl.load(limits + row).to(tl.float32)
    low, _ = bracket(wanted, brackets, sums, row, rows, stages, parts, levels)
    line = low.to(tl.float32, bitcast=True)
    column = tl.arange(0, padded)
    token = number * part + column
    known = (column < part) & (token < vocabulary)
    p = tl.load(probs + row * vocabulary + token, mask=known, other=0.0)
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


def run(probs: Tensor, top_k: Tensor, samples: Tensor) -> None:
    rows, device = probs.shape[0], probs.device
    brackets = torch.empty((STAGES, rows, 2), dtype=torch.int32, device=device)
    sums = torch.empty((STAGES, rows, PARTS, LEVELS), device=device)
    lines, masses = torch.empty(rows, device=device), torch.empty((rows, PARTS), device=device)
    grid, sizes = (rows, PARTS), (PARTS, LEVELS)
    for stage in range(STAGES):
        narrow[grid](probs, top_k, brackets, sums, rows, stage, VOCAB_SIZE, PART, CHUNK, *sizes, num_warps=4)
    keep[grid](probs, top_k, brackets, sums, lines, masses, rows, STAGES, VOCAB_SIZE, PART, PADDED, *sizes, num_warps=8)
    luck = torch.rand(rows, device=device)
    pick[(rows,)](probs, lines, masses, luck, samples, VOCAB_SIZE, PART, PADDED, PARTS, num_warps=8)
