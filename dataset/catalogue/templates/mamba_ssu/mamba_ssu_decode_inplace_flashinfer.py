from flashinfer.mamba import selective_state_update
from torch import Tensor


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
    heads, dim, states = state.shape[1:]
    batch = x.shape[0]
    selective_state_update(
        state,
        x,
        dt.float()[:, :, None].expand(batch, heads, dim),
        A[:, None, None].expand(heads, dim, states),
        B,
        C,
        D.float()[:, None].expand(heads, dim),
        dt_bias=dt_bias[:, None].expand(heads, dim),
        dt_softplus=True,
        state_batch_indices=state_batch_indices,
        pad_slot_id=-1,
        out=output,
    )
    output.masked_fill_((state_batch_indices < 0)[:, None, None], 0.0)
