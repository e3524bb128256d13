import torch


def run(x, alpha, beta):
    return x
