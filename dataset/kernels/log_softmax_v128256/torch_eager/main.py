import torch
from torch import Tensor


@torch.no_grad()
def run(logits: Tensor, log_probs: Tensor) -> None:
    torch.sub(logits, logits.logsumexp(dim=-1, keepdim=True), out=log_probs)
