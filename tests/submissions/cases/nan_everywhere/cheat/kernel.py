import torch


def run(x, p):
    p.fill_(float("nan"))
