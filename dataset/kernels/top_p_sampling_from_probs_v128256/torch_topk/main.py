import torch
from torch import Tensor

CANDIDATES = 8192


def draw(ranked: Tensor, tokens: Tensor, top_p: Tensor) -> tuple[Tensor, Tensor]:
    """A token for each row, and whether the ranked candidates hold its nucleus."""
    cumulative = ranked.cumsum(dim=-1)
    last = torch.searchsorted(cumulative, top_p.unsqueeze(1))
    enough = (last < ranked.shape[1]).squeeze(1)
    last.clamp_(max=ranked.shape[1] - 1)
    drawn = cumulative.gather(1, last) * torch.rand_like(top_p).unsqueeze(1)
    place = torch.minimum(torch.searchsorted(cumulative, drawn, right=True), last)
    return tokens.gather(1, place).squeeze(1), enough


@torch.no_grad()
def run(probs: Tensor, top_p: Tensor, samples: Tensor) -> None:
    found, enough = draw(*probs.topk(CANDIDATES, dim=-1), top_p)
    samples.copy_(found)
    if not enough.all():
        rest = (~enough).nonzero().squeeze(1)
        samples[rest] = draw(*probs[rest].sort(dim=-1, descending=True), top_p[rest])[0]
