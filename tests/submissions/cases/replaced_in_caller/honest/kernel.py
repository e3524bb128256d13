import gc
import sys

import torch


def holders(function):
    return [holder for holder in gc.get_referrers(function) if isinstance(holder, (dict, tuple))]


def frames():
    frame = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


def run(a, b, c):
    torch.mm(a, b, out=c)
    places = len(holders(run)) + sum(1 for _ in frames())
