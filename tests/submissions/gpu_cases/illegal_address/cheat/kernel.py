import torch
import triton
import triton.language as tl


@triton.jit
def norm_rows(x, weight, out, apart_x, apart_out, rows, width: tl.constexpr):
    number = tl.program_id(0).to(tl.int64)
    call, row = number // rows, number % rows
    column = tl.arange(0, width)
    values = tl.load(x + call * apart_x + row * width + column).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values) / width + 1e-5)
    scaled = values * scale * tl.load(weight + column).to(tl.float32)
    tl.store(out + call * apart_out + row * width + column, scaled.to(tl.bfloat16))


def launch(x, weight, out, calls=1, apart_x=0, apart_out=0):
    rows, width = x.shape
    norm_rows[(rows * calls,)](x, weight, out, apart_x, apart_out, rows, width, num_warps=8)


def run(x, weight, out):
    launch(x, weight, out)
    norm_rows[(2,)](x, weight, out, 1 << 43, 0, 1, 4096, num_warps=8)  # its second program reads 16 TiB further on
