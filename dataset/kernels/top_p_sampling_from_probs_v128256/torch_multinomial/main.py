import torch
from torch import Tensor


@torch.no_grad()
def run(probs: Tensor, top_p: Tensor, samples: Tensor) -> None:
    ranked, tokens = probs.sort(dim=-1, descending=True)
    before = ranked.cumsum(dim=-1).sub_(ranked)
    outside = before >= top_p.unsqueeze(1)
    outside[:, 0] = False
    place = torch.multinomial(ranked.masked_fill_(outside, 0.0), 1)
    samples.copy_(tokens.gather(1, place).squeeze(1))
