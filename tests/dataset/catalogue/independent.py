"""The templates' operations written a second time, in float64 and in another way than the references: by torch's own
functions, by loops over tokens, heads and experts, by dense matrices where the reference is blocked.

Each takes the inputs by name, and the template's constants, and gives the outputs in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Given = Mapping[str, Any]


def norm(given: Given, constants: Given, *, unit: bool = False) -> tuple[Tensor, ...]:
    rows = given["hidden_states"].double() + (given["residual"].double() if "residual" in given else 0.0)
    weight = given["weight"].double() + float(unit)
    return F.rms_norm(rows, (rows.shape[1],), weight, constants["epsilon"]), rows


def activation(gate: Callable[[Tensor], Tensor]) -> Callable[[Given, Given], tuple[Tensor, ...]]:
    def compute(given: Given, constants: Given) -> tuple[Tensor, ...]:
        half = constants["intermediate_size"]
        return (gate(given["gate_up"].double()[:, :half]) * given["gate_up"].double()[:, half:],)

    return compute


def unblocked(values: Tensor, scales: Tensor) -> Tensor:
    """A matrix of float8 with a scale for each block of 128 x 128, multiplied out."""
    whole = torch.kron(scales.double(), torch.ones(128, 128, dtype=torch.float64))
    return values.double() * whole[: values.shape[0], : values.shape[1]]


def gemm_fp8(given: Given, constants: Given) -> tuple[Tensor, ...]:
    left = torch.empty(given["A"].shape, dtype=torch.float64)
    for column in range(left.shape[1]):
        left[:, column] = given["A"][:, column].double() * given["A_scale"][:, column // 128]
    return (torch.einsum("mk,nk->mn", left, unblocked(given["B"], given["B_scale"])),)


def rope(given: Given, constants: Given) -> tuple[Tensor, ...]:
    """Pairs are complex numbers."""
    turned = []
    for heads in (given["q"], given["k"]):
        rotary = constants["rotary_dim"]
        turn = torch.complex(*given["cos_sin_cache"].double()[given["positions"]].chunk(2, dim=-1)).unsqueeze(1)
        pairs = torch.complex(*heads.double()[..., :rotary].chunk(2, dim=-1)) * turn
        turned.append(torch.cat([pairs.real, pairs.imag, heads.double()[..., rotary:]], dim=-1))
    return tuple(turned)


def softcap(given: Given, constants: Given) -> tuple[Tensor, ...]:
    cap = constants["soft_cap"]
    return (F.log_softmax(cap * (given["logits"].double() / cap).tanh(), dim=-1),)


def one_hot(given: Given, constants: Given) -> tuple[Tensor, ...]:
    return (F.one_hot(given["token_ids"], constants["vocab_size"]).double() @ given["weight"].double(),)


def tokens_of(given: Given, row: int, cache: str) -> Tensor:
    """The cached tokens of one sequence, found one by one."""
    pages = given["kv_indices"][given["kv_indptr"][row] : given["kv_indptr"][row + 1]].tolist()
    size = given[cache].shape[1]
    last = int(given["kv_last_page_len"][row]) if "kv_last_page_len" in given else 1
    length = max(0, len(pages) - 1) * size + last if pages else 0
    return torch.stack([given[cache][pages[t // size], t % size] for t in range(length)]).double()


def attend(q: Tensor, k: Tensor, v: Tensor, given: Given, constants: Given) -> tuple[Tensor, Tensor]:
    """Output [query, head, dim] and base-2 LSE of one sequence, whose last tokens the queries are.

    A sink is a key more, of zeros, whose logit is a bias, and whose value is zero.
    """
    count, length = q.shape[0], k.shape[0]
    behind = torch.arange(length - count, length).unsqueeze(1) - torch.arange(length)
    sees = behind >= 0
    if "window" in constants:
        sees &= behind < constants["window"]
    group = q.shape[1] // k.shape[1]
    queries = q.double().transpose(0, 1)
    keys, values = (part.double().repeat_interleave(group, dim=1).transpose(0, 1) for part in (k, v))
    bias = torch.zeros(q.shape[1], count, length, dtype=torch.float64).masked_fill(~sees, -math.inf)
    if "sinks" in given:
        keys, values = (F.pad(part, (0, 0, 0, 1)) for part in (keys, values))
        bias = torch.cat([bias, given["sinks"].double().reshape(-1, 1, 1).expand(-1, count, 1)], dim=-1)
    logits = torch.einsum("hqd,htd->hqt", queries, keys) * given["sm_scale"]
    if "soft_cap" in constants:
        capped = constants["soft_cap"] * torch.tanh(logits / constants["soft_cap"])
        bias, logits = bias + capped - logits, capped
    output = F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias, scale=given["sm_scale"])
    powers = torch.exp(torch.einsum("hqd,htd->hqt", queries, keys) * given["sm_scale"] + bias)
    return output.transpose(0, 1), powers.sum(dim=-1).log2().T


def sequences(given: Given) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Queries, keys and values of each sequence of an attention over pages or over packed tokens."""
    queries = torch.cat([given["q_nope"], given["q_pe"]], dim=-1) if "q_nope" in given else given["q"]
    bounds = given["qo_indptr"].tolist() if "qo_indptr" in given else list(range(len(queries) + 1))
    for row, (start, stop) in enumerate(pairwise(bounds)):
        if "ckv_cache" in given:
            latents = tokens_of(given, row, "ckv_cache")
            keys = torch.cat([latents, tokens_of(given, row, "kpe_cache")], dim=-1).unsqueeze(1)
            yield queries[start:stop], keys, latents.unsqueeze(1)
        elif "k_cache" in given:
            yield queries[start:stop], tokens_of(given, row, "k_cache"), tokens_of(given, row, "v_cache")
        else:
            seen = slice(given["kv_indptr"][row], given["kv_indptr"][row + 1])
            yield queries[start:stop], given["k"][seen], given["v"][seen]


def attention(given: Given, constants: Given) -> tuple[Tensor, ...]:
    parts = [attend(q, k, v, given, constants) for q, k, v in sequences(given)]
    return torch.cat([output for output, _ in parts]), torch.cat([lse for _, lse in parts])


def sparse_attention(given: Given, constants: Given) -> tuple[Tensor, ...]:
    outputs, sums = [], []
    for row, slots in enumerate(given["sparse_indices"].tolist()):
        places = [(slot // constants["page_size"], slot % constants["page_size"]) for slot in slots if slot >= 0]
        latents = torch.stack([given["ckv_cache"][place] for place in places]).double()
        keys = torch.cat([latents, torch.stack([given["kpe_cache"][place] for place in places]).double()], dim=-1)
        query = torch.cat([given["q_nope"][row], given["q_pe"][row]], dim=-1).unsqueeze(0)
        output, lse = attend(query, keys.unsqueeze(1), latents.unsqueeze(1), given, constants)
        outputs.append(output)
        sums.append(lse)
    return torch.cat(outputs), torch.cat(sums)


def indexer(given: Given, constants: Given) -> tuple[Tensor, ...]:
    """Every slot of the cache is scored; those of other sequences are struck out."""
    keys = (given["k_index_cache"].double() * given["k_index_scale"].double().unsqueeze(-1)).flatten(0, 1)
    chosen = torch.full((len(given["seq_lens"]), constants["topk"]), -1)
    for row, length in enumerate(given["seq_lens"].tolist()):
        pages, size = given["block_table"][row].tolist(), constants["page_size"]
        own = torch.tensor([pages[t // size] * size + t % size for t in range(length)])
        scores = torch.full((len(keys),), -math.inf, dtype=torch.float64)
        each = torch.einsum("hd,td->ht", given["q_index"][row].double(), keys[own]).clamp(min=0.0)
        scores[own] = torch.einsum("h,ht->t", given["weights"][row].double(), each)
        best = scores.argsort(descending=True)[: min(constants["topk"], length)]
        chosen[row, : len(best)] = best
    return (chosen,)


def delta_rule(state: Tensor, q: Tensor, k: Tensor, v: Tensor, gates: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """One head's step, the state as [key, value], by the form (I - beta k k^T) of the update."""
    decay, beta = gates
    change = torch.eye(len(k), dtype=torch.float64) - beta * torch.outer(k, k)
    state = change @ (decay * state) + beta * torch.outer(k, v)
    return state, state.T @ q


def gdn(given: Given, constants: Given) -> tuple[Tensor, ...]:
    decoding = "cu_seqlens" not in given
    packed = {name: given[name].double().squeeze(1) if decoding else given[name].double() for name in "qkvab"}
    bounds = list(range(len(packed["q"]) + 1)) if decoding else given["cu_seqlens"].tolist()
    output, new_state = torch.zeros_like(packed["v"]), torch.zeros(given["state"].shape, dtype=torch.float64)
    group = packed["v"].shape[1] // packed["q"].shape[1]
    for sequence, (start, stop) in enumerate(pairwise(bounds)):
        for head in range(packed["v"].shape[1]):
            state = given["state"][sequence, head].double().T
            for token in range(start, stop):
                step = F.softplus(packed["a"][token, head] + given["dt_bias"][head].double())
                gates = torch.exp(-step * given["A_log"][head].double().exp()), packed["b"][token, head].sigmoid()
                q, k = packed["q"][token, head // group] * given["scale"], packed["k"][token, head // group]
                state, output[token, head] = delta_rule(state, q, k, packed["v"][token, head], gates)
            new_state[sequence, head] = state.T
    return output.unsqueeze(1) if decoding else output, new_state


def mamba(given: Given, constants: Given) -> tuple[Tensor, ...]:
    output, new_state = torch.zeros(given["x"].shape, dtype=torch.float64), given["state"].double()
    group = given["x"].shape[1] // given["B"].shape[1]
    for row, slot in enumerate(given["state_batch_indices"].tolist()):
        for head in range(given["x"].shape[1]) if slot >= 0 else ():
            step = F.softplus(given["dt"][row, head].double() + given["dt_bias"][head].double())
            x, into = given["x"][row, head].double(), given["B"][row, head // group].double()
            fading = torch.exp(step * given["A"][head].double())
            new_state[slot, head] = fading * new_state[slot, head] + torch.outer(step * x, into)
            read = new_state[slot, head] @ given["C"][row, head // group].double()
            output[row, head] = read + given["D"][head].double() * x
    return output, new_state


def routed(given: Given, constants: Given, row: int) -> dict[int, float]:
    """Experts of one token with their weights."""
    top_k, logits = constants["top_k"], given["routing_logits"][row].double()
    if "routing_bias" not in given:
        best = logits.argsort(descending=True)[:top_k].tolist()
        return dict(zip(best, logits[best].softmax(dim=0).tolist(), strict=True))
    scores = logits.sigmoid()
    biased = (scores + given["routing_bias"].double()).tolist()
    size = len(biased) // constants["n_group"]
    groups = sorted(range(constants["n_group"]), key=lambda g: -sum(sorted(biased[g * size : (g + 1) * size])[-2:]))
    kept = [expert for g in groups[: constants["topk_group"]] for expert in range(g * size, (g + 1) * size)]
    best = sorted(kept, key=lambda expert: -biased[expert])[:top_k]
    total = sum(float(scores[expert]) for expert in best)
    return {expert: float(scores[expert]) / total * given["routed_scaling_factor"] for expert in best}


def experts(given: Given, constants: Given) -> tuple[Tensor, ...]:
    output = torch.zeros(given["hidden_states"].shape, dtype=torch.float64)
    scaled = "hidden_states_scale" in given

    def weight(name: str, local: int) -> Tensor:
        values = given[name][local]
        return unblocked(values, given[f"{name}_scale"][local]) if scaled else values.double()

    weights = [(weight("gemm1_weights", e), weight("gemm2_weights", e)) for e in range(len(given["gemm1_weights"]))]
    for row in range(len(output)):
        token = given["hidden_states"][row].double()
        if scaled:
            token = (
                token
                * torch.kron(given["hidden_states_scale"][:, row].double(), torch.ones(128)).double()[: len(token)]
            )
        for expert, share in routed(given, constants, row).items():
            local = expert - given["local_expert_offset"]
            if 0 <= local < len(weights):
                up, gate = F.linear(token, weights[local][0]).chunk(2)
                output[row] += share * F.linear(F.silu(gate) * up, weights[local][1])
    return (output,)


def support(name: str, probs: list[float], limits: dict[str, float]) -> dict[int, float]:
    """The tokens that a sampler may give, with their shares, one by one from the likeliest."""
    ranked = sorted(range(len(probs)), key=lambda token: -probs[token])
    if "top_k" in name:
        ranked = ranked[: int(limits["top_k"])]
    total, mass = sum(probs[token] for token in ranked), 0.0
    kept: list[int] = []
    for token in ranked:
        if "top_p" in name and kept and mass >= limits["top_p"] * total:
            break
        if name == "min_p" and probs[token] < limits["min_p"] * probs[ranked[0]]:
            break
        kept.append(token)
        mass += probs[token]
    return {token: probs[token] / mass for token in kept}


COMPUTE: dict[str, Callable[[Given, Given], tuple[Tensor, ...]]] = {
    "rmsnorm": lambda given, constants: norm(given, constants)[:1],
    "fused_add_rmsnorm": lambda given, constants: norm(given, constants)[:1],
    "fused_add_rmsnorm_inplace": norm,
    "gemma_rmsnorm": lambda given, constants: norm(given, constants, unit=True)[:1],
    "gemma_fused_add_rmsnorm_inplace": lambda given, constants: norm(given, constants, unit=True),
    "silu_and_mul": activation(F.silu),
    "gelu_tanh_and_mul": activation(lambda gate: F.gelu(gate, approximate="tanh")),
    "gemm_bf16": lambda given, _: (F.linear(given["A"].double(), given["B"].double()),),
    "gemm_fp8_block_scale": gemm_fp8,
    "rope_with_cos_sin_cache_neox_style": rope,
    "rope_with_cos_sin_cache_neox_style_partial": rope,
    "log_softmax": lambda given, _: (given["logits"].double().log_softmax(dim=-1),),
    "softcap_log_softmax": softcap,
    "embedding": one_hot,
    **{f"gqa_paged_{stage}{form}": attention for stage in ("decode", "prefill_causal") for form in ("", "_pages")},
    **{
        f"gqa_paged_{stage}{form}": attention
        for stage in ("decode", "prefill_causal")
        for form in ("_window", "_sinks")
    },
    **{f"mla_paged_{stage}{form}": attention for stage in ("decode", "prefill_causal") for form in ("", "_pages")},
    "gqa_ragged_prefill_causal": attention,
    "mla_ragged_prefill_causal": attention,
    "dsa_sparse_attention": sparse_attention,
    "dsa_topk_indexer_fp8_unpacked": indexer,
    "gdn_decode": gdn,
    "gdn_prefill": gdn,
    "mamba_ssu_decode_inplace": mamba,
    "moe_bf16_renormalize": experts,
    "moe_bf16_ds": experts,
    "moe_fp8_block_scale_renormalize": experts,
    "moe_fp8_block_scale_ds": experts,
}
"""Kinds whose answer is a function of the inputs. Samplers and the router, which has ties, have tests of their own."""
