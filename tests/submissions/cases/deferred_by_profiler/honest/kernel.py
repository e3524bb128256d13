import sys

import torch

calls = 0


def hook(frame, event, function):
    global calls
    calls += event == "c_return"


def run(a, b, c):
    sys.setprofile(hook)
    torch.mm(a, b, out=c)
    sys.setprofile(None)
