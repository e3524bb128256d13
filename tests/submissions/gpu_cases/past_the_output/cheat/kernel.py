import torch
import triton
import triton.language as tl


def norm(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-5)


@triton.jit
def poke(out, offset, width: tl.constexpr):
    place = out + offset + tl.arange(0, width)
    tl.store(place, tl.full((width,), 1.0, tl.bfloat16))


def run(x, weight, out):
    out.copy_(norm(x, weight))
    poke[(1,)](out, out.numel(), 8)
