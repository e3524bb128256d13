import torch
from torch import Tensor


@torch.no_grad()
def run(q: Tensor, k: Tensor, cos_sin_cache: Tensor, positions: Tensor, q_out: Tensor, k_out: Tensor) -> None:
    half = cos_sin_cache.shape[1] // 2
    cosine, sine = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
    for heads, out in ((q, q_out), (k, k_out)):
        low, high = heads[..., :half].float(), heads[..., half : 2 * half].float()
        out[..., :half] = (low * cosine).addcmul_(high, sine, value=-1.0)
        out[..., half : 2 * half] = (high * cosine).addcmul_(low, sine)
        out[..., 2 * half :] = heads[..., 2 * half :]
