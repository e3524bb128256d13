import math

import torch
from torch import Tensor


@torch.no_grad()
def run(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    sparse_indices: Tensor,
    sm_scale: float,
    output: Tensor,
    lse: Tensor,
) -> None:
    all_latents, all_keys = ckv_cache.flatten(0, 1), kpe_cache.flatten(0, 1)
    for row, slots in enumerate(sparse_indices):
        chosen = slots[slots >= 0]
        if len(chosen) == 0:
            output[row] = 0.0
            lse[row] = -math.inf
            continue
        latents = all_latents.index_select(0, chosen)
        keys = torch.cat([latents, all_keys.index_select(0, chosen)], dim=-1)
        queries = torch.cat([q_nope[row], q_pe[row]], dim=-1)
        mixed, natural_lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            queries[None, None], keys[None, None], keys[None, None], scale=sm_scale
        )
        output[row] = mixed[0, 0, :, : latents.shape[1]]
        torch.mul(natural_lse[0, 0], 1 / math.log(2.0), out=lse[row])
