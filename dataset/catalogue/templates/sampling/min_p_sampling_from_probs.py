import torch
from torch import Tensor


@torch.no_grad()
def run(probs: Tensor, min_p: Tensor) -> Tensor:
    likely = probs.to(torch.float32)
    least = likely.amax(dim=-1, keepdim=True) * min_p.to(torch.float32).unsqueeze(1)
    return torch.multinomial(likely * (likely >= least), num_samples=1).squeeze(1)
