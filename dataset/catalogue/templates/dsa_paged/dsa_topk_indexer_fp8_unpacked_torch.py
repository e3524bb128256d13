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
    topk_indices: Tensor,
) -> None:
    page_size = k_index_cache.shape[1]
    topk_indices.fill_(-1)
    for row, length in enumerate(seq_lens.tolist()):
        pages = block_table[row, : -(-length // page_size)].long()
        keys = k_index_cache[pages].flatten(0, 1)[:length].float()
        matches = (q_index[row].float() @ keys.T).relu_()
        # A scale is positive, so it may wait until after the relu and the sum.
        scores = (weights[row] @ matches).mul_(k_index_scale[pages].flatten()[:length])
        best = scores.topk(min(TOP_K, length), sorted=False).indices
        topk_indices[row, : len(best)] = (pages[best // page_size] * page_size + best % page_size).int()
