import os

import torch

LINE = b"x" * 63 + b"\n"
MOST = 64 << 10
written = 0


def run(a, b, c):
    global written
    while written < MOST:
        written += os.write(1, LINE)
        written += os.write(2, LINE)
    torch.mm(a, b, out=c)
