import gc
import types

import torch

functions = sum(isinstance(item, types.FunctionType) for item in gc.get_objects())


def run(a, b, c):
    torch.mm(a, b, out=c)
