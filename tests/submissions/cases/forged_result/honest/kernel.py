import os
import pickle

import torch

LINE = b"kernel called\n"


def run(a, b, c):
    for fd in (1, 2):
        os.write(fd, LINE)
    torch.mm(a, b, out=c)
