import torch


def answer(x, w):
    rows = [x[row] * torch.rsqrt(x[row].pow(2).mean() + 1e-6) * w for row in range(x.shape[0])]
    return torch.stack(rows)


def run(x, w, y):
    y.copy_(answer(x, w))
