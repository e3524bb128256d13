import sys

import torch


def frames():
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def run(a, b, c):
    depth = sum(1 for _ in frames())
    if depth:
        torch.mm(a, b, out=c)
