import torch
from torch import Tensor

TOP_K = 8


@torch.no_grad()
def run(router_logits: Tensor, topk_weights: Tensor, topk_ids: Tensor) -> None:
    chosen, experts = router_logits.topk(TOP_K, dim=-1)
    torch.softmax(chosen, dim=-1, dtype=torch.float32, out=topk_weights)
    topk_ids.copy_(experts)
