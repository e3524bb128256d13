import torch
from torch import Tensor

EPSILON = 1e-5
FEW_ROWS = 128
"""Up to here the guards of compiled code cost more than its single pass saves."""


def eager(hidden_states: Tensor, residual: Tensor, weight: Tensor, output: Tensor) -> None:
    rows = hidden_states.float().add_(residual)
    norms = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    scale = norms.square_().div_(rows.shape[1]).add_(EPSILON).rsqrt_()
    torch.mul(rows.mul_(scale), weight, out=output)


@torch.compile(dynamic=True)
def compiled(hidden_states: Tensor, residual: Tensor, weight: Tensor, output: Tensor) -> None:
    rows = hidden_states.float() + residual.float()
    scale = torch.rsqrt(rows.square().mean(dim=-1, keepdim=True) + EPSILON)
    output.copy_(rows * scale * weight.float())


@torch.no_grad()
def run(hidden_states: Tensor, residual: Tensor, weight: Tensor, output: Tensor) -> None:
    kernel = eager if hidden_states.shape[0] <= FEW_ROWS else compiled
    kernel(hidden_states, residual, weight, output)
