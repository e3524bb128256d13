"""Every shipped reference against an implementation that shares nothing with it."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kernelmill.evaluator.precision import Float64, widen
from tests.dataset.shipped import NAMES, SCALE, indptr, inputs, normal, outputs_of, pages, reference, shipped_definition

BF16 = {"rtol": 2**-7, "atol": 1e-5}
LSE = {"rtol": 1e-5, "atol": 1e-5}


def close(found: Tensor, expected: Tensor, rtol: float, atol: float) -> None:
    torch.testing.assert_close(found.double(), expected.double(), rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_says_the_same_in_float64(name: str) -> None:
    given = inputs(name, 3)
    with Float64():
        exact = outputs_of(reference(name)(*map(widen, given)))
    declared = outputs_of(reference(name)(*given))
    for found, expected in zip(declared, exact, strict=True):
        if "sampling" in name or "routing" in name:  # drawn at random; ties broken either way
            assert found.shape == expected.shape
        elif found.is_floating_point():
            assert expected.dtype is torch.float64
            close(found, expected, rtol=2**-8, atol=1e-4)
        else:
            assert torch.equal(found, expected)


@pytest.mark.parametrize("rows", [1, 5])
def test_rmsnorm_is_torchs(rows: int) -> None:
    x, weight = inputs("rmsnorm_h4096", rows)
    close(reference("rmsnorm_h4096")(x, weight), F.rms_norm(x.double(), (4096,), weight.double(), 1e-5), **BF16)


def test_rmsnorm_of_zeros_is_zero() -> None:
    zeros = torch.zeros(2, 4096, dtype=torch.bfloat16)
    assert not reference("rmsnorm_h4096")(zeros, normal(4096)).any()


def test_fused_add_rmsnorm_norms_the_unrounded_sum() -> None:
    x, residual, weight = inputs("fused_add_rmsnorm_h4096", 3)
    expected = F.rms_norm(x.double() + residual.double(), (4096,), weight.double(), 1e-5)
    close(reference("fused_add_rmsnorm_h4096")(x, residual, weight), expected, **BF16)


def test_silu_and_mul_gates_with_the_first_half() -> None:
    (x,) = inputs("silu_and_mul_i14336", 2)
    close(reference("silu_and_mul_i14336")(x), F.silu(x.double()[:, :14336]) * x.double()[:, 14336:], **BF16)


def test_gelu_tanh_and_mul_gates_with_the_first_half() -> None:
    (x,) = inputs("gelu_tanh_and_mul_i21504", 2)
    gate, up = x.double()[:, :21504], x.double()[:, 21504:]
    close(reference("gelu_tanh_and_mul_i21504")(x), F.gelu(gate, approximate="tanh") * up, **BF16)


def test_gemm_multiplies_by_the_transposed_weight() -> None:
    a, b = inputs("gemm_bf16_n4096_k4096", 3)
    expected = torch.einsum("mk,nk->mn", a.double(), b.double())
    close(reference("gemm_bf16_n4096_k4096")(a, b), expected, rtol=2**-7, atol=1e-4)


def test_rope_is_a_complex_rotation_of_each_pair() -> None:
    q, k, cache, positions = inputs("rope_with_cos_sin_cache_neox_style_d128_rd128", 5)
    turn = torch.complex(*cache.double()[positions].chunk(2, dim=-1)).unsqueeze(1)
    outputs = reference("rope_with_cos_sin_cache_neox_style_d128_rd128")(q, k, cache, positions)
    for found, heads in zip(outputs, (q, k), strict=True):
        turned = torch.complex(*heads.double().chunk(2, dim=-1)) * turn
        close(found, torch.cat([turned.real, turned.imag], dim=-1), **BF16)


def test_log_softmax_is_torchs_also_for_huge_logits() -> None:
    (logits,) = inputs("log_softmax_v128256", 2)
    logits[1] += 1e4
    logits[0, 5] = -math.inf
    close(reference("log_softmax_v128256")(logits), logits.double().log_softmax(dim=-1), rtol=1e-6, atol=1e-5)


def test_routing_takes_the_best_experts_and_shares_out_one() -> None:
    (logits,) = inputs("moe_softmax_routing_e128_topk8", 40)
    logits[0] = 1.0  # all equal: any eight
    logits[1] = -torch.arange(128)
    weights, ids = reference("moe_softmax_routing_e128_topk8")(logits)
    for row, values in enumerate(logits.tolist()):
        chosen = [values[expert] for expert in ids[row].tolist()]
        assert len(set(ids[row].tolist())) == 8
        assert sorted(chosen) == sorted(values)[-8:]
        powers = [math.exp(value) for value in chosen]
        close(weights[row], torch.tensor([power / sum(powers) for power in powers]), rtol=1e-6, atol=1e-7)
    assert weights.dtype is torch.float32 and ids.dtype is torch.int32


def nucleus(probs: Tensor, top_p: float) -> set[int]:
    chosen, mass = set(), 0.0
    for token in probs.argsort(descending=True).tolist():
        chosen.add(token)
        mass += float(probs[token])
        if mass >= top_p:
            break
    return chosen


@pytest.mark.parametrize("top_p", [0.0, 0.3, 0.5, 0.51, 1.0])
def test_top_p_sampling_draws_from_the_nucleus_alone(top_p: float) -> None:
    torch.manual_seed(0)
    probs = torch.zeros(128256)
    probs[[9, 70000, 128255]] = torch.tensor([0.5, 0.3, 0.2])
    drawn = reference("top_p_sampling_from_probs_v128256")(probs.expand(200, -1), torch.full((200,), top_p))
    expected = nucleus(probs, top_p)
    assert set(drawn.tolist()) == expected
    mass = sum(float(probs[token]) for token in expected)
    for token in expected:
        share = float(probs[token]) / mass
        assert abs(int((drawn == token).sum()) / 200 - share) < 5 * math.sqrt(share * (1 - share) / 200) + 1e-9


def attention(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Output and base-2 LSE of one sequence: q is [query, head, dim], k and v are [token, kv head, dim]."""
    group = q.shape[1] // k.shape[1]
    keys = k.double().repeat_interleave(group, dim=1).transpose(0, 1)
    values = v.double().repeat_interleave(group, dim=1).transpose(0, 1)
    queries = q.double().transpose(0, 1)
    output = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=scale)
    powers = torch.einsum("hqd,htd->hqt", queries, keys).mul(scale).exp()
    powers = powers if mask is None else powers * mask
    return output.transpose(0, 1), powers.sum(dim=-1).log2().T


def test_paged_decode_attends_to_its_own_pages() -> None:
    lengths = [3, 0, 1, 40]
    q, k, v = normal(4, 32, 128, std=2.0), normal(64, 1, 8, 128), normal(64, 1, 8, 128)
    table, start = pages(lengths, 64), indptr(lengths)
    output, lse = reference("gqa_paged_decode_h32_kv8_d128_ps1")(q, k, v, start, table, SCALE)
    for row, length in enumerate(lengths):
        if length == 0:
            assert not output[row].any() and (lse[row] == -math.inf).all()
            continue
        mine = table[start[row] : start[row + 1]].long()
        expected, expected_lse = attention(q[row : row + 1], k[mine, 0], v[mine, 0], SCALE)
        close(output[row], expected[0], **BF16)
        close(lse[row], expected_lse[0], **LSE)


def test_mla_decode_uses_the_latent_as_key_and_value() -> None:
    lengths = [2, 0, 33]
    q_nope, q_pe, ckv, kpe = normal(3, 16, 512), normal(3, 16, 64), normal(50, 1, 512), normal(50, 1, 64)
    table, start = pages(lengths, 50), indptr(lengths)
    output, lse = reference("mla_paged_decode_h16_ckv512_kpe64_ps1")(q_nope, q_pe, ckv, kpe, start, table, SCALE)
    for row, length in enumerate(lengths):
        if length == 0:
            assert not output[row].any() and (lse[row] == -math.inf).all()
            continue
        mine = table[start[row] : start[row + 1]].long()
        query = torch.cat([q_nope[row], q_pe[row]], dim=-1).unsqueeze(0)
        key = torch.cat([ckv[mine], kpe[mine]], dim=-1)
        expected, expected_lse = attention(query, key, key, SCALE)
        close(output[row], expected[0, :, :512], **BF16)
        close(lse[row], expected_lse[0], **LSE)


@pytest.mark.parametrize(
    ("queries", "tokens"),
    [([4], [4]), ([1, 3], [9, 3]), ([0, 2, 5], [3, 2, 70]), ([3, 2], [2, 0])],
    ids=["whole prompt", "chunk after a prefix", "no queries", "queries before the first token"],
)
def test_ragged_prefill_is_causal_from_the_end(queries: list[int], tokens: list[int]) -> None:
    q = normal(sum(queries), 32, 128, std=2.0)
    k, v = normal(sum(tokens), 8, 128), normal(sum(tokens), 8, 128)
    q_start, kv_start = indptr(queries), indptr(tokens)
    output, lse = reference("gqa_ragged_prefill_causal_h32_kv8_d128")(q, k, v, q_start, kv_start, SCALE)
    for i, (count, length) in enumerate(zip(queries, tokens, strict=True)):
        mine, seen = slice(q_start[i], q_start[i + 1]), slice(kv_start[i], kv_start[i + 1])
        sees = torch.arange(length) <= torch.arange(length - count, length).unsqueeze(1)
        some = sees.any(dim=1)
        assert not output[mine][~some].any() and (lse[mine][~some] == -math.inf).all()
        expected = attention(q[mine][some], k[seen], v[seen], SCALE, sees[some])
        close(output[mine][some], expected[0], **BF16)
        close(lse[mine][some], expected[1], **LSE)


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_keeps_to_the_declared_shapes_and_types(name: str) -> None:
    definition, given = shipped_definition(name), inputs(name, 2)
    axes: dict[str, int] = {}
    for spec, value in zip(definition.inputs.values(), given, strict=True):
        axes.update(zip(spec.shape, value.shape, strict=True) if spec.shape is not None else ())
    found = outputs_of(reference(name)(*given))
    assert [tuple(one.shape) for one in found] == [definition.shape(output, axes) for output in definition.outputs]
    assert [f"{one.dtype}" for one in found] == [f"torch.{spec.dtype}" for spec in definition.outputs.values()]
