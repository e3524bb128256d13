import flashinfer
from torch import Tensor


def run(gate_up: Tensor, output: Tensor) -> None:
    flashinfer.activation.silu_and_mul(gate_up, out=output)
