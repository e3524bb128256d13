import os
import pickle

import torch

LINE = b"kernel loaded\n"

for fd in (1, 2):
    os.write(fd, LINE)


def run(a, b, c):
    torch.mm(a, b, out=c)
