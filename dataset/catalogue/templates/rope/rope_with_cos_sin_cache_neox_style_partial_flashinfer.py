from flashinfer import rope
from torch import Tensor


def run(q: Tensor, k: Tensor, cos_sin_cache: Tensor, positions: Tensor, q_out: Tensor, k_out: Tensor) -> None:
    # Both public functions end in this one; neither takes outputs of its caller's.
    rope._apply_rope_pos_ids_cos_sin_cache(q, k, q_out, k_out, cos_sin_cache, positions, False)
