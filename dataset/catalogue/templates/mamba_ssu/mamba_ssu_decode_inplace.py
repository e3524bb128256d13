import torch
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
) -> tuple[Tensor, Tensor]:
    output = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    new_state = state.clone()
    group = x.shape[1] // B.shape[1]  # heads that share B and C
    for row, slot in enumerate(state_batch_indices.tolist()):
        if slot < 0:
            continue  # padding: nothing is read or written
        steps = dt[row].to(torch.float32) + dt_bias.to(torch.float32)
        steps = torch.log1p(torch.exp(-steps.abs())) + steps.clamp(min=0.0)  # softplus, [head]
        decay = torch.exp(steps * A.to(torch.float32))
        into = B[row].to(torch.float32).repeat_interleave(group, dim=0)  # [head, state]
        out_of = C[row].to(torch.float32).repeat_interleave(group, dim=0)
        features = x[row].to(torch.float32)  # [head, dim]
        memory = state[slot].to(torch.float32) * decay[:, None, None]
        memory = memory + (steps[:, None] * features)[:, :, None] * into[:, None, :]
        output[row] = torch.einsum("hds,hs->hd", memory, out_of) + D.to(torch.float32)[:, None] * features
        new_state[slot] = memory.to(state.dtype)
    return output.to(x.dtype), new_state
