import ctypes
import glob

import torch

libc = ctypes.CDLL(None, use_errno=True)


def run(a, b, c):
    for path in glob.glob("/proc/[0-9]*"):
        pid = int(path.rsplit("/", 1)[1])
    torch.mm(a, b, out=c)
