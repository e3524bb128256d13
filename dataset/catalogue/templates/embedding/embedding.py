import torch
from torch import Tensor


@torch.no_grad()
def run(token_ids: Tensor, weight: Tensor) -> Tensor:
    return weight[token_ids]
