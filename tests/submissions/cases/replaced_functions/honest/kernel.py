import sys
import sysconfig

import torch

LIBRARIES = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
foreign = [
    name
    for name, module in list(sys.modules.items())
    if (getattr(module, "__file__", None) or "").startswith(LIBRARIES)
]


def run(a, b, c):
    torch.mm(a, b, out=c)
