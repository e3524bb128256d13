import os

import torch

MOST = 1


def run(a, b, c):
    for _ in range(MOST):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    torch.mm(a, b, out=c)
