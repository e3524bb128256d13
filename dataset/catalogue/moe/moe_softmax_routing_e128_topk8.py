import torch
from torch import Tensor

TOP_K = 8


@torch.no_grad()
def run(router_logits: Tensor) -> tuple[Tensor, Tensor]:
    # A stable sort keeps equal logits in order of their expert.
    ranked, experts = router_logits.to(torch.float32).sort(dim=-1, descending=True, stable=True)
    return ranked[:, :TOP_K].softmax(dim=-1), experts[:, :TOP_K].to(torch.int32)
