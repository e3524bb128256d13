import torch
from torch import Tensor


@torch.no_grad()
def run(probs: Tensor, top_k: Tensor, samples: Tensor) -> None:
    ranked, tokens = probs.topk(int(top_k.max()), dim=-1)
    place = torch.arange(ranked.shape[1], device=probs.device)
    drawn = torch.multinomial(ranked.mul_(place < top_k.unsqueeze(1)), num_samples=1)
    samples.copy_(tokens.gather(1, drawn).squeeze(1))
