import torch


def run(a, b, c):
    try:
        raise ValueError("x" * (1 << 20))
    except ValueError:
        torch.mm(a, b, out=c)
