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
    scale: float,
) -> tuple[Tensor, Tensor]:
    group = v.shape[2] // q.shape[2]  # value heads that share a query and a key
    queries = q[:, 0].to(torch.float32).repeat_interleave(group, dim=1) * scale  # [batch, head, key dim]
    keys = k[:, 0].to(torch.float32).repeat_interleave(group, dim=1)
    values = v[:, 0].to(torch.float32)
    steps = a[:, 0].to(torch.float32) + dt_bias.to(torch.float32)
    softplus = torch.log1p(torch.exp(-steps.abs())) + steps.clamp(min=0.0)
    decay = torch.exp(-torch.exp(A_log.to(torch.float32)) * softplus)  # [batch, head]
    gate = torch.sigmoid(b[:, 0].to(torch.float32))
    # The memory [batch, head, value dim, key dim] fades, then learns what it does not yet answer to this key.
    memory = state.to(torch.float32) * decay[..., None, None]
    known = torch.einsum("bhvk,bhk->bhv", memory, keys)
    learned = (values - known) * gate[..., None]
    memory = memory + learned[..., :, None] * keys[..., None, :]
    output = torch.einsum("bhvk,bhk->bhv", memory, queries)
    return output.unsqueeze(1).to(q.dtype), memory.to(state.dtype)
