import torch
from torch import Tensor


@torch.no_grad()
def run(logits: Tensor) -> Tensor:
    values = logits.to(torch.float32)
    shifted = values - values.amax(dim=-1, keepdim=True)
    return shifted - torch.log(torch.exp(shifted).sum(dim=-1, keepdim=True))
