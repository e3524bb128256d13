from itertools import pairwise

import torch
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
) -> tuple[Tensor, Tensor]:
    group = v.shape[1] // q.shape[1]  # value heads that share a query and a key
    queries = q.to(torch.float32).repeat_interleave(group, dim=1) * scale  # [token, head, key dim]
    keys = k.to(torch.float32).repeat_interleave(group, dim=1)
    values = v.to(torch.float32)
    steps = a.to(torch.float32) + dt_bias.to(torch.float32)
    softplus = torch.log1p(torch.exp(-steps.abs())) + steps.clamp(min=0.0)
    decay = torch.exp(-torch.exp(A_log.to(torch.float32)) * softplus)  # [token, head]
    gate = torch.sigmoid(b.to(torch.float32))
    output = torch.zeros(values.shape, dtype=torch.float32, device=q.device)
    new_state = torch.zeros(state.shape, dtype=torch.float32, device=q.device)
    for sequence, (start, stop) in enumerate(pairwise(cu_seqlens.tolist())):
        memory = state[sequence].to(torch.float32)  # [head, value dim, key dim]
        for token in range(start, stop):
            memory = memory * decay[token, :, None, None]
            known = torch.einsum("hvk,hk->hv", memory, keys[token])
            learned = (values[token] - known) * gate[token, :, None]
            memory = memory + learned[:, :, None] * keys[token, :, None, :]
            output[token] = torch.einsum("hvk,hk->hv", memory, queries[token])
        new_state[sequence] = memory
    return output.to(q.dtype), new_state.to(state.dtype)
