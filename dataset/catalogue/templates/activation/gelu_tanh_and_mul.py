import math

import torch
from torch import Tensor


@torch.no_grad()
def run(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.to(torch.float32).chunk(2, dim=-1)
    inner = math.sqrt(2.0 / math.pi) * (gate + 0.044715 * gate**3)
    gelu = 0.5 * gate * (1.0 + torch.tanh(inner))
    return (gelu * up).to(gate_up.dtype)
