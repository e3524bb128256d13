import torch
from torch import Tensor


@torch.no_grad()
def run(probs: Tensor, top_k: Tensor) -> Tensor:
    ranked, tokens = probs.to(torch.float32).sort(dim=-1, descending=True)
    place = torch.arange(probs.shape[1], device=probs.device)
    drawn = torch.multinomial(ranked * (place < top_k.unsqueeze(1)), num_samples=1)
    return tokens.gather(1, drawn).squeeze(1)
