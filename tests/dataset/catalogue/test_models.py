"""Models: every file says where its numbers are from; modules call kernels of the right sizes on one rank."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kernelmill.dataset.catalogue import Module, entries, model, models, modules

LLAMA, DEEPSEEK = "llama-3.1-8b", "deepseek-v3"


def definitions(of: str, ranks: int) -> set[str]:
    return {name for module in modules(of, ranks) for name in module.definitions}


def one(of: str, ranks: int, kind: str) -> Module:
    (found,) = (module for module in modules(of, ranks) if module.kind == kind)
    return found


def test_every_model_says_where_its_numbers_are_from() -> None:
    assert len(models()) >= 45
    ids = [id for one in models() for id in one.ids]
    assert len(ids) == len(set(ids))
    for each in models():
        assert each.source and each.name and each.tensor_parallel and each.attention and each.mlp
        counted = [block.layers for block in each.attention]
        if None not in counted:
            assert sum(layers or 0 for layers in counted) == each.layers, each.id


def test_an_alias_is_the_same_model() -> None:
    assert model("deepseek-r1") is model(DEEPSEEK)
    with pytest.raises(LookupError, match=r"no model 'llama-9'; known: .*llama-3.1-8b"):
        model("llama-9")


def test_the_modules_of_a_dense_model_follow_a_step() -> None:
    names = [module.name for module in modules(LLAMA, 1)]
    before, after = ["embedding", "input norm", "attention", "norm after attention"], ["MLP", "final norm"]
    assert names == [*before, *after, "output head", "sampling"]
    attention = one(LLAMA, 1, "gqa")
    assert attention.layers == 32
    assert [kernel.role for kernel in attention.kernels][:2] == ["qkv projection", "rotary embedding"]
    assert {"gemm_bf16_n6144_k4096", "gqa_paged_decode_h32_kv8_d128_ps16"} < set(attention.definitions)
    assert one(LLAMA, 1, "dense").definitions == (
        "gemm_bf16_n28672_k4096",
        "silu_and_mul_i14336",
        "gemm_bf16_n4096_k14336",
    )


@pytest.mark.parametrize(
    ("of", "ranks", "names"),
    [
        # Heads, columns and words are split; norms are not.
        ("llama-3.1-70b", 4, {"gemm_bf16_n2560_k8192", "gqa_paged_decode_h16_kv2_d128_ps1", "rmsnorm_h8192"}),
        # KV heads are repeated where there are fewer than ranks.
        ("qwen3-235b-a22b", 8, {"gqa_paged_decode_h8_kv1_d128_ps16", "gemm_bf16_n1280_k4096"}),
        (DEEPSEEK, 8, {"gemm_fp8_block_scale_n2112_k7168", "gemm_bf16_n256_k7168"}),
        (DEEPSEEK, 8, {"mla_paged_decode_h16_ckv512_kpe64_ps1"}),
        (
            DEEPSEEK,
            8,
            {"moe_fp8_block_scale_ds_routing_topk8_ng8_kg4_e32_h7168_i2048", "rmsnorm_h1536", "rmsnorm_h512"},
        ),
        # The experts themselves are split where they are few.
        ("mixtral-8x7b", 2, {"moe_bf16_renormalize_routing_topk2_e8_h4096_i7168"}),
        ("gpt-oss-20b", 1, {"gqa_paged_decode_sink_swa128_h64_kv8_d64_ps16", "gqa_paged_decode_sink_h64_kv8_d64_ps16"}),
        ("gemma-2-2b", 1, {"gqa_paged_decode_swa4096_cap50_h8_kv4_d256_ps16", "softcap30_log_softmax_v256000"}),
        ("qwen3-next-80b-a3b", 2, {"gdn_decode_qk8_v16_d128_k_last", "gemma_rmsnorm_h256"}),
        ("nemotron-3-super-120b-a12b", 4, {"mamba_ssu_decode_inplace_h32_d64_s128_ng2"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_kernels_have_the_sizes_of_one_rank(of: str, ranks: int, names: set[str]) -> None:
    assert names <= definitions(of, ranks)


def test_an_epsilon_that_a_name_does_not_imply_is_in_it() -> None:
    assert "rmsnorm_h4096" in definitions(LLAMA, 1) - definitions("qwen3-8b", 1)
    assert "rmsnorm_h4096_eps1e-6" in definitions("qwen3-8b", 1)


def test_a_split_that_heads_do_not_allow_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Llama-3.1-8B does not split over 3 ranks; take one of \(1,\)"):
        modules(LLAMA, 3)


def test_every_kernel_of_a_shipped_split_is_in_the_catalogue() -> None:
    for each in models():
        for ranks in each.tensor_parallel:
            assert definitions(each.id, ranks) <= entries().keys()


def test_uses_say_who_calls() -> None:
    (use,) = (use for use in entries()["gemm_bf16_n6144_k4096"].uses if use.model == LLAMA)
    assert (use.ranks, use.module, use.role, use.layers) == (1, "attention", "qkv projection", 32)


def test_reading_the_catalogue_loads_nothing_heavy() -> None:
    code = "import sys; from kernelmill.dataset.catalogue import entries; entries(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
