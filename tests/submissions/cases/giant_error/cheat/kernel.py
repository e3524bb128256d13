import torch


def run(a, b, c):
    raise ValueError("x" * (512 << 20))
