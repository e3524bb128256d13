import torch
import triton
import triton.language as tl
from torch import Tensor

VOCAB_SIZE = 128256
SOFT_CAP = 30.0
PARTS = 32
PART = triton.cdiv(VOCAB_SIZE, PARTS)
"""Columns of a part."""
BLOCK = triton.next_power_of_2(PART)


@triton.jit
def capped(values, cap):
    return cap * (2.0 / (1.0 + tl.exp(-2.0 / cap * values)) - 1.0)  # cap * tanh(values / cap)


@triton.jit
def reduce_part(logits, peaks, totals, cap, vocabulary: tl.constexpr, part: tl.constexpr, block: tl.constexpr):
    row, number = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = number * part + tl.arange(0, block)
    known = (column < (number + 1) * part) & (column < vocabulary)
    values = tl.load(logits + row * vocabulary + column, mask=known, other=-float("inf"))
    values = tl.where(known, capped(values, cap), -float("inf"))
    peak = tl.max(values, axis=0)
    place = row * tl.num_programs(1) + number
    tl.store(peaks + place, peak)
    tl.store(totals + place, tl.sum(tl.exp(values - peak), axis=0))


@triton.jit
def subtract_part(
    logits,
    peaks,
    totals,
    out,
    cap,
    vocabulary: tl.constexpr,
    part: tl.constexpr,
    block: tl.constexpr,
    parts: tl.constexpr,
):
    row, number = tl.program_id(0).to(tl.int64), tl.program_id(1)
    each = tl.arange(0, parts)
    part_peaks = tl.load(peaks + row * parts + each)
    peak = tl.max(part_peaks, axis=0)
    total = tl.sum(tl.load(totals + row * parts + each) * tl.exp(part_peaks - peak), axis=0)
    column = number * part + tl.arange(0, block)
    known = (column < (number + 1) * part) & (column < vocabulary)
    values = tl.load(logits + row * vocabulary + column, mask=known, other=0.0)
    values = capped(values, cap)
    tl.store(out + row * vocabulary + column, values - (peak + tl.log(total)), mask=known)


def run(logits: Tensor, log_probs: Tensor) -> None:
    rows = logits.shape[0]
    peaks, totals = torch.empty((2, rows, PARTS), device=logits.device)
    grid = (rows, PARTS)
    reduce_part[grid](logits, peaks, totals, SOFT_CAP, VOCAB_SIZE, PART, BLOCK, num_warps=8)
    subtract_part[grid](logits, peaks, totals, log_probs, SOFT_CAP, VOCAB_SIZE, PART, BLOCK, PARTS, num_warps=8)
