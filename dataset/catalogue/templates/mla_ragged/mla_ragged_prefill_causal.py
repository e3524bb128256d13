import math

import torch
from torch import Tensor


@torch.no_grad()
def run(
    q: Tensor, k: Tensor, v: Tensor, qo_indptr: Tensor, kv_indptr: Tensor, sm_scale: float
) -> tuple[Tensor, Tensor]:
    # Every head has its own keys of one width and values of another.
    output = torch.zeros((*q.shape[:2], v.shape[2]), dtype=torch.float32, device=q.device)
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
        keys = k[seen].to(torch.float32).transpose(0, 1)  # [head, token, dim]
        values = v[seen].to(torch.float32).transpose(0, 1)
        for head in range(q.shape[1]):  # One at a time keeps the logits small.
            logits = (queries[head] @ keys[head].T).masked_fill(hidden, -math.inf)  # [query, token]
            output[mine, head] = logits.softmax(dim=-1) @ values[head]
            lse[mine, head] = logits.logsumexp(dim=-1) / math.log(2.0)
    return output.to(q.dtype), lse
