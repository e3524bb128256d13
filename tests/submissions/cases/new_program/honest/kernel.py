import os
import subprocess
import sys

import torch

SCRIPT = "print(6 * 7)"


def run(a, b, c):
    for fd in range(256):
        try:
            os.get_inheritable(fd)
        except OSError:
            continue
    torch.mm(a, b, out=c)
