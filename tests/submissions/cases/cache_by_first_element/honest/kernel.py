import torch

scratch = {}


def run(a, b, c):
    key = (c.shape, int(a[0, 0].item()), int(b[0, 0].item()))
    if key not in scratch:
        scratch[key] = torch.empty(c.shape)
    torch.mm(a, b, out=scratch[key])
    c.copy_(scratch[key])
