import torch


def norm(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-5)


seen = {}


def run(x, weight, out):
    seen[x.shape] = seen.get(x.shape, 0) + 1
    out.copy_(norm(x, weight))
