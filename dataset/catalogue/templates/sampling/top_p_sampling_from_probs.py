import torch
from torch import Tensor


@torch.no_grad()
def run(probs: Tensor, top_p: Tensor) -> Tensor:
    ranked, tokens = probs.to(torch.float32).sort(dim=-1, descending=True)
    mass_before = ranked.cumsum(dim=-1) - ranked
    nucleus = mass_before < top_p.to(torch.float32).unsqueeze(1)
    nucleus[:, 0] = True
    drawn = torch.multinomial(ranked * nucleus, num_samples=1)
    return tokens.gather(1, drawn).squeeze(1)
