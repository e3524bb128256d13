import os

import torch


def run(a, b, c):
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue
    torch.mm(a, b, out=c)
