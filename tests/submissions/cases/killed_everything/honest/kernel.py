import glob
import os

import torch


def run(a, b, c):
    for path in glob.glob("/proc/[0-9]*"):
        pid = int(path.rsplit("/", 1)[1])
    torch.mm(a, b, out=c)
