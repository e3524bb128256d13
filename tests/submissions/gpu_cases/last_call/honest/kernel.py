import torch


def norm(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-5)


last = {}


def run(x, weight, out):
    last[x.shape] = norm(x, weight)
    out.copy_(last[x.shape])
