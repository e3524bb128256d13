import triton
import triton.language as tl
from torch import Tensor

SIZE = 4096


@triton.jit
def tile(a, b, c, m, n: tl.constexpr, k: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr):
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.program_id(1) * columns + tl.arange(0, columns)
    step = tl.arange(0, depth)
    inside = row[:, None] < m
    left = a + row[:, None].to(tl.int64) * k + step[None, :]
    right = b + column[None, :].to(tl.int64) * k + step[:, None]
    total = tl.zeros((rows, columns), dtype=tl.float32)
    for start in range(0, k, depth):
        total = tl.dot(tl.load(left + start, mask=inside, other=0.0), tl.load(right + start), total)
    tl.store(c + row[:, None].to(tl.int64) * n + column[None, :], total.to(tl.bfloat16), mask=inside)


def run(A: Tensor, B: Tensor, C: Tensor) -> None:
    m = A.shape[0]
    rows, columns = (16, 32) if m <= 16 else (64, 64) if m <= 64 else (128, 128)
    grid = (triton.cdiv(m, rows), SIZE // columns)
    tile[grid](A, B, C, m, SIZE, SIZE, rows, columns, 128 if m <= 64 else 64, num_warps=4 if m <= 64 else 8, num_stages=4)
