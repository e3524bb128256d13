import math

import torch
from torch import Tensor


@torch.no_grad()
def run(
    q: Tensor, k: Tensor, v: Tensor, qo_indptr: Tensor, kv_indptr: Tensor, sm_scale: float
) -> tuple[Tensor, Tensor]:
    query_heads, kv_heads = q.shape[1], k.shape[1]
    output = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    lse = torch.full(q.shape[:2], -math.inf, dtype=torch.float32, device=q.device)
    q_bounds, kv_bounds = qo_indptr.tolist(), kv_indptr.tolist()
    for sequence in range(len(q_bounds) - 1):
        mine = slice(q_bounds[sequence], q_bounds[sequence + 1])
        seen = slice(kv_bounds[sequence], kv_bounds[sequence + 1])
        count, length = mine.stop - mine.start, seen.stop - seen.start
        first = max(0, count - length)  # Earlier queries see nothing.
        if first == count:
            continue
        mine = slice(mine.start + first, mine.stop)
        last_seen = torch.arange(length - count + first, length, device=q.device).unsqueeze(1)
        hidden = torch.arange(length, device=q.device) > last_seen  # [query, token]
        queries = q[mine].to(torch.float32).transpose(0, 1) * sm_scale  # [head, query, dim]
        keys = k[seen].to(torch.float32).transpose(0, 1)  # [kv head, token, dim]
        values = v[seen].to(torch.float32).transpose(0, 1)
        for head in range(kv_heads):  # One at a time keeps the logits small.
            heads = slice(head * query_heads // kv_heads, (head + 1) * query_heads // kv_heads)
            logits = (queries[heads] @ keys[head].T).masked_fill(hidden, -math.inf)  # [group, query, token]
            output[mine, heads] = (logits.softmax(dim=-1) @ values[head]).transpose(0, 1)
            lse[mine, heads] = logits.logsumexp(dim=-1).T / math.log(2.0)
    return output.to(q.dtype), lse
