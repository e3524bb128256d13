import torch
from torch import Tensor


@torch.no_grad()
def run(q: Tensor, k: Tensor, cos_sin_cache: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    angles = cos_sin_cache.to(torch.float32)[positions].unsqueeze(1)
    cosine, sine = angles.chunk(2, dim=-1)

    def rotated(heads: Tensor) -> Tensor:
        low, high = heads.to(torch.float32).chunk(2, dim=-1)
        turned = torch.cat([low * cosine - high * sine, high * cosine + low * sine], dim=-1)
        return turned.to(heads.dtype)

    return rotated(q), rotated(k)
