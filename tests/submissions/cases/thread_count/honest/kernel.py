import torch

every_core = torch.get_num_threads()


def run(a, b, c):
    torch.set_num_threads(every_core)
    torch.mm(a, b, out=c)
