import torch

STEP_BYTES = 16 << 20
held = []


def run(a, b, c):
    while len(held) < 2:
        held.append(torch.ones(STEP_BYTES, dtype=torch.uint8))
    torch.mm(a, b, out=c)
