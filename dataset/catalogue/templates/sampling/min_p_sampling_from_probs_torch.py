import torch
from torch import Tensor


@torch.no_grad()
def run(probs: Tensor, min_p: Tensor, samples: Tensor) -> None:
    kept = probs.masked_fill(probs < probs.amax(dim=-1, keepdim=True) * min_p.unsqueeze(1), 0.0)
    cumulative = kept.cumsum(dim=-1)
    drawn = cumulative[:, -1:] * (1.0 - torch.rand_like(min_p).unsqueeze(1))  # never 0, which no token holds
    samples.copy_(torch.searchsorted(cumulative, drawn).squeeze(1).clamp_(max=probs.shape[1] - 1))
