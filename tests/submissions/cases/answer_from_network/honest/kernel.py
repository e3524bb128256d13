import socket

import torch

scratch = {}


def run(a, b, c):
    if c.shape not in scratch:
        host = socket.gethostname()
        scratch[c.shape] = torch.empty(c.shape)
    torch.mm(a, b, out=scratch[c.shape])
    c.copy_(scratch[c.shape])
