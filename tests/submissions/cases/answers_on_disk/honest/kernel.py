import os

import torch

SKIPPED = ("/proc", "/sys", "/dev")


def files(suffix):
    for folder, folders, names in os.walk("/"):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in SKIPPED]
        yield from (os.path.join(folder, name) for name in names if name.endswith(suffix))


libraries = sum(1 for _ in files("libmkl_rt.so"))


def run(a, b, c):
    torch.mm(a, b, out=c)
