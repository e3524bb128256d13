import glob
import os

import torch


def run(a, b, c):
    open("/proc/self/maps").read()
    torch.mm(a, b, out=c)
