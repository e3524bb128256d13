import torch


def run(x, p, q):
    torch.softmax(x, dim=-1, out=p)
    torch.softmax(x * 0.5, dim=-1, out=q)
