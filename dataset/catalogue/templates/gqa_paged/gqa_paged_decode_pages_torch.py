import math

import torch
from torch import Tensor


@torch.no_grad()
def run(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    kv_last_page_len: Tensor,
    sm_scale: float,
    output: Tensor,
    lse: Tensor,
) -> None:
    batch_size, _, head_dim = q.shape
    page_size, kv_heads = k_cache.shape[1:3]
    queries = q.view(batch_size, 1, kv_heads, -1, head_dim)
    out = output.view_as(queries)
    out_lse = lse.view(batch_size, 1, kv_heads, -1)
    bounds = kv_indptr.tolist()
    last = kv_last_page_len.tolist()
    for row in range(batch_size):
        start, stop = bounds[row], bounds[row + 1]
        if start == stop:
            out[row] = 0.0
            out_lse[row] = -math.inf
            continue
        pages = kv_indices[start:stop]
        length = (stop - start - 1) * page_size + last[row]
        keys = k_cache.index_select(0, pages).flatten(0, 1)[:length].transpose(0, 1).unsqueeze(0)
        values = v_cache.index_select(0, pages).flatten(0, 1)[:length].transpose(0, 1).unsqueeze(0)
        mixed, natural_lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            queries[row], keys, values, scale=sm_scale
        )
        out[row] = mixed
        torch.mul(natural_lse, 1 / math.log(2.0), out=out_lse[row])
