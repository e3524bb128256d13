import torch


def norm(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-5)


before = {}


def run(x, weight, out):
    out.copy_(norm(x, weight))
    before[x.shape] = out
