import torch
from torch import Tensor


@torch.no_grad()
def run(probs: Tensor, top_p: Tensor, samples: Tensor) -> None:
    ranked, tokens = probs.sort(dim=-1, descending=True)
    cumulative = ranked.cumsum(dim=-1)
    last = torch.searchsorted(cumulative, top_p.unsqueeze(1)).clamp_(max=probs.shape[1] - 1)
    drawn = cumulative.gather(1, last) * torch.rand_like(top_p).unsqueeze(1)
    place = torch.minimum(torch.searchsorted(cumulative, drawn, right=True), last)
    samples.copy_(tokens.gather(1, place).squeeze(1))
