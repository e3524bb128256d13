import torch
import torch.nn.functional as F
from torch import Tensor

TOP_K = 8


@torch.no_grad()
def run(
    routing_logits: Tensor,
    hidden_states: Tensor,
    gemm1_weights: Tensor,
    gemm2_weights: Tensor,
    local_expert_offset: int,
    output: Tensor,
) -> None:
    best, experts = routing_logits.to(torch.float32).topk(TOP_K, dim=-1)
    shares = best.softmax(dim=-1)
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
        up, gate = (hidden_states[rows] @ gemm1_weights[expert].T).chunk(2, dim=-1)
        inner = F.silu(gate.float()).mul_(up).mul_(weights[pairs].unsqueeze(1))
        total.index_add_(0, rows, (inner.to(gate.dtype) @ gemm2_weights[expert].T).float())
    output.copy_(total)
