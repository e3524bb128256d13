import torch
from torch import Tensor

TOP_K = 2048


@torch.no_grad()
def run(
    q_index: Tensor,
    k_index_cache: Tensor,
    k_index_scale: Tensor,
    weights: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
) -> Tensor:
    batch_size, page_size = q_index.shape[0], k_index_cache.shape[1]
    chosen = torch.full((batch_size, TOP_K), -1, dtype=torch.int32, device=q_index.device)
    for row, length in enumerate(seq_lens.tolist()):
        pages = block_table[row, : -(-length // page_size)].to(torch.int64)
        keys = k_index_cache[pages].to(torch.float32) * k_index_scale[pages].to(torch.float32).unsqueeze(-1)
        keys = keys.flatten(0, 1)[:length]
        matches = torch.relu(q_index[row].to(torch.float32) @ keys.T)  # [head, token]
        scores = weights[row].to(torch.float32) @ matches
        best = scores.topk(min(TOP_K, length)).indices
        slots = pages[best // page_size] * page_size + best % page_size  # places in the cache
        chosen[row, : len(best)] = slots.to(torch.int32)
    return chosen
