import torch


def run(a, b):
    return []
