import torch
from torch import Tensor


@torch.no_grad()
def run(probs: Tensor, top_k: Tensor, top_p: Tensor, samples: Tensor) -> None:
    ranked, tokens = probs.topk(int(top_k.max()), dim=-1)
    ranked.mul_(torch.arange(ranked.shape[1], device=probs.device) < top_k.unsqueeze(1))
    cumulative = ranked.cumsum(dim=-1)
    kept = cumulative[:, -1:] * top_p.unsqueeze(1)
    beyond = cumulative - ranked >= kept
    beyond[:, 0] = False
    ranked.masked_fill_(beyond, 0.0)
    drawn = torch.multinomial(ranked, num_samples=1)
    samples.copy_(tokens.gather(1, drawn).squeeze(1))
