from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor


@torch.no_grad()
def run(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Tensor,
    A_log: Tensor,
    a: Tensor,
    dt_bias: Tensor,
    b: Tensor,
    cu_seqlens: Tensor,
    scale: float,
    output: Tensor,
    new_state: Tensor,
) -> None:
    group = v.shape[1] // q.shape[1]
    queries, keys = (part.float().repeat_interleave(group, dim=1).unsqueeze(-1) for part in (q, k))
    values = v.float().unsqueeze(-1)
    decay = torch.exp(-A_log.exp() * F.softplus(a.float() + dt_bias))[..., None, None]
    gate = torch.sigmoid(b.float())[..., None, None]
    new_state.copy_(state)
    for memory, (start, stop) in zip(new_state, pairwise(cu_seqlens.tolist()), strict=True):
        for token in range(start, stop):
            memory.mul_(decay[token])
            learned = torch.baddbmm(values[token], memory, keys[token], alpha=-1.0).mul_(gate[token])
            memory.baddbmm_(learned, keys[token].transpose(1, 2))
            output[token] = (memory @ queries[token]).mul_(scale).squeeze(-1)
