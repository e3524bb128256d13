import torch
from flashinfer import BatchMLAPagedAttentionWrapper
from torch import Tensor

NUM_QO_HEADS = 16
HEAD_DIM_CKV = 512
HEAD_DIM_KPE = 64
WORKSPACE = 128 << 20
"""Bytes, as engines lend it."""
_kept: list[BatchMLAPagedAttentionWrapper] = []


def run(
    q_nope: Tensor,
    q_pe: Tensor,
    ckv_cache: Tensor,
    kpe_cache: Tensor,
    kv_indptr: Tensor,
    kv_indices: Tensor,
    sm_scale: float,
    output: Tensor,
    lse: Tensor,
) -> None:
    if not _kept:
        workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device=q_nope.device)
        _kept.append(BatchMLAPagedAttentionWrapper(workspace))
    (decode,) = _kept
    if not torch.cuda.is_current_stream_capturing():
        # As in an engine: planned once for a step's lengths, whose graphs are then captured and replayed.
        pages = kv_indptr.diff()
        lengths = pages
        decode.plan(
            torch.arange(len(kv_indptr), dtype=torch.int32, device=q_nope.device),
            kv_indptr,
            kv_indices,
            lengths.int(),
            NUM_QO_HEADS,
            HEAD_DIM_CKV,
            HEAD_DIM_KPE,
            1,
            False,
            sm_scale,
            q_nope.dtype,
            ckv_cache.dtype,
        )
    decode._kv_indices_buf = kv_indices
    decode.run(q_nope, q_pe, ckv_cache, kpe_cache, out=output, lse=lse, return_lse=True)
