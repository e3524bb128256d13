import triton
import triton.language as tl
from torch import Tensor

HEAD_DIM = 64
DSTATE = 128


@triton.jit
def step(
    state,
    x,
    dt,
    A,
    B,
    C,
    D,
    dt_bias,
    slots,
    output,
    heads,
    groups,
    dim: tl.constexpr,
    states: tl.constexpr,
):
    sequence, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    slot = tl.load(slots + sequence).to(tl.int64)
    row, column = tl.arange(0, dim), tl.arange(0, states)
    place = sequence * heads + head
    if slot < 0:
        tl.store(output + place * dim + row, tl.zeros((dim,), tl.bfloat16))  # padding
    else:
        wait = tl.load(dt + place).to(tl.float32) + tl.load(dt_bias + head)
        wait = tl.log(1.0 + tl.exp(-tl.abs(wait))) + tl.maximum(wait, 0.0)
        shared = (sequence * groups + head // (heads // groups)) * states + column
        into, out_of = tl.load(B + shared).to(tl.float32), tl.load(C + shared).to(tl.float32)
        features = tl.load(x + place * dim + row).to(tl.float32)
        at = ((slot * heads + head) * dim + row[:, None]) * states + column[None, :]
        memory = tl.load(state + at).to(tl.float32) * tl.exp(wait * tl.load(A + head))
        memory += (wait * features)[:, None] * into[None, :]
        mixed = tl.sum(memory * out_of[None, :], axis=1) + tl.load(D + head).to(tl.float32) * features
        tl.store(output + place * dim + row, mixed.to(tl.bfloat16))
        tl.store(state + at, memory.to(tl.bfloat16))


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
    batch, heads = x.shape[:2]
    step[(batch, heads)](
        state,
        x,
        dt,
        A,
        B,
        C,
        D,
        dt_bias,
        state_batch_indices,
        output,
        heads,
        B.shape[1],
        HEAD_DIM,
        DSTATE,
        num_warps=4,
    )
