import ctypes

import torch

# Freed blocks stay with malloc instead of going back to the system: M_MMAP_THRESHOLD, M_TRIM_THRESHOLD.
ctypes.CDLL(None).mallopt(-3, 1 << 30)
ctypes.CDLL(None).mallopt(-1, 1 << 30)


def run(a, b):
    return torch.mm(a, b)
