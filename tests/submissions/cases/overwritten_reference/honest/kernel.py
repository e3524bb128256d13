import os
import sys

import torch

folders = [folder for folder in [os.getcwd(), *sys.path] if os.path.isdir(folder)]


def run(a, b, c):
    torch.mm(a, b, out=c)
