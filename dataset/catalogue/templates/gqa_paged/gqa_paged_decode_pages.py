import math
from itertools import pairwise

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
) -> tuple[Tensor, Tensor]:
    batch_size, query_heads, head_dim = q.shape
    page_size, kv_heads = k_cache.shape[1:3]
    # Query heads that share a KV head become the rows of one matrix: [batch, kv head, group, dim].
    queries = q.to(torch.float32).reshape(batch_size, kv_heads, query_heads // kv_heads, head_dim) * sm_scale
    output = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    lse = torch.full((batch_size, query_heads), -math.inf, dtype=torch.float32, device=q.device)
    bounds = kv_indptr.tolist()
    for row, (start, stop) in enumerate(pairwise(bounds)):
        if start == stop:
            continue
        pages = kv_indices[start:stop].to(torch.int64)
        length = (stop - start - 1) * page_size + int(kv_last_page_len[row])
        keys = k_cache[pages].flatten(0, 1)[:length].to(torch.float32).transpose(0, 1)  # [kv head, token, dim]
        values = v_cache[pages].flatten(0, 1)[:length].to(torch.float32).transpose(0, 1)
        logits = queries[row] @ keys.transpose(1, 2)
        output[row] = (logits.softmax(dim=-1) @ values).reshape(query_heads, head_dim)
        lse[row] = logits.logsumexp(dim=-1).flatten() / math.log(2.0)
    return output.to(q.dtype), lse
