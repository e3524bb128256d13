import torch


def run(x, w, y):
    scale = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
    y.copy_(x * scale * w)
    content = y.numpy().tobytes()
