import torch
from flashinfer import BatchDecodeWithPagedKVCacheWrapper
from torch import Tensor

NUM_QO_HEADS = 32
NUM_KV_HEADS = 8
HEAD_DIM = 128
WORKSPACE = 128 << 20
"""Bytes, as engines lend it."""
_kept: list[BatchDecodeWithPagedKVCacheWrapper] = []


def run(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    sm_scale: float,
    output: Tensor,
    lse: Tensor,
) -> None:
    if not _kept:
        workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device=q.device)
        tensor_cores = NUM_QO_HEADS // NUM_KV_HEADS >= 4
        _kept.append(BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=tensor_cores))
    (decode,) = _kept
    if not torch.cuda.is_current_stream_capturing():
        # As in an engine: planned once for a step's lengths, whose graphs are then captured and replayed.
        decode.plan(
            kv_indptr,
            kv_indices,
            torch.ones_like(kv_indptr[1:]),
            NUM_QO_HEADS,
            NUM_KV_HEADS,
            HEAD_DIM,
            1,
            q_data_type=q.dtype,
            kv_data_type=k_cache.dtype,
            sm_scale=sm_scale,
        )
    decode._paged_kv_indices_buf = kv_indices
    decode.run(q, (k_cache, v_cache), out=output, lse=lse, return_lse=True)
