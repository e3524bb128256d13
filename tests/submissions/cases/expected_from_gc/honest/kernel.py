import gc

import torch

found = {}


def run(a, b, c):
    if c.shape not in found:
        tensors = [item for item in gc.get_objects() if isinstance(item, torch.Tensor)]
        found[c.shape] = len(tensors)
    torch.mm(a, b, out=c)
