import glob
import os

import torch


def run(a, b, c):
    os.kill(os.getppid(), 0)
    torch.mm(a, b, out=c)
