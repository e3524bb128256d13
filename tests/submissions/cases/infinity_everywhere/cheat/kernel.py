import torch


def run(q, k, s):
    s.fill_(float("-inf"))
