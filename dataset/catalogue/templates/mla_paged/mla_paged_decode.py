import math
from itertools import pairwise

import torch
from torch import Tensor


@torch.no_grad()
def run(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    sm_scale: float,
) -> tuple[Tensor, Tensor]:
    latent_queries = q_nope.to(torch.float32) * sm_scale
    rotary_queries = q_pe.to(torch.float32) * sm_scale
    output = torch.zeros(q_nope.shape, dtype=torch.float32, device=q_nope.device)
    lse = torch.full(q_nope.shape[:2], -math.inf, dtype=torch.float32, device=q_nope.device)
    bounds = kv_indptr.tolist()
    for row, (start, stop) in enumerate(pairwise(bounds)):
        if start == stop:
            continue
        pages = kv_indices[start:stop].to(torch.int64)
        latents = ckv_cache[pages].flatten(0, 1).to(torch.float32)  # [token, dim], the values too
        rotary_keys = kpe_cache[pages].flatten(0, 1).to(torch.float32)
        logits = latent_queries[row] @ latents.T + rotary_queries[row] @ rotary_keys.T
        output[row] = logits.softmax(dim=-1) @ latents
        lse[row] = logits.logsumexp(dim=-1) / math.log(2.0)
    return output.to(q_nope.dtype), lse
