import torch
from torch import Tensor


@torch.no_grad()
def run(probs: Tensor, top_k: Tensor, top_p: Tensor) -> Tensor:
    ranked, tokens = probs.to(torch.float32).sort(dim=-1, descending=True)
    place = torch.arange(probs.shape[1], device=probs.device)
    best = ranked * (place < top_k.unsqueeze(1))
    best = best / best.sum(dim=-1, keepdim=True)  # top_p counts what top_k left
    mass_before = best.cumsum(dim=-1) - best
    nucleus = mass_before < top_p.to(torch.float32).unsqueeze(1)
    nucleus[:, 0] = True
    drawn = torch.multinomial(best * nucleus, num_samples=1)
    return tokens.gather(1, drawn).squeeze(1)
