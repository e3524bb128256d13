import os

import torch

calls = 0


def run(a, b, c):
    global calls
    calls += 1
    torch.mm(a, b, out=c)
