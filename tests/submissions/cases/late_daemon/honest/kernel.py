import os

import torch

torch.set_num_threads(1)
served = set()


def run(a, b, c):
    if c.data_ptr() not in served and len(served) < 16:
        served.add(c.data_ptr())
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    torch.mm(a, b, out=c)
