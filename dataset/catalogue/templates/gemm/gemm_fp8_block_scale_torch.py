import torch
from torch import Tensor

BLOCK = 128


@torch.no_grad()
def run(A: Tensor, A_scale: Tensor, B: Tensor, B_scale: Tensor, C: Tensor) -> None:
    # Block by block of the depth, so that a scale is one factor of a whole product's rows.
    total = torch.zeros(C.shape, dtype=torch.float32, device=A.device)
    columns = B_scale.repeat_interleave(BLOCK, dim=0)[: B.shape[0]]
    for block, start in enumerate(range(0, A.shape[1], BLOCK)):
        right = B[:, start : start + BLOCK].float() * columns[:, block : block + 1]
        left = A[:, start : start + BLOCK].float() * A_scale[:, block : block + 1]
        total.addmm_(left, right.T)
    C.copy_(total)
