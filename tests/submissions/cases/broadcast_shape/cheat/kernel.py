import torch


def run(x):
    return torch.full((1, x.shape[1]), 1.0 / x.shape[1])
