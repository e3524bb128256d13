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
    sm_scale: float,
    output: Tensor,
    lse: Tensor,
) -> None:
    output.zero_()
    lse.fill_(-math.inf)
    q_bounds, kv_bounds = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(q_bounds) - 1):
        start, stop = q_bounds[sequence], q_bounds[sequence + 1]
        pages = kv_indices[kv_bounds[sequence] : kv_bounds[sequence + 1]]
        length = len(pages)
        start = max(start, stop - length)
        if start == stop:
            continue
        latents = ckv_cache.index_select(0, pages).flatten(0, 1)
        keys = torch.cat([latents, kpe_cache.index_select(0, pages).flatten(0, 1)], dim=-1)
        queries = torch.cat([q_nope[start:stop], q_pe[start:stop]], dim=-1).transpose(0, 1)
        mask = torch.full((stop - start, length), -math.inf, dtype=q_nope.dtype).triu_(length - (stop - start) + 1)
        shared = keys[None, None].expand(-1, queries.shape[0], -1, -1)
        mixed, natural_lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            queries[None], shared, shared, attn_mask=mask, scale=sm_scale
        )
        output[start:stop] = mixed[0, :, :, : latents.shape[1]].transpose(0, 1)
        lse[start:stop] = natural_lse[0].T / math.log(2.0)
