import torch
from torch import Tensor

TOP_K = 8
N_GROUP = 8
TOPK_GROUP = 4


@torch.no_grad()
def run(
    routing_logits: Tensor,
    routing_bias: Tensor,
    hidden_states: Tensor,
    gemm1_weights: Tensor,
    gemm2_weights: Tensor,
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
    tokens = hidden_states.to(torch.float32)
    output = torch.zeros(hidden_states.shape, dtype=torch.float32, device=hidden_states.device)
    for expert in range(gemm1_weights.shape[0]):
        rows, places = torch.nonzero(experts == expert + local_expert_offset, as_tuple=True)
        if len(rows) == 0:
            continue
        up, gate = (tokens[rows] @ gemm1_weights[expert].to(torch.float32).T).chunk(2, dim=-1)
        inner = gate * torch.sigmoid(gate) * up
        output[rows] += (inner @ gemm2_weights[expert].to(torch.float32).T) * shares[rows, places].unsqueeze(1)
    return output.to(torch.bfloat16)
