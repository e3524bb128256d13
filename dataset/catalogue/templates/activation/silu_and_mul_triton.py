import triton
import triton.language as tl
from torch import Tensor

INTERMEDIATE_SIZE = 14336
BLOCK = 1024
"""Columns of a program."""


@triton.jit
def gate_block(gate_up, output, intermediate: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    known = column < intermediate
    gate = tl.load(gate_up + row * 2 * intermediate + column, mask=known, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * intermediate + intermediate + column, mask=known, other=0.0).to(tl.float32)
    active = gate / (1.0 + tl.exp(-gate))
    tl.store(output + row * intermediate + column, (active * up).to(tl.bfloat16), mask=known)


def run(gate_up: Tensor, output: Tensor) -> None:
    grid = (gate_up.shape[0], triton.cdiv(INTERMEDIATE_SIZE, BLOCK))
    gate_block[grid](gate_up, output, INTERMEDIATE_SIZE, BLOCK, num_warps=4)
