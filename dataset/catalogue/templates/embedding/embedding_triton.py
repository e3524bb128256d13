import triton
import triton.language as tl
from torch import Tensor

EMBEDDING_DIM = 4096
BLOCK = min(2048, triton.next_power_of_2(EMBEDDING_DIM))


@triton.jit
def take_block(token_ids, weight, output, size: tl.constexpr, block: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    row = tl.load(token_ids + token)
    values = tl.load(weight + row * size + column, mask=column < size)
    tl.store(output + token * size + column, values, mask=column < size)


def run(token_ids: Tensor, weight: Tensor, output: Tensor) -> None:
    grid = (token_ids.shape[0], triton.cdiv(EMBEDDING_DIM, BLOCK))
    take_block[grid](token_ids, weight, output, EMBEDDING_DIM, BLOCK, num_warps=4)
