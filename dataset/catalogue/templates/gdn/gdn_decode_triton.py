import triton
import triton.language as tl
from torch import Tensor

HEAD_SIZE = 128
ROWS = min(32, HEAD_SIZE)
"""Of a head's state, of a program."""


@triton.jit
def step(
    q,
    k,
    v,
    state,
    A_log,
    a,
    dt_bias,
    b,
    scale,
    output,
    new_state,
    value_heads,
    group,
    size: tl.constexpr,
    rows: tl.constexpr,
):
    place, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    sequence, head = place // value_heads, place % value_heads
    row, column = part * rows + tl.arange(0, rows), tl.arange(0, size)
    key_head = sequence * (value_heads // group) + head // group
    query = tl.load(q + key_head * size + column).to(tl.float32) * scale
    key = tl.load(k + key_head * size + column).to(tl.float32)
    value = tl.load(v + place * size + row).to(tl.float32)
    wait = tl.load(a + place).to(tl.float32) + tl.load(dt_bias + head)
    softplus = tl.log(1.0 + tl.exp(-tl.abs(wait))) + tl.maximum(wait, 0.0)
    decay = tl.exp(-tl.exp(tl.load(A_log + head)) * softplus)
    gate = 1.0 / (1.0 + tl.exp(-tl.load(b + place).to(tl.float32)))
    at = (place * size + row[:, None]) * size + column[None, :]
    memory = tl.load(state + at) * decay
    learned = (value - tl.sum(memory * key[None, :], axis=1)) * gate
    memory += learned[:, None] * key[None, :]
    tl.store(new_state + at, memory)
    tl.store(output + place * size + row, tl.sum(memory * query[None, :], axis=1).to(tl.bfloat16))


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
    batch, heads = state.shape[:2]
    grid = (batch * heads, HEAD_SIZE // ROWS)
    step[grid](
        q,
        k,
        v,
        state,
        A_log,
        a,
        dt_bias,
        b,
        scale,
        output,
        new_state,
        heads,
        heads // q.shape[2],
        HEAD_SIZE,
        ROWS,
        num_warps=4,
    )
