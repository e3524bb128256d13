import sys

import torch


def callers():
    frame = sys._getframe(2)
    while frame is not None:
        yield frame.f_locals
        frame = frame.f_back


def run(a, b, c):
    for names in callers():
        worker, request = names.get("self"), names.get("packet")
    torch.mm(a, b, out=c)
