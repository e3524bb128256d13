"""One small definition for each way that a serving step calls a kernel, with the public names of axes and tensors."""

from __future__ import annotations

from typing import Any

from kernelmill.trace_schema import Definition

Shapes = dict[str, tuple[str, str]]
"""Tensor -> (axes with commas between, dtype); "-" is a Python number."""


def define(name: str, op_type: str, sizes: str, inputs: Shapes, output: str) -> Definition:
    """`sizes` are axes, those with a constant size written `axis=size`."""
    axes: dict[str, Any] = {}
    for axis in sizes.split():
        key, _, value = axis.partition("=")
        axes[key] = {"type": "const", "value": int(value)} if value else {"type": "var"}

    def tensor(shape: str, dtype: str) -> dict[str, Any]:
        return {"shape": None if shape == "-" else shape.split(","), "dtype": dtype}

    raw = {
        "name": name,
        "op_type": op_type,
        "axes": axes,
        "inputs": {key: tensor(*spec) for key, spec in inputs.items()},
        "outputs": {"output": tensor(output, "bfloat16")},
        "reference": f"def run({', '.join(inputs)}):\n    raise NotImplementedError\n",
    }
    return Definition.model_validate(raw)


BF, F32, FP8, I32, I64 = "bfloat16", "float32", "float8_e4m3fn", "int32", "int64"
CACHE = "num_pages,page_size,num_kv_heads,head_dim"
TABLE: Shapes = {"kv_indptr": ("len_indptr", I32), "kv_indices": ("num_kv_indices", I32)}
LAST: Shapes = {"kv_last_page_len": ("batch_size", I32)}
GQA = "num_qo_heads=4 num_kv_heads=1 head_dim=128 len_indptr num_kv_indices num_pages"
SM: Shapes = {"sm_scale": ("-", F32)}


def gqa_decode(page_size: int, heads: int = 1) -> Definition:
    last = LAST if page_size > 1 else {}
    caches = {"k_cache": (CACHE, BF), "v_cache": (CACHE, BF)}
    return define(
        f"gqa_paged_decode_h4_kv{heads}_d128_ps{page_size}",
        "gqa_paged",
        f"batch_size page_size={page_size} {GQA}".replace("num_kv_heads=1", f"num_kv_heads={heads}"),
        {"q": ("batch_size,num_qo_heads,head_dim", BF), **caches, **TABLE, **last, **SM},
        "batch_size,num_qo_heads,head_dim",
    )


def gqa_prefill(page_size: int) -> Definition:
    # A sequence's last page length has one element a sequence, which prefill definitions call by its own axis.
    caches: Shapes = {"k_cache": (CACHE, BF), "v_cache": (CACHE, BF), "sinks": ("num_qo_heads", F32)}
    return define(
        f"gqa_paged_prefill_causal_h4_kv1_d128_ps{page_size}",
        "gqa_paged",
        f"total_q page_size={page_size} batch_size {GQA}",
        {
            "q": ("total_q,num_qo_heads,head_dim", BF),
            **caches,
            "qo_indptr": ("len_indptr", I32),
            **TABLE,
            **LAST,
            **SM,
        },
        "total_q,num_qo_heads,head_dim",
    )


MLA = "num_qo_heads=16 head_dim_ckv=512 head_dim_kpe=64 page_size=64 num_pages"
LATENT: Shapes = {
    "ckv_cache": ("num_pages,page_size,head_dim_ckv", BF),
    "kpe_cache": ("num_pages,page_size,head_dim_kpe", BF),
}
Q_LATENT: Shapes = {
    "q_nope": ("num_tokens,num_qo_heads,head_dim_ckv", BF),
    "q_pe": ("num_tokens,num_qo_heads,head_dim_kpe", BF),
}
ROWS = "batch_size,hidden_size"
GDN = "num_q_heads=4 num_k_heads=4 num_v_heads=8 head_size=128"
GDN_GATES: Shapes = {"A_log": ("num_v_heads", F32), "dt_bias": ("num_v_heads", F32)}

DEFINITIONS: tuple[Definition, ...] = (
    define(
        "fused_add_rmsnorm_h512",
        "rmsnorm",
        "batch_size hidden_size=512",
        {"hidden_states": (ROWS, BF), "residual": (ROWS, BF), "weight": ("hidden_size", BF)},
        ROWS,
    ),
    define(
        "rmsnorm_h128",
        "rmsnorm",
        "batch_size hidden_size=128",
        {"hidden_states": (ROWS, BF), "weight": ("hidden_size", BF)},
        ROWS,
    ),
    define(
        "silu_and_mul_i64", "activation", "num_tokens width=128", {"gate_up": ("num_tokens,width", BF)}, "num_tokens"
    ),
    define(
        "gemm_fp8_n64_k128",
        "gemm",
        "M N=64 K=128 K_blocks=1 N_blocks=1",
        {"A": ("M,K", FP8), "A_scale": ("M,K_blocks", F32), "B": ("N,K", FP8), "B_scale": ("N_blocks,K_blocks", F32)},
        "M,N",
    ),
    define(
        "rope_with_cos_sin_cache_neox_style_d64_rd64",
        "rope",
        "num_tokens num_qo_heads num_kv_heads head_size=64 rotary_dim=64 max_seq_len",
        {
            "q": ("num_tokens,num_qo_heads,head_size", BF),
            "k": ("num_tokens,num_kv_heads,head_size", BF),
            "cos_sin_cache": ("max_seq_len,rotary_dim", F32),
            "positions": ("num_tokens", I64),
        },
        "num_tokens,num_qo_heads,head_size",
    ),
    gqa_decode(1),
    gqa_decode(16),
    gqa_decode(64),
    gqa_prefill(16),
    define(
        "gqa_ragged_prefill_causal_h4_kv1_d128",
        "gqa_ragged",
        "total_q total_kv len_indptr num_qo_heads=4 num_kv_heads=1 head_dim=128",
        {
            "q": ("total_q,num_qo_heads,head_dim", BF),
            "k": ("total_kv,num_kv_heads,head_dim", BF),
            "v": ("total_kv,num_kv_heads,head_dim", BF),
            "qo_indptr": ("len_indptr", I32),
            "kv_indptr": ("len_indptr", I32),
            **SM,
        },
        "total_q,num_qo_heads,head_dim",
    ),
    define(
        "mla_paged_decode_h16_ckv512_kpe64_ps64",
        "mla_paged",
        f"{MLA} num_tokens batch_size len_indptr num_kv_indices",
        {**Q_LATENT, **LATENT, **TABLE, **LAST, **SM},
        "num_tokens,num_qo_heads,head_dim_ckv",
    ),
    define(
        "dsa_sparse_attention_h16_ckv512_kpe64_topk256_ps64",
        "dsa_paged",
        f"{MLA} num_tokens topk=256",
        {**Q_LATENT, **LATENT, "sparse_indices": ("num_tokens,topk", I32), **SM},
        "num_tokens,num_qo_heads,head_dim_ckv",
    ),
    define(
        "dsa_topk_indexer_fp8_h64_d128_topk256_ps64",
        "dsa_paged",
        "batch_size num_index_heads=64 index_head_dim=128 page_size=64 topk=256 max_num_pages num_pages bytes=132",
        {
            "q_index_fp8": ("batch_size,num_index_heads,index_head_dim", FP8),
            "k_index_cache_fp8": ("num_pages,page_size,bytes", "int8"),
            "weights": ("batch_size,num_index_heads", F32),
            "seq_lens": ("batch_size", I32),
            "block_table": ("batch_size,max_num_pages", I32),
        },
        "batch_size,topk",
    ),
    define(
        "moe_fp8_block_scale_ds_routing_topk8_e32",
        "moe",
        "seq_len num_experts=256 num_local_experts=32 hidden=128 blocks=1",
        {
            "routing_logits": ("seq_len,num_experts", F32),
            "routing_bias": ("num_experts", BF),
            "hidden_states": ("seq_len,hidden", FP8),
            "hidden_states_scale": ("blocks,seq_len", F32),
            "gemm1_weights": ("num_local_experts,hidden,hidden", FP8),
            "gemm1_weights_scale": ("num_local_experts,blocks,blocks", F32),
            "local_expert_offset": ("-", I32),
            "routed_scaling_factor": ("-", F32),
        },
        "seq_len,hidden",
    ),
    define(
        "moe_bf16_topk8_e64",
        "moe",
        "num_tokens num_experts=64 top_k=8 hidden=128",
        {
            "hidden_states": ("num_tokens,hidden", BF),
            "topk_ids": ("num_tokens,top_k", I32),
            "topk_weights": ("num_tokens,top_k", F32),
            "w1": ("num_experts,hidden,hidden", BF),
        },
        "num_tokens,hidden",
    ),
    define(
        "top_k_top_p_sampling_from_probs_v512",
        "sampling",
        "batch_size vocab_size=512",
        {"probs": ("batch_size,vocab_size", F32), "top_k": ("batch_size", I32), "top_p": ("batch_size", F32)},
        "batch_size",
    ),
    define(
        "log_softmax_v512",
        "softmax",
        "batch_size vocab_size=512",
        {"logits": ("batch_size,vocab_size", F32)},
        "batch_size",
    ),
    define(
        "gdn_decode_qk4_v8_d128_k_last",
        "gdn",
        f"batch_size seq_len=1 {GDN}",
        {
            "q": ("batch_size,seq_len,num_q_heads,head_size", BF),
            "k": ("batch_size,seq_len,num_k_heads,head_size", BF),
            "v": ("batch_size,seq_len,num_v_heads,head_size", BF),
            "state": ("batch_size,num_v_heads,head_size,head_size", F32),
            **GDN_GATES,
            "a": ("batch_size,seq_len,num_v_heads", BF),
            "scale": ("-", F32),
        },
        "batch_size,seq_len,num_v_heads,head_size",
    ),
    define(
        "gdn_prefill_qk4_v8_d128_k_last",
        "gdn",
        f"total_seq_len num_seqs len_cu_seqlens {GDN}",
        {
            "q": ("total_seq_len,num_q_heads,head_size", BF),
            "k": ("total_seq_len,num_k_heads,head_size", BF),
            "v": ("total_seq_len,num_v_heads,head_size", BF),
            "state": ("num_seqs,num_v_heads,head_size,head_size", F32),
            **GDN_GATES,
            "cu_seqlens": ("len_cu_seqlens", I64),
            "scale": ("-", F32),
        },
        "total_seq_len,num_v_heads,head_size",
    ),
    define(
        "mamba_ssu_decode_h8_d64_s128_ng4",
        "mamba_ssu",
        "batch_size state_cache_size nheads=8 head_dim=64 dstate=128",
        {
            "state": ("state_cache_size,nheads,head_dim,dstate", BF),
            "x": ("batch_size,nheads,head_dim", BF),
            "A": ("nheads,head_dim,dstate", F32),
            "dt_bias": ("nheads,head_dim", BF),
            "state_batch_indices": ("batch_size", I32),
        },
        "batch_size,nheads,head_dim",
    ),
    define(
        "embedding_v512_h128",
        "embedding",
        "num_tokens vocab_size=512 hidden=128",
        {"input_ids": ("num_tokens", I64), "weight": ("vocab_size,hidden", BF)},
        "num_tokens,hidden",
    ),
)
