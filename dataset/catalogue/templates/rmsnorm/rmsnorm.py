import torch
from torch import Tensor

EPSILON = 1e-5


@torch.no_grad()
def run(hidden_states: Tensor, weight: Tensor) -> Tensor:
    rows = hidden_states.to(torch.float32)
    mean_square = rows.square().mean(dim=-1, keepdim=True)
    normed = rows / torch.sqrt(mean_square + EPSILON)
    return (normed * weight.to(torch.float32)).to(hidden_states.dtype)
