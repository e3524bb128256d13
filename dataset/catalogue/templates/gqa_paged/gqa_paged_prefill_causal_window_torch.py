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
    qo_indptr: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    kv_last_page_len: Tensor,
    sm_scale: float,
    output: Tensor,
    lse: Tensor,
) -> None:
    page_size, kv_heads = k_cache.shape[1:3]
    output.zero_()
    lse.fill_(-math.inf)
    q_bounds, kv_bounds = qo_indptr.tolist(), kv_indptr.tolist()
    last = kv_last_page_len.tolist()
    for sequence in range(len(q_bounds) - 1):
        start, stop = q_bounds[sequence], q_bounds[sequence + 1]
        pages = kv_indices[kv_bounds[sequence] : kv_bounds[sequence + 1]]
        length = (len(pages) - 1) * page_size + last[sequence] if len(pages) else 0
        start = max(start, stop - length)
        if start == stop:
            continue
        behind = torch.arange(start - stop + length, length, device=q.device).unsqueeze(1)
        behind = behind - torch.arange(length, device=q.device)  # how far back a key lies
        hidden = (behind < 0) | (behind >= WINDOW) if WINDOW else behind < 0
        # KV heads become the batch, so that the queries of a group share keys without a copy.
        queries = q[start:stop].view(stop - start, kv_heads, -1, q.shape[2]).permute(1, 2, 0, 3).float()
        keys = k_cache.index_select(0, pages).flatten(0, 1)[:length].transpose(0, 1).unsqueeze(1).float()
        values = v_cache.index_select(0, pages).flatten(0, 1)[:length].transpose(0, 1).unsqueeze(1).float()
        logits = (queries @ keys.transpose(2, 3)).mul_(sm_scale)
        if SOFT_CAP:
            logits.div_(SOFT_CAP).tanh_().mul_(SOFT_CAP)
        logits.masked_fill_(hidden, -math.inf)
        natural_lse = logits.logsumexp(dim=-1)
        mixed = logits.softmax(dim=-1) @ values
        output[start:stop] = mixed.permute(2, 0, 1, 3).reshape(stop - start, -1, q.shape[2])
        lse[start:stop] = natural_lse.permute(2, 0, 1).reshape(stop - start, -1) / math.log(2.0)
