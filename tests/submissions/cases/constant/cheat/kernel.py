import torch


def run(x, p):
    p.fill_(1.0 / p.shape[1])
