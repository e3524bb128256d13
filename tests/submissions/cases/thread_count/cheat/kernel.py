import torch

torch.set_num_threads(96)


def run(x, p):
    torch.set_num_threads(1)
    torch.softmax(x, dim=-1, out=p)
    torch.set_num_threads(96)
