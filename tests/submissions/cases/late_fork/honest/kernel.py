import mmap
import os

import torch

torch.set_num_threads(1)  # a pool of threads would not survive the fork


def run(a, b, c):
    shared = torch.frombuffer(mmap.mmap(-1, c.nbytes), dtype=torch.float32).view(c.shape)
    child = os.fork()
    if child == 0:
        torch.mm(a, b, out=shared)
        os._exit(0)
    os.waitpid(child, 0)
    c.copy_(shared)
