import sys

import torch

sys.setrecursionlimit(1 << 30)


class Endless:
    def __getattr__(self, name):
        return getattr(self, name + "x")

    def __repr__(self):
        return str([self])


def run(a, b, c):
    repr(Endless())
