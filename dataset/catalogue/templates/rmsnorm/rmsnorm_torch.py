import torch
import torch.nn.functional as F
from torch import Tensor

EPSILON = 1e-5


@torch.no_grad()
def run(hidden_states: Tensor, weight: Tensor, output: Tensor) -> None:
    output.copy_(F.rms_norm(hidden_states, (hidden_states.shape[1],), weight, EPSILON))
