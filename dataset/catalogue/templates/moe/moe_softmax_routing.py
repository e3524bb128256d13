import torch
from torch import Tensor

TOP_K = 8


@torch.no_grad()
def run(router_logits: Tensor) -> tuple[Tensor, Tensor]:
    chosen, experts = router_logits.to(torch.float32).topk(TOP_K, dim=-1)
    return chosen.softmax(dim=-1), experts.to(torch.int32)
