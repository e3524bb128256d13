import math

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.no_grad()
def run(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    qo_indptr: Tensor,
    kv_indptr: Tensor,
    sm_scale: float,
    output: Tensor,
    lse: Tensor,
) -> None:
    output.zero_()
    lse.fill_(-math.inf)
    q_bounds, kv_bounds = qo_indptr.tolist(), kv_indptr.tolist()
    wide = F.pad(v, (0, k.shape[2] - v.shape[2]))  # the fused operator wants keys and values of one width
    for sequence in range(len(q_bounds) - 1):
        start, stop = q_bounds[sequence], q_bounds[sequence + 1]
        seen = slice(kv_bounds[sequence], kv_bounds[sequence + 1])
        length = seen.stop - seen.start
        start = max(start, stop - length)
        if start == stop:
            continue
        whole = stop - start == length
        mask = None
        if not whole:
            mask = torch.full((stop - start, length), -math.inf, dtype=q.dtype).triu_(length - (stop - start) + 1)
        queries, keys, values = (part.transpose(0, 1)[None] for part in (q[start:stop], k[seen], wide[seen]))
        mixed, natural_lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            queries, keys, values, is_causal=whole, attn_mask=mask, scale=sm_scale
        )
        output[start:stop] = mixed[0, :, :, : v.shape[2]].transpose(0, 1)
        lse[start:stop] = natural_lse[0].T / math.log(2.0)
