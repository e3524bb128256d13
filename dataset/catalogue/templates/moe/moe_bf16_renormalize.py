import torch
from torch import Tensor

TOP_K = 8


@torch.no_grad()
def run(
    routing_logits: Tensor,
    hidden_states: Tensor,
    gemm1_weights: Tensor,
    gemm2_weights: Tensor,
    local_expert_offset: int,
) -> Tensor:
    best, experts = routing_logits.to(torch.float32).topk(TOP_K, dim=-1)
    shares = best.softmax(dim=-1)
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
