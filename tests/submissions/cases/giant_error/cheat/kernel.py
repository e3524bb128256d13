import torch


def run(a, b, c):
    raise ValueError("x" * (128 << 20))
