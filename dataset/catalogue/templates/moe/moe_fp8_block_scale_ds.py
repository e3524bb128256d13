import torch
from torch import Tensor

TOP_K = 8
N_GROUP = 8
TOPK_GROUP = 4
BLOCK = 128


def spread(scales: Tensor, like: Tensor) -> Tensor:
    """One scale for each 128 x 128 block of a weight, as one for each element."""
    rows = scales.to(torch.float32).repeat_interleave(BLOCK, dim=0)[: like.shape[0]]
    return rows.repeat_interleave(BLOCK, dim=1)[:, : like.shape[1]]


@torch.no_grad()
def run(
    routing_logits: Tensor,
    routing_bias: Tensor,
    hidden_states: Tensor,
    hidden_states_scale: Tensor,
    gemm1_weights: Tensor,
    gemm1_weights_scale: Tensor,
    gemm2_weights: Tensor,
    gemm2_weights_scale: Tensor,
    local_expert_offset: int,
    routed_scaling_factor: float,
) -> Tensor:
    scores = torch.sigmoid(routing_logits.to(torch.float32))
    biased = scores + routing_bias.to(torch.float32)  # the bias chooses, and does not weigh
    groups = biased.reshape(len(biased), N_GROUP, -1)
    group_scores = groups.topk(min(2, groups.shape[2]), dim=-1).values.sum(dim=-1)
    kept = torch.zeros(group_scores.shape, dtype=torch.bool, device=biased.device)
    kept.scatter_(1, group_scores.topk(TOPK_GROUP, dim=-1).indices, True)
    candidates = groups.masked_fill(~kept.unsqueeze(2), -torch.inf).flatten(1)
    experts = candidates.topk(TOP_K, dim=-1).indices
    shares = scores.gather(1, experts)
    shares = shares / shares.sum(dim=-1, keepdim=True) * routed_scaling_factor
    # A token's scales, one for each 128 elements, lie in a column.
    factors = hidden_states_scale.to(torch.float32).T.repeat_interleave(BLOCK, dim=1)[:, : hidden_states.shape[1]]
    tokens = hidden_states.to(torch.float32) * factors
    output = torch.zeros(hidden_states.shape, dtype=torch.float32, device=hidden_states.device)
    for expert in range(gemm1_weights.shape[0]):
        rows, places = torch.nonzero(experts == expert + local_expert_offset, as_tuple=True)
        if len(rows) == 0:
            continue
        first = gemm1_weights[expert].to(torch.float32) * spread(gemm1_weights_scale[expert], gemm1_weights[expert])
        second = gemm2_weights[expert].to(torch.float32) * spread(gemm2_weights_scale[expert], gemm2_weights[expert])
        up, gate = (tokens[rows] @ first.T).chunk(2, dim=-1)
        inner = gate * torch.sigmoid(gate) * up
        output[rows] += (inner @ second.T) * shares[rows, places].unsqueeze(1)
    return output.to(torch.bfloat16)
