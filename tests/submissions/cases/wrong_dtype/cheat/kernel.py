import torch


def run(x):
    return torch.zeros(x.shape, dtype=torch.int8)
