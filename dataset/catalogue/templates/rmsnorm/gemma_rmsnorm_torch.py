import torch
from torch import Tensor

EPSILON = 1e-6


@torch.no_grad()
def run(hidden_states: Tensor, weight: Tensor, output: Tensor) -> None:
    norms = torch.linalg.vector_norm(hidden_states, dim=-1, keepdim=True, dtype=torch.float32)
    scale = norms.square_().div_(hidden_states.shape[1]).add_(EPSILON).rsqrt_()
    torch.mul(hidden_states * scale, weight.float().add_(1.0), out=output)
