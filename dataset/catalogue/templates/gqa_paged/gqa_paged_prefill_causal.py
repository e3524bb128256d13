import math

import torch
from torch import Tensor


@torch.no_grad()
def run(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    qo_indptr: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    sm_scale: float,
) -> tuple[Tensor, Tensor]:
    query_heads, kv_heads = q.shape[1], k_cache.shape[2]
    output = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    lse = torch.full(q.shape[:2], -math.inf, dtype=torch.float32, device=q.device)
    q_bounds, kv_bounds = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(q_bounds) - 1):
        mine = slice(q_bounds[sequence], q_bounds[sequence + 1])
        pages = kv_indices[kv_bounds[sequence] : kv_bounds[sequence + 1]].to(torch.int64)
        length = len(pages)
        count = mine.stop - mine.start
        first = max(0, count - length)  # Earlier queries see nothing.
        if first == count:
            continue
        mine = slice(mine.start + first, mine.stop)
        last_seen = torch.arange(length - count + first, length, device=q.device).unsqueeze(1)
        places = torch.arange(length, device=q.device)
        hidden = places > last_seen  # [query, token]
        queries = q[mine].to(torch.float32).transpose(0, 1) * sm_scale  # [head, query, dim]
        keys = k_cache[pages].flatten(0, 1).to(torch.float32).transpose(0, 1)  # [kv head, token, dim]
        values = v_cache[pages].flatten(0, 1).to(torch.float32).transpose(0, 1)
        for head in range(kv_heads):  # One at a time keeps the logits small.
            heads = slice(head * query_heads // kv_heads, (head + 1) * query_heads // kv_heads)
            logits = queries[heads] @ keys[head].T  # [group, query, token]
            logits = logits.masked_fill(hidden, -math.inf)
            output[mine, heads] = (logits.softmax(dim=-1) @ values[head]).transpose(0, 1)
            lse[mine, heads] = logits.logsumexp(dim=-1).T / math.log(2.0)
    return output.to(q.dtype), lse
