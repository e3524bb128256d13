import torch


def run(x):
    return (torch.softmax(x, dim=-1), torch.softmax(x * 0.5, dim=-1))
