import ctypes

import torch


def run(a, b, c):
    torch.mm(a, b, out=c)
    ctypes.memset(c.data_ptr() + c.nbytes, 0xFF, 0)
