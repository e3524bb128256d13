import torch
from torch import Tensor

EPSILON = 1e-5


@torch.no_grad()
def run(hidden_states: Tensor, residual: Tensor, weight: Tensor, output: Tensor) -> None:
    rows = hidden_states.float().add_(residual)
    scale = torch.rsqrt(rows.square().mean(dim=-1, keepdim=True).add_(EPSILON))
    output.copy_(rows.mul_(scale).mul_(weight))
