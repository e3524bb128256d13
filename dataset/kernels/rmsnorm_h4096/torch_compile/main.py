import torch
from torch import Tensor

EPSILON = 1e-5
FEW_ROWS = 128
"""Up to here the guards of compiled code cost more than its single pass saves."""


def eager(hidden_states: Tensor, weight: Tensor, output: Tensor) -> None:
    norms = torch.linalg.vector_norm(hidden_states, dim=-1, keepdim=True, dtype=torch.float32)
    scale = norms.square_().div_(hidden_states.shape[1]).add_(EPSILON).rsqrt_()
    torch.mul(hidden_states * scale, weight, out=output)


@torch.compile(dynamic=True)
def compiled(hidden_states: Tensor, weight: Tensor, output: Tensor) -> None:
    rows = hidden_states.float()
    scale = torch.rsqrt(rows.square().mean(dim=-1, keepdim=True) + EPSILON)
    output.copy_(rows * scale * weight.float())


@torch.no_grad()
def run(hidden_states: Tensor, weight: Tensor, output: Tensor) -> None:
    kernel = eager if hidden_states.shape[0] <= FEW_ROWS else compiled
    kernel(hidden_states, weight, output)
