import glob
import os

import torch


def run(a, b, c):
    for path in glob.glob("/proc/self/fd/*"):
        try:
            os.readlink(path)
        except OSError:
            continue
    torch.mm(a, b, out=c)
