import triton
import triton.language as tl
from torch import Tensor

INTERMEDIATE = 14336
BLOCK = 2048


@triton.jit
def gate_block(gate_up, output, intermediate: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * block + tl.arange(0, block)
    gate = tl.load(gate_up + row * 2 * intermediate + columns).to(tl.float32)
    up = tl.load(gate_up + row * 2 * intermediate + intermediate + columns).to(tl.float32)
    tl.store(output + row * intermediate + columns, (gate / (1.0 + tl.exp(-gate)) * up).to(tl.bfloat16))


def run(gate_up: Tensor, output: Tensor) -> None:
    grid = (gate_up.shape[0], INTERMEDIATE // BLOCK)
    gate_block[grid](gate_up, output, INTERMEDIATE, BLOCK, num_warps=4)
