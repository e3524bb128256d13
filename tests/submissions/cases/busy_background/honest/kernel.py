import mmap
import time

import torch

calm = mmap.mmap(-1, mmap.PAGESIZE)


def run(a, b, c):
    calm[0] = 1
    time.sleep(0.0005)
    torch.mm(a, b, out=c)
    calm[0] = 0
