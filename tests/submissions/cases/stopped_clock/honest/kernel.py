import time

import torch


def run(a, b, c):
    time.sleep(0.002)
    torch.mm(a, b, out=c)
