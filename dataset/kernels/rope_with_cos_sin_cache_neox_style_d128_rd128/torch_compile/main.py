import torch
from torch import Tensor


def rotated(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    low, high = heads.float().chunk(2, dim=-1)
    return torch.cat([low * cosine - high * sine, high * cosine + low * sine], dim=-1)


@torch.no_grad()
@torch.compile(dynamic=True)
def run(q: Tensor, k: Tensor, cos_sin_cache: Tensor, positions: Tensor, q_out: Tensor, k_out: Tensor) -> None:
    cosine, sine = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
    q_out.copy_(rotated(q, cosine, sine))
    k_out.copy_(rotated(k, cosine, sine))
