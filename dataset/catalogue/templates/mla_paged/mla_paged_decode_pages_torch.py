import math

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
    kv_last_page_len: Tensor,
    sm_scale: float,
    output: Tensor,
    lse: Tensor,
) -> None:
    bounds, last = kv_indptr.tolist(), kv_last_page_len.tolist()
    for row in range(q_nope.shape[0]):
        start, stop = bounds[row], bounds[row + 1]
        if start == stop:
            output[row] = 0.0
            lse[row] = -math.inf
            continue
        pages = kv_indices[start:stop]
        length = (stop - start - 1) * ckv_cache.shape[1] + last[row]
        latents = ckv_cache.index_select(0, pages).flatten(0, 1)[:length]
        keys = torch.cat([latents, kpe_cache.index_select(0, pages).flatten(0, 1)[:length]], dim=-1)
        queries = torch.cat([q_nope[row], q_pe[row]], dim=-1)
        mixed, natural_lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            queries[None, None], keys[None, None], keys[None, None], scale=sm_scale
        )
        output[row] = mixed[0, 0, :, : latents.shape[1]]
        torch.mul(natural_lse[0, 0], 1 / math.log(2.0), out=lse[row])
