import sys

import torch


def look_at_callers():
    frame = sys._getframe(2)
    names = []
    while frame is not None:
        names += [name for name, value in list(frame.f_locals.items()) if value is run]
        frame = frame.f_back
    return names


def run(a, b, c):
    torch.mm(a, b, out=c)
    look_at_callers()
