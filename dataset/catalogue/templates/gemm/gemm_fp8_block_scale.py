import torch
from torch import Tensor

BLOCK = 128


@torch.no_grad()
def run(A: Tensor, A_scale: Tensor, B: Tensor, B_scale: Tensor) -> Tensor:
    depth = A.shape[1]
    # One scale for each 128 elements of a row of A, and for each 128 x 128 block of B.
    left = A.to(torch.float32) * A_scale.repeat_interleave(BLOCK, dim=1)[:, :depth]
    spread = B_scale.repeat_interleave(BLOCK, dim=0)[: B.shape[0]].repeat_interleave(BLOCK, dim=1)[:, :depth]
    right = B.to(torch.float32) * spread
    return (left @ right.T).to(torch.bfloat16)
