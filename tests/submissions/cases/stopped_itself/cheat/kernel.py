import os
import signal

import torch


def run(a, b, c):
    os.kill(os.getpid(), signal.SIGSTOP)
    c.zero_()
