import torch
import torch.nn.functional as F
from torch import Tensor


@torch.no_grad()
def run(
    state: Tensor,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor,
    dt_bias: Tensor,
    state_batch_indices: Tensor,
    output: Tensor,
) -> None:
    group = x.shape[1] // B.shape[1]
    rows = (state_batch_indices >= 0).nonzero().squeeze(1)
    slots = state_batch_indices[rows]
    output.zero_()
    steps = F.softplus(dt[rows].float() + dt_bias)
    into, out_of = (part[rows].float().repeat_interleave(group, dim=1) for part in (B, C))
    features = x[rows].float()
    memory = state.index_select(0, slots).float().mul_(torch.exp(steps * A)[..., None, None])
    memory.addcmul_((steps.unsqueeze(-1) * features).unsqueeze(-1), into.unsqueeze(2))
    mixed = (memory @ out_of.unsqueeze(-1)).squeeze(-1).addcmul_(features, D.float().unsqueeze(-1))
    output[rows] = mixed.to(output.dtype)
    state.index_copy_(0, slots.long(), memory.to(state.dtype))
