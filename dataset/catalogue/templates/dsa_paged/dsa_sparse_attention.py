import math

import torch
from torch import Tensor


@torch.no_grad()
def run(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
) -> tuple[Tensor, Tensor]:
    latent_queries = q_nope.to(torch.float32) * sm_scale
    rotary_queries = q_pe.to(torch.float32) * sm_scale
    output = torch.zeros(q_nope.shape, dtype=torch.float32, device=q_nope.device)
    lse = torch.full(q_nope.shape[:2], -math.inf, dtype=torch.float32, device=q_nope.device)
    all_latents, all_keys = ckv_cache.flatten(0, 1), kpe_cache.flatten(0, 1)  # [slot, dim]
    for row, slots in enumerate(sparse_indices):
        chosen = slots[slots >= 0].to(torch.int64)
        if len(chosen) == 0:
            continue
        latents = all_latents[chosen].to(torch.float32)  # the values too
        logits = latent_queries[row] @ latents.T + rotary_queries[row] @ all_keys[chosen].to(torch.float32).T
        output[row] = logits.softmax(dim=-1) @ latents
        lse[row] = logits.logsumexp(dim=-1) / math.log(2.0)
    return output.to(q_nope.dtype), lse
