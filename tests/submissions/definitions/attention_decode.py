import torch


def run(q, k, v, o):
    torch.mm(torch.softmax(torch.mm(q, k.T) * 0.125, dim=-1), v, out=o)
