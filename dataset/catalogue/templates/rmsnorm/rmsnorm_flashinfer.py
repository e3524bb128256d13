import flashinfer
from torch import Tensor

EPSILON = 1e-5


def run(hidden_states: Tensor, weight: Tensor, output: Tensor) -> None:
    flashinfer.norm.rmsnorm(hidden_states, weight, EPSILON, out=output)
