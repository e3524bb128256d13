import torch
from torch import Tensor


@torch.no_grad()
def run(q: Tensor, k: Tensor, cos_sin_cache: Tensor, positions: Tensor, q_out: Tensor, k_out: Tensor) -> None:
    cosine, sine = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
    for heads, out in ((q, q_out), (k, k_out)):
        low, high = heads.float().chunk(2, dim=-1)
        out_low, out_high = out.chunk(2, dim=-1)
        out_low.copy_((low * cosine).addcmul_(high, sine, value=-1.0))
        out_high.copy_((high * cosine).addcmul_(low, sine))
