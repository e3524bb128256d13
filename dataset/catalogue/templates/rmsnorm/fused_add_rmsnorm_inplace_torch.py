import torch
from torch import Tensor

EPSILON = 1e-5


@torch.no_grad()
def run(hidden_states: Tensor, residual: Tensor, weight: Tensor) -> None:
    rows = hidden_states.float().add_(residual)
    residual.copy_(rows)
    norms = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    scale = norms.square_().div_(rows.shape[1]).add_(EPSILON).rsqrt_()
    torch.mul(rows.mul_(scale), weight, out=hidden_states)
