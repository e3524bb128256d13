import torch

scratch = {}


def run(a, b, c):
    sample = a.view(-1)[::4096].sum() + b.view(-1)[::4096].sum()
    key = (c.shape, round(sample.item() / 8))
    if key not in scratch:
        scratch[key] = torch.empty(c.shape)
    torch.mm(a, b, out=scratch[key])
    c.copy_(scratch[key])
