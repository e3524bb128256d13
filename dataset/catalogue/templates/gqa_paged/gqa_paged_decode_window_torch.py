import math

import torch
from torch import Tensor

WINDOW = 128
SOFT_CAP = 0.0


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
    queries = q.view(batch_size, kv_heads, -1, head_dim)
    out = output.view_as(queries)
    out_lse = lse.view(batch_size, kv_heads, -1)
    bounds, last = kv_indptr.tolist(), kv_last_page_len.tolist()
    for row in range(batch_size):
        start, stop = bounds[row], bounds[row + 1]
        if start == stop:
            out[row] = 0.0
            out_lse[row] = -math.inf
            continue
        length = (stop - start - 1) * page_size + last[row]
        first = max(0, length - WINDOW) if WINDOW else 0
        skipped = first // page_size
        pages = kv_indices[start + skipped : stop]
        seen = slice(first - skipped * page_size, length - skipped * page_size)
        keys = k_cache.index_select(0, pages).flatten(0, 1)[seen].float().permute(1, 2, 0)
        values = v_cache.index_select(0, pages).flatten(0, 1)[seen].float().transpose(0, 1)
        logits = (queries[row].float() @ keys).mul_(sm_scale)
        if SOFT_CAP:
            logits.div_(SOFT_CAP).tanh_().mul_(SOFT_CAP)
        torch.mul(logits.logsumexp(dim=-1), 1 / math.log(2.0), out=out_lse[row])
        out[row] = logits.softmax(dim=-1) @ values
