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
    sm_scale: float,
    output: Tensor,
    lse: Tensor,
) -> None:
    bounds = kv_indptr.tolist()
    for row in range(q_nope.shape[0]):
        start, stop = bounds[row], bounds[row + 1]
        if start == stop:
            output[row] = 0.0
            lse[row] = -math.inf
            continue
        pages = kv_indices[start:stop]
        latents = ckv_cache.index_select(0, pages).squeeze(1).float()
        rotary_keys = kpe_cache.index_select(0, pages).squeeze(1).float()
        logits = torch.mm(q_nope[row].float(), latents.T).addmm_(q_pe[row].float(), rotary_keys.T).mul_(sm_scale)
        torch.mul(logits.logsumexp(dim=-1), 1 / math.log(2.0), out=lse[row])
        output[row] = logits.softmax(dim=-1) @ latents
