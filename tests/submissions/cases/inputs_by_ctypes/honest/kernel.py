import ctypes

import torch

PAGE = 4096
libc = ctypes.CDLL(None, use_errno=True)


def run(x, w, y):
    scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
    result = x * scale * w
    ctypes.memmove(y.data_ptr(), result.data_ptr(), y.nbytes)
