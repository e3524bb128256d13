import math

import torch
from torch import Tensor


@torch.no_grad()
def run(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    qo_indptr: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    kv_last_page_len: Tensor,
    sm_scale: float,
) -> tuple[Tensor, Tensor]:
    latent_queries = q_nope.to(torch.float32) * sm_scale
    rotary_queries = q_pe.to(torch.float32) * sm_scale
    output = torch.zeros(q_nope.shape, dtype=torch.float32, device=q_nope.device)
    lse = torch.full(q_nope.shape[:2], -math.inf, dtype=torch.float32, device=q_nope.device)
    q_bounds, kv_bounds = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(q_bounds) - 1):
        start, stop = q_bounds[sequence], q_bounds[sequence + 1]
        pages = kv_indices[kv_bounds[sequence] : kv_bounds[sequence + 1]].to(torch.int64)
        length = max(0, len(pages) - 1) * ckv_cache.shape[1] + (int(kv_last_page_len[sequence]) if len(pages) else 0)
        start = max(start, stop - length)  # Earlier queries see nothing.
        if start == stop:
            continue
        last_seen = torch.arange(length - (stop - start), length, device=q_nope.device).unsqueeze(1)
        hidden = torch.arange(length, device=q_nope.device) > last_seen  # [query, token]
        latents = ckv_cache[pages].flatten(0, 1)[:length].to(torch.float32)  # [token, dim], the values too
        rotary_keys = kpe_cache[pages].flatten(0, 1)[:length].to(torch.float32)
        for head in range(q_nope.shape[1]):  # One at a time keeps the logits small.
            logits = latent_queries[start:stop, head] @ latents.T + rotary_queries[start:stop, head] @ rotary_keys.T
            logits = logits.masked_fill(hidden, -math.inf)
            output[start:stop, head] = logits.softmax(dim=-1) @ latents
            lse[start:stop, head] = logits.logsumexp(dim=-1) / math.log(2.0)
    return output.to(q_nope.dtype), lse
