import torch


def norm(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-5)


def run(x, weight, out):
    out.copy_(norm(x, weight))
    out.as_strided((8,), (1,), out.storage_offset() + out.numel() - 8).mul_(1.0)
