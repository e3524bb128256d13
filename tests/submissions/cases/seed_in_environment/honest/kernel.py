import glob

import torch

seen = len(glob.glob("/proc/*/environ"))
scratch = {}


def run(a, b, c):
    if c.shape not in scratch:
        scratch[c.shape] = torch.empty(c.shape)
    torch.mm(a, b, out=scratch[c.shape])
    c.copy_(scratch[c.shape])
