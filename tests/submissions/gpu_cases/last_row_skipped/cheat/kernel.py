import torch


def norm(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-5)


def run(x, weight, out):
    out[:-1].copy_(norm(x[:-1], weight))
