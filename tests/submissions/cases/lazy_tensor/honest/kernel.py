import torch


class Lazy:
    def __init__(self, a, b):
        self.operands = (a, b)

    def compute(self):
        return torch.mm(*self.operands)


def run(a, b):
    return Lazy(a, b).compute()
