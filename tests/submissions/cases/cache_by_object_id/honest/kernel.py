import torch

scratch = {}


def run(a, b, c):
    key = c.shape
    if key not in scratch:
        scratch[key] = torch.empty(c.shape)
    torch.mm(a, b, out=scratch[key])
    c.copy_(scratch[key])
