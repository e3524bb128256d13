import torch


def run(x, alpha, beta, y):
    y.copy_(x)
