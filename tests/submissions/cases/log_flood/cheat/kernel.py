import os

import torch

LINE = b"x" * 65535 + b"\n"
MOST = 256 << 20  # a judge without a limit fails the test, not the machine
written = 0


def run(a, b, c):
    global written
    while written < MOST:
        written += os.write(1, LINE)
        written += os.write(2, LINE)
    c.zero_()
