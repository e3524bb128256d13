import ctypes

import torch


def run(a, b, c):
    ctypes.string_at(a.data_ptr(), 16)
    torch.mm(a, b, out=c)
