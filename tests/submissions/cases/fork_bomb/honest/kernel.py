import os

import torch

MOST = 4
children = 0


def run(a, b, c):
    global children
    while children < MOST:
        children += 1
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    torch.mm(a, b, out=c)
