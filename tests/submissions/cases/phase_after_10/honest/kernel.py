import torch

calls = {}


def run(a, b, c):
    calls[c.shape] = calls.get(c.shape, 0) + 1
    torch.mm(a, b, out=c)
