import os

import torch

STEP = bytes(1 << 20)


def run(a, b, c):
    with open("/tmp/scratch", "wb", buffering=0) as file:
        file.write(STEP)
    os.unlink("/tmp/scratch")
    torch.mm(a, b, out=c)
