import torch


def run(a, b):
    return torch.zeros(a.shape[0], b.shape[1])
