import math

import torch
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
    kv_heads = k.shape[1]
    group = q.shape[1] // kv_heads
    output.zero_()
    lse.fill_(-math.inf)
    q_bounds, kv_bounds = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(q_bounds) - 1):
        start, stop = q_bounds[sequence], q_bounds[sequence + 1]
        kv_start, kv_stop = kv_bounds[sequence], kv_bounds[sequence + 1]
        length = kv_stop - kv_start
        start = max(start, stop - length)
        if start == stop:
            continue
        mask = torch.full((stop - start, length), -math.inf).triu_(length - (stop - start) + 1)
        keys = k[kv_start:kv_stop].float().permute(1, 2, 0)
        values = v[kv_start:kv_stop].float().transpose(0, 1)
        for head in range(kv_heads):
            heads = slice(head * group, (head + 1) * group)
            queries = q[start:stop, heads].float().transpose(0, 1)
            logits = (queries @ keys[head]).mul_(sm_scale).add_(mask)
            torch.mul(logits.logsumexp(dim=-1).T, 1 / math.log(2.0), out=lse[start:stop, heads])
            output[start:stop, heads] = (logits.softmax(dim=-1) @ values[head]).transpose(0, 1)
