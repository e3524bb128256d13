import torch


def norm(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-5)


kept = {}


def run(x, weight, out):
    key = (x.data_ptr(), x.shape)
    kept[key] = norm(x, weight)
    out.copy_(kept.pop(key))
