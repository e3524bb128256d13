import sys

import torch

sys.setrecursionlimit(5000)


class Shallow:
    def __repr__(self):
        return str([1])


def run(a, b, c):
    repr(Shallow())
    torch.mm(a, b, out=c)
