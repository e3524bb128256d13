import torch
from torch import Tensor


@torch.no_grad()
def run(logits: Tensor, log_probs: Tensor) -> None:
    torch.log_softmax(logits, dim=-1, out=log_probs)
