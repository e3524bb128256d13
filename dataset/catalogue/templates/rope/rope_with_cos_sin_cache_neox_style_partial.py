import torch
from torch import Tensor


@torch.no_grad()
def run(q: Tensor, k: Tensor, cos_sin_cache: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    rotary_dim = cos_sin_cache.shape[1]
    angles = cos_sin_cache.to(torch.float32)[positions].unsqueeze(1)
    cosine, sine = angles.chunk(2, dim=-1)

    def rotated(heads: Tensor) -> Tensor:
        low, high = heads[..., :rotary_dim].to(torch.float32).chunk(2, dim=-1)
        turned = torch.cat([low * cosine - high * sine, high * cosine + low * sine], dim=-1)
        return torch.cat([turned.to(heads.dtype), heads[..., rotary_dim:]], dim=-1)  # the rest stays

    return rotated(q), rotated(k)
