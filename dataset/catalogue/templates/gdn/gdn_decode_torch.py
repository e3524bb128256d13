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
    scale: float,
    output: Tensor,
    new_state: Tensor,
) -> None:
    batch, heads, width = v.shape[0], v.shape[2], v.shape[3]
    group = heads // q.shape[2]
    queries, keys = (part[:, 0].float().repeat_interleave(group, dim=1).flatten(0, 1).unsqueeze(-1) for part in (q, k))
    decay = torch.exp(-A_log.exp() * F.softplus(a[:, 0].float() + dt_bias))
    memory = new_state.view(batch * heads, width, -1)
    torch.mul(state.view_as(memory), decay.reshape(-1, 1, 1), out=memory)
    learned = v[:, 0].float().reshape(-1, width, 1) - memory @ keys
    learned.mul_(torch.sigmoid(b[:, 0].float()).reshape(-1, 1, 1))
    memory.baddbmm_(learned, keys.transpose(1, 2))
    output.copy_((memory @ queries).mul_(scale).view(batch, 1, heads, width))
