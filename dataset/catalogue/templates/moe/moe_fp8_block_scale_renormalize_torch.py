import torch
import torch.nn.functional as F
from torch import Tensor

TOP_K = 8
BLOCK = 128


def spread(scales: Tensor, like: Tensor) -> Tensor:
    """One scale for each 128 x 128 block of a weight, as one for each element."""
    rows = scales.to(torch.float32).repeat_interleave(BLOCK, dim=0)[: like.shape[0]]
    return rows.repeat_interleave(BLOCK, dim=1)[:, : like.shape[1]]


@torch.no_grad()
def run(
    routing_logits: Tensor,
    hidden_states: Tensor,
    hidden_states_scale: Tensor,
    gemm1_weights: Tensor,
    gemm1_weights_scale: Tensor,
    gemm2_weights: Tensor,
    gemm2_weights_scale: Tensor,
    local_expert_offset: int,
    output: Tensor,
) -> None:
    best, experts = routing_logits.to(torch.float32).topk(TOP_K, dim=-1)
    shares = best.softmax(dim=-1)
    # A token's scales, one for each 128 elements, lie in a column.
    factors = hidden_states_scale.to(torch.float32).T.repeat_interleave(BLOCK, dim=1)[:, : hidden_states.shape[1]]
    tokens = hidden_states.to(torch.float32) * factors
    flat = experts.flatten()
    order = flat.argsort()
    counts = flat.bincount(minlength=routing_logits.shape[1]).tolist()
    start = sum(counts[:local_expert_offset])
    total = torch.zeros(hidden_states.shape, dtype=torch.float32, device=hidden_states.device)
    weights = shares.flatten()
    for expert, count in enumerate(counts[local_expert_offset : local_expert_offset + gemm1_weights.shape[0]]):
        pairs = order[start : start + count]
        start += count
        if count == 0:
            continue
        rows = pairs // TOP_K
        first = gemm1_weights[expert].float().mul_(spread(gemm1_weights_scale[expert], gemm1_weights[expert]))
        second = gemm2_weights[expert].float().mul_(spread(gemm2_weights_scale[expert], gemm2_weights[expert]))
        up, gate = (tokens[rows] @ first.T).chunk(2, dim=-1)
        inner = F.silu(gate).mul_(up).mul_(weights[pairs].unsqueeze(1))
        total.index_add_(0, rows, inner @ second.T)
    output.copy_(total)
