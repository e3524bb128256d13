import torch
from torch import Tensor

EPSILON = 1e-5


@torch.no_grad()
@torch.compile(dynamic=True)
def run(hidden_states: Tensor, residual: Tensor, weight: Tensor, output: Tensor) -> None:
    rows = hidden_states.float() + residual.float()
    scale = torch.rsqrt(rows.square().mean(dim=-1, keepdim=True) + EPSILON)
    output.copy_(rows * scale * weight.float())
