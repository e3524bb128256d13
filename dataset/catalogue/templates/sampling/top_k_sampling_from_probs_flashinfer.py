import torch
from flashinfer import sampling
from torch import Tensor

STEP = 1 << 12
"""More random numbers than a call can take."""
_state: list[Tensor] = []


def run(probs: Tensor, top_k: Tensor, samples: Tensor) -> None:
    if not _state:
        _state.extend(torch.randint(1 << 40, (2, 1), device=probs.device))
    seed, offset = _state
    offset.add_(STEP)  # on the device, so that each replay of a graph draws anew
    samples.copy_(sampling.top_k_sampling_from_probs(probs, top_k, seed=seed, offset=offset))
