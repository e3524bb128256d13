"""Honest ways to compute the shipped definitions: what real kernels do otherwise than the reference.

Other orders of summation, splits, chunks, exp2 for exp, and bfloat16 between steps where a real kernel holds it there.
Each function takes the definition's inputs by position and returns its outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from kernelmill.evaluator.case import Case
from kernelmill.evaluator.case import Tensor as TensorArgument
from kernelmill.evaluator.compare.base import Truth
from kernelmill.evaluator.precision import Float64, widen
from kernelmill.trace_schema import Definition

Outputs = Mapping[str, Tensor]
Variant = Callable[..., Any]
LOG2E = 1 / math.log(2.0)


def arguments(case: Case, tensors: Mapping[str, Tensor]) -> list[Any]:
    """A call's inputs in order."""
    return [tensors[a.name] if isinstance(a, TensorArgument) else a for a in case.inputs]


def named(definition: Definition, results: Any) -> dict[str, Tensor]:
    values = results if isinstance(results, tuple) else (results,)
    return dict(zip(definition.outputs, values, strict=True))


def truth_of(case: Case, tensors: Mapping[str, Tensor]) -> Truth:
    """The reference's answers, run here: for references that we wrote."""
    scope: dict[str, Any] = {}
    exec(case.definition.reference, scope)
    given = arguments(case, tensors)
    declared = named(case.definition, scope["run"](*given))
    with Float64():
        exact = named(case.definition, scope["run"](*map(widen, given)))
    return Truth(declared, exact, 0.0)


def bf16(values: Tensor) -> Tensor:
    """Rounded to bfloat16 and on."""
    return values.bfloat16().float()


def matmul_bf16(a: Tensor, b: Tensor) -> Tensor:
    return functional.linear(a, b)


def matmul_split(parts: int, rounding: Callable[[Tensor], Tensor]) -> Variant:
    """Split-K: partial products, each rounded by `rounding`, summed in turn."""

    def run(a: Tensor, b: Tensor) -> Tensor:
        total = torch.zeros(a.shape[0], b.shape[0])
        for mine, theirs in zip(a.float().chunk(parts, -1), b.float().chunk(parts, -1), strict=True):
            total = rounding(total + rounding(mine @ theirs.T))
        return total.bfloat16()

    return run


def norm_fused(x: Tensor, weight: Tensor) -> Tensor:
    return functional.rms_norm(x, weight.shape, weight, 1e-5)


def norm_rounded_before_weight(x: Tensor, weight: Tensor) -> Tensor:
    """As where the normed row is stored and the weight multiplied in bfloat16."""
    rows = x.float()
    normed = (rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + 1e-5)).bfloat16()
    return normed * weight


def norm_in_chunks(x: Tensor, weight: Tensor) -> Tensor:
    """The sum of squares by 16 lanes, each over strided elements."""
    rows = x.float()
    square = torch.unflatten(rows.square(), -1, (-1, 16)).sum(-2).flip(-1).cumsum(-1)[..., -1:]
    return (rows * (torch.rsqrt(square / x.shape[-1] + 1e-5) * weight.float())).bfloat16()


def add_norm(norm: Variant, *, rounded: bool) -> Variant:
    """`rounded`: the sum is stored in bfloat16, as the next layer's residual is, before it is normed."""

    def run(x: Tensor, residual: Tensor, weight: Tensor) -> Tensor:
        rows = x.float() + residual.float()
        result: Tensor = norm(bf16(rows) if rounded else rows, weight)
        return result.bfloat16()

    return run


def norm_wide(x: Tensor, weight: Tensor) -> Tensor:
    return functional.rms_norm(x, weight.shape, weight.float(), 1e-5)


def gated(act: Callable[[Tensor], Tensor], *, wide: bool) -> Variant:
    """`wide`: in float32 up to the end; else the activation is rounded before it is multiplied."""

    def run(gate_up: Tensor) -> Tensor:
        gate, up = (half.float() if wide else half for half in gate_up.chunk(2, -1))
        return (act(gate) * up).bfloat16()

    return run


def silu_by_exp(gate: Tensor) -> Tensor:
    return gate / (1.0 + torch.exp2(-gate * LOG2E))


def gelu_by_sigmoid(gate: Tensor) -> Tensor:
    """tanh(x) = 2 sigmoid(2x) - 1."""
    return gate * torch.sigmoid(2 * math.sqrt(2 / math.pi) * gate * (1 + 0.044715 * gate * gate))


def gelu_tanh(gate: Tensor) -> Tensor:
    return functional.gelu(gate, approximate="tanh")


def log_softmax_fused(logits: Tensor) -> Tensor:
    return torch.log_softmax(logits, -1)


def log_softmax_online(logits: Tensor) -> Tensor:
    """One pass over 16 chunks: a running maximum and a sum that is scaled down as it grows."""
    top = torch.full((len(logits), 1), -math.inf)
    total = torch.zeros(len(logits), 1)
    for chunk in logits.chunk(16, -1):
        new = torch.maximum(top, chunk.amax(-1, keepdim=True))
        total = total * torch.exp(top - new) + torch.exp(chunk - new).sum(-1, keepdim=True)
        top = new
    return logits - (top + torch.log(total))


def log_softmax_base_2(logits: Tensor) -> Tensor:
    """The sum by exp2 and log2, over lanes."""
    shifted = logits - logits.amax(-1, keepdim=True)
    lanes = torch.unflatten(torch.exp2(shifted * LOG2E), -1, (-1, 64)).sum(-2)
    return shifted - torch.log2(lanes.sum(-1, keepdim=True)) / LOG2E


Attend = Callable[[Tensor, Tensor, Tensor, float, "Tensor | None"], tuple[Tensor, Tensor]]
"""Of queries [kv head, query, dim], keys and values [kv head, token, dim], the scale, a mask [query, token] of hidden
tokens: the mixed values and the natural log-sum-exp."""


def attend_fused(q: Tensor, k: Tensor, v: Tensor, scale: float, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
    """torch's flash kernel: bfloat16 weights, float32 sums."""
    padded = functional.pad(v, (0, k.shape[-1] - v.shape[-1]))
    mask = None if hidden is None else torch.zeros(hidden.shape, dtype=q.dtype).masked_fill(hidden, -math.inf)
    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    mixed, lse = kernel(q[None], k[None], padded[None], attn_mask=mask, scale=scale)
    return mixed[0, ..., : v.shape[-1]].float(), lse[0]


def attend_rounded(q: Tensor, k: Tensor, v: Tensor, scale: float, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
    """Base 2, weights not normalised before they are rounded to bfloat16, as in a flash kernel's inner loop."""
    logits = (q.float() @ k.float().transpose(1, 2)) * (scale * LOG2E)
    logits = logits if hidden is None else logits.masked_fill(hidden, -math.inf)
    top = logits.amax(-1, keepdim=True)
    weights = torch.exp2(logits - top)
    total = weights.sum(-1, keepdim=True)
    return bf16(weights) @ v.float() / total, (top + torch.log2(total)).squeeze(-1) / LOG2E


def attend_split(parts: int, attend: Attend) -> Attend:
    """Split-KV: parts of the keys on their own, merged by their log-sum-exp."""

    def run(q: Tensor, k: Tensor, v: Tensor, scale: float, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
        pieces = []
        for place in torch.arange(k.shape[1]).chunk(parts):
            mask = None if hidden is None else hidden[:, place]
            mixed, lse = attend(q, k[:, place], v[:, place], scale, mask)
            seen = torch.isfinite(lse).unsqueeze(-1)
            pieces.append((torch.where(seen, mixed, 0.0), torch.where(seen.squeeze(-1), lse, -math.inf)))
        lse = torch.logsumexp(torch.stack([piece for _, piece in pieces]), 0)
        shares = torch.stack([mixed * torch.exp(part - lse).unsqueeze(-1) for mixed, part in pieces])
        return shares.sum(0), lse

    return run


def attend_wide(q: Tensor, k: Tensor, v: Tensor, scale: float, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
    """float32 throughout, the scale after the product."""
    logits = (q.float() @ k.float().transpose(1, 2)) * scale
    logits = logits if hidden is None else logits.masked_fill(hidden, -math.inf)
    return logits.softmax(-1) @ v.float(), logits.logsumexp(-1)


ATTENDS: dict[str, Attend] = {
    "fused bf16": attend_fused,
    "bf16 weights, base 2": attend_rounded,
    "split in 5, fp32": attend_split(5, attend_wide),
    "split in 8, bf16 weights": attend_split(8, attend_rounded),
}


def gqa_decode(attend: Attend) -> Variant:
    def run(
        q: Tensor, k_cache: Tensor, v_cache: Tensor, bounds: Tensor, pages: Tensor, scale: float
    ) -> tuple[Tensor, Tensor]:
        output, lse = torch.zeros(q.shape), torch.full(q.shape[:2], -math.inf)
        for row, (start, stop) in enumerate(pairwise(bounds.tolist())):
            mine = pages[start:stop].long()
            keys, values = (cache[mine].flatten(0, 1).transpose(0, 1) for cache in (k_cache, v_cache))
            mixed, sums = attend(torch.unflatten(q[row], 0, (len(keys), -1)), keys, values, scale, None)
            output[row], lse[row] = mixed.flatten(0, 1), sums.flatten() * LOG2E
        return output.bfloat16(), lse

    return run


def mla_decode(attend: Attend) -> Variant:
    def run(
        q_nope: Tensor, q_pe: Tensor, ckv: Tensor, kpe: Tensor, bounds: Tensor, pages: Tensor, scale: float
    ) -> tuple[Tensor, Tensor]:
        output, lse = torch.zeros(q_nope.shape), torch.full(q_nope.shape[:2], -math.inf)
        for row, (start, stop) in enumerate(pairwise(bounds.tolist())):
            mine = pages[start:stop].long()
            latents = ckv[mine].flatten(0, 1)
            keys = torch.cat([latents, kpe[mine].flatten(0, 1)], -1)
            queries = torch.cat([q_nope[row], q_pe[row]], -1)
            mixed, sums = attend(queries[None], keys[None], latents[None], scale, None)
            output[row], lse[row] = mixed[0], sums[0] * LOG2E
        return output.bfloat16(), lse

    return run


def gqa_prefill(attend: Attend) -> Variant:
    """Queries of a group lie one after another, each with the mask of its own place."""

    def run(q: Tensor, k: Tensor, v: Tensor, q_bounds: Tensor, bounds: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        output, lse = torch.zeros(q.shape), torch.full(q.shape[:2], -math.inf)
        for mine, seen in zip(pairwise(q_bounds.tolist()), pairwise(bounds.tolist()), strict=True):
            count, length = mine[1] - mine[0], seen[1] - seen[0]
            hidden = torch.arange(length) > torch.arange(length - count, length).unsqueeze(1)
            queries = torch.unflatten(q[slice(*mine)], 1, (k.shape[1], -1)).permute(1, 2, 0, 3).flatten(1, 2)
            keys, values = (part[slice(*seen)].transpose(0, 1) for part in (k, v))
            group = q.shape[1] // k.shape[1]
            mixed, sums = attend(queries, keys, values, scale, hidden.repeat(group, 1))
            output[slice(*mine)] = torch.unflatten(mixed, 1, (group, count)).permute(2, 0, 1, 3).flatten(1, 2)
            lse[slice(*mine)] = torch.unflatten(sums, 1, (group, count)).permute(2, 0, 1).flatten(1) * LOG2E
        return output.bfloat16(), lse

    return run


def routing(weigh: Callable[[Tensor, Tensor], Tensor]) -> Variant:
    """Ties go to the lower expert, as the definition says; `weigh` makes weights of the best logits and of all."""

    def run(logits: Tensor) -> tuple[Tensor, Tensor]:
        best, experts = logits.float().sort(dim=-1, descending=True, stable=True)
        return weigh(best[:, :8], logits.float()), experts[:, :8].int()

    return run


def weigh_all(best: Tensor, logits: Tensor) -> Tensor:
    """A softmax over all experts, the chosen ones renormalised."""
    chosen = torch.exp(best - logits.logsumexp(-1, keepdim=True))
    return chosen / chosen.sum(-1, keepdim=True)


def weigh_base_2(best: Tensor, logits: Tensor) -> Tensor:
    powers = torch.exp2((best - best[:, :1]) * LOG2E)
    return powers * powers.flip(-1).cumsum(-1)[:, -1:].reciprocal()


def weigh_by_sigmoid(best: Tensor, logits: Tensor) -> Tensor:
    """Each weight on its own: one over the sum of the others' odds."""
    return torch.exp(best.unsqueeze(1) - best.unsqueeze(2)).sum(-1).reciprocal()


def rope(rotate: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Variant:
    def run(q: Tensor, k: Tensor, cache: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        cosine, sine = cache[positions].unsqueeze(1).chunk(2, -1)
        return rotate(q, cosine, sine), rotate(k, cosine, sine)

    return run


def rotate_by_swap(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    low, high = heads.float().chunk(2, -1)
    swapped = torch.cat([-high, low], -1)
    return torch.addcmul(heads.float() * cosine.repeat(1, 1, 2), swapped, sine.repeat(1, 1, 2)).bfloat16()


def rotate_complex(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    turned = torch.complex(*heads.float().chunk(2, -1)) * torch.complex(cosine, sine)
    return torch.cat([turned.real, turned.imag], -1).bfloat16()


def rotate_fma(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """One rounding of each sum, as fused multiply-add gives."""
    low, high = heads.double().chunk(2, -1)
    wide = [low * cosine - single(high * sine), high * cosine + single(low * sine)]
    return torch.cat(wide, -1).float().bfloat16()


def single(product: Tensor) -> Tensor:
    """The product as float32 holds it."""
    return product.float().double()


def nucleus(probs: Tensor, top_p: Tensor) -> tuple[Tensor, Tensor]:
    ranked, tokens = probs.sort(-1, descending=True)
    return ranked * (ranked.cumsum(-1) - ranked < top_p.unsqueeze(1)), tokens


def sample_multinomial(probs: Tensor, top_p: Tensor) -> Tensor:
    ranked, tokens = nucleus(probs, top_p)
    return tokens.gather(1, torch.multinomial(ranked, 1)).squeeze(1)


def sample_inverse(probs: Tensor, top_p: Tensor) -> Tensor:
    """Where a uniform number falls in the cumulative sum."""
    ranked, tokens = nucleus(probs, top_p)
    sums = ranked.cumsum(-1)
    drawn = torch.rand(len(probs), 1) * sums[:, -1:]
    place = torch.minimum(torch.searchsorted(sums, drawn, right=True), (ranked > 0).sum(-1, keepdim=True) - 1)
    return tokens.gather(1, place).squeeze(1)


def sample_gumbel(probs: Tensor, top_p: Tensor) -> Tensor:
    """The largest of p / E, E exponential."""
    ranked, tokens = nucleus(probs, top_p)
    return tokens.gather(1, (ranked / torch.empty_like(ranked).exponential_()).argmax(-1, keepdim=True)).squeeze(1)


NORMS: dict[str, Variant] = {
    "fused bf16": norm_fused,
    "rounded before the weight": norm_rounded_before_weight,
    "16 lanes": norm_in_chunks,
}
VARIANTS: dict[str, dict[str, Variant]] = {
    "gemm_bf16_n4096_k4096": {
        "bf16 matmul": matmul_bf16,
        "split-K of 8, fp32": matmul_split(8, lambda part: part),
        "split-K of 4, bf16 sums": matmul_split(4, bf16),
    },
    "rmsnorm_h4096": NORMS,
    "fused_add_rmsnorm_h4096": {
        "sum in bf16, fp32 norm": add_norm(norm_wide, rounded=True),
        "sum in bf16, rounded before the weight": add_norm(norm_rounded_before_weight, rounded=True),
        "fp32, 16 lanes": add_norm(norm_in_chunks, rounded=False),
    },
    "silu_and_mul_i14336": {
        "bf16 silu": gated(functional.silu, wide=False),
        "fp32 silu": gated(functional.silu, wide=True),
        "by exp2": gated(silu_by_exp, wide=True),
    },
    "gelu_tanh_and_mul_i21504": {
        "bf16 gelu": gated(gelu_tanh, wide=False),
        "fp32 gelu": gated(gelu_tanh, wide=True),
        "by sigmoid": gated(gelu_by_sigmoid, wide=True),
    },
    "log_softmax_v128256": {
        "fused": log_softmax_fused,
        "online": log_softmax_online,
        "base 2": log_softmax_base_2,
    },
    "gqa_paged_decode_h32_kv8_d128_ps1": {name: gqa_decode(attend) for name, attend in ATTENDS.items()},
    "mla_paged_decode_h16_ckv512_kpe64_ps1": {name: mla_decode(attend) for name, attend in ATTENDS.items()},
    "gqa_ragged_prefill_causal_h32_kv8_d128": {name: gqa_prefill(attend) for name, attend in ATTENDS.items()},
    "moe_softmax_routing_e128_topk8": {
        "softmax over all": routing(weigh_all),
        "base 2": routing(weigh_base_2),
        "by odds": routing(weigh_by_sigmoid),
    },
    "rope_with_cos_sin_cache_neox_style_d128_rd128": {
        "by swapping halves": rope(rotate_by_swap),
        "complex": rope(rotate_complex),
        "fused multiply-add": rope(rotate_fma),
    },
    "top_p_sampling_from_probs_v128256": {
        "multinomial": sample_multinomial,
        "inverse of the cumulative sum": sample_inverse,
        "Gumbel": sample_gumbel,
    },
}


def variants(definition: Definition) -> Iterator[tuple[str, Variant]]:
    yield from VARIANTS.get(definition.name, {}).items()
