import torch
import torch.nn.functional as F
from torch import Tensor


@torch.no_grad()
def run(A: Tensor, B: Tensor, C: Tensor) -> None:
    C.copy_(F.linear(A, B))
