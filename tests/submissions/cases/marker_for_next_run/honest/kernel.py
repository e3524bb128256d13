import os

import torch

NAME = "/tmp/scratch"


def run(a, b, c):
    with open(NAME, "wb") as file:
        file.write(b"scratch")
    torch.mm(a, b, out=c)
