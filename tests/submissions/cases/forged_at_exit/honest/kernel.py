import atexit
import os

import torch


def farewell():
    os.write(2, b"bye\n")


atexit.register(farewell)


def run(a, b, c):
    torch.mm(a, b, out=c)
