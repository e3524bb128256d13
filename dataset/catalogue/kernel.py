"""Kernels: which template with which constants computes a part of a model, on one of so many ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelmill.dataset.catalogue.model import Block, Model
from kernelmill.dataset.catalogue.template import Constants, Template, template

NAMED_AT_1E_5 = (3072, 4096, 8192, 16384)
"""Hidden sizes whose norms, as the public dataset names them, have 1e-5 where a name says nothing; others have 1e-6."""
PUBLIC_FUSED = (2048, 4096, 6144, 7168)
"""Hidden sizes of which the public dataset has workloads of the fused norm that leaves the sum behind."""
PAGE_SIZES = (1, 16, 64)


@dataclass(frozen=True)
class Kernel:
    """One call that a module makes."""

    role: str
    """What it does for the module, such as `qkv projection`."""
    kind: str
    constants: Constants = field(hash=False)

    @property
    def template(self) -> Template:
        return template(self.kind)

    @property
    def definition(self) -> str:
        """Name of its definition."""
        return self.template.name(self.constants)


def norm(one: Model, role: str, size: int) -> Kernel:
    """A norm over `size` numbers."""
    kind = "gemma_rmsnorm" if one.norm == "gemma" else "rmsnorm"
    return Kernel(role, kind, _epsilon(one, size))


def fused_norm(one: Model) -> list[Kernel]:
    """Residual and norm in one, in place as engines call it, and in the public form."""
    constants = _epsilon(one, one.hidden_size)
    if one.norm == "gemma":
        return [Kernel("residual and norm", "gemma_fused_add_rmsnorm_inplace", constants)]
    in_place = Kernel("residual and norm", "fused_add_rmsnorm_inplace", constants)
    if one.hidden_size not in PUBLIC_FUSED:
        return [in_place]
    return [in_place, Kernel("residual and norm, public form", "fused_add_rmsnorm", constants)]


def _epsilon(one: Model, size: int) -> Constants:
    usual = 1e-5 if size in NAMED_AT_1E_5 and one.norm == "rms" else 1e-6
    exponent = f"{one.epsilon:.0e}".replace("e-0", "e-")
    return {
        "hidden_size": size,
        "epsilon": one.epsilon,
        "epsilon_suffix": "" if one.epsilon == usual else f"_eps{exponent}",
    }


def gemm(one: Model, role: str, features: int, depth: int) -> Kernel:
    """A projection to `features` from `depth`; routers and the head stay in bfloat16."""
    kept = role in ("router", "output head") or features % 64 or depth % 128
    kind = "gemm_bf16" if kept else f"gemm_{one.gemm}"
    return Kernel(role, kind, {"N": features, "K": depth})


def rope(role: str, head_size: int, rotary_dim: int) -> Kernel:
    kind = "rope_with_cos_sin_cache_neox_style" + ("" if rotary_dim == head_size else "_partial")
    return Kernel(role, kind, {"head_size": head_size, "rotary_dim": rotary_dim})


def grouped_query(one: Model, block: Block, ranks: int) -> Iterator[Kernel]:
    """The attention itself of a `gqa` block."""
    heads = {
        "num_qo_heads": block["q_heads"] // ranks,
        "num_kv_heads": max(1, block["kv_heads"] // ranks),
        "head_dim": block["head_dim"],
    }
    window, cap, sinks = block.get("window", 0), block.get("soft_cap", 0.0), block.get("sinks", False)
    if not (window or cap or sinks):
        for page_size in PAGE_SIZES if one.common else PAGE_SIZES[1:2]:
            ending = "" if page_size == 1 else "_pages"
            sized = {**heads, "page_size": page_size}
            yield Kernel("decode", f"gqa_paged_decode{ending}", sized)
            yield Kernel("prefill", f"gqa_paged_prefill_causal{ending}", sized)
        yield Kernel("prefill without cache", "gqa_ragged_prefill_causal", heads)
        return
    ending = "sinks" if sinks else "window"
    named = f"{'sink_' if sinks else ''}{f'swa{window}_' if window else ''}{f'cap{cap:g}_' if cap else ''}"
    texts = [f"A query sees the last {window} tokens, itself included." if window else ""]
    texts += [f"Logits are capped softly: {cap:g} * tanh(logits / {cap:g})." if cap else ""]
    constants: Constants = {
        **heads,
        "page_size": 16,
        "window": window,
        "soft_cap": cap,
        "seen": window or 1 << 40,
        "variant": named,
        "variant_text": " ".join(filter(None, texts)),
    }
    yield Kernel("decode", f"gqa_paged_decode_{ending}", constants)
    yield Kernel("prefill", f"gqa_paged_prefill_causal_{ending}", constants)


def latent(block: Block, ranks: int) -> Iterator[Kernel]:
    """The attention itself of an `mla` block: sparse where it has an indexer."""
    heads = block["q_heads"] // ranks
    shape = {
        "num_qo_heads": heads,
        "head_dim_ckv": block["kv_rank"],
        "head_dim_kpe": block["rope_dim"],
        "qk_nope_head_dim": block["nope_dim"],
    }
    if block.get("index_topk"):
        yield from indexer(block)
        for page_size in (1, 64):
            sized = {**shape, "topk": block["index_topk"], "page_size": page_size}
            yield Kernel("sparse attention", "dsa_sparse_attention", sized)
    else:
        for page_size in (1, 64):
            ending = "" if page_size == 1 else "_pages"
            sized = {**shape, "page_size": page_size}
            yield Kernel("decode", f"mla_paged_decode{ending}", sized)
            yield Kernel("prefill", f"mla_paged_prefill_causal{ending}", sized)
    unfolded = {"num_qo_heads": heads, "qk_dim": block["nope_dim"] + block["rope_dim"], "vo_dim": block["v_dim"]}
    yield Kernel("prefill without cache", "mla_ragged_prefill_causal", unfolded)


def indexer(block: Block) -> Iterator[Kernel]:
    constants = {
        "num_index_heads": block["index_heads"],
        "index_head_dim": block["index_dim"],
        "topk": block["index_topk"],
        "top_k": block["index_topk"],
        "page_size": 64,
    }
    yield Kernel("indexer", "dsa_topk_indexer_fp8_unpacked", constants)


def experts(one: Model, block: Block, ranks: int) -> Iterator[Kernel]:
    """Router and experts of a `moe` block, split over ranks by expert or, within each, by column."""
    yield gemm(one, "router", block["experts"], one.hidden_size)
    by_expert = block["split"] == "expert"
    local = block["experts"] // ranks if by_expert else block["experts"]
    constants: dict[str, int | float | str] = {
        "num_experts": block["experts"],
        "num_local_experts": local,
        "hidden_size": one.hidden_size,
        "intermediate_size": block["intermediate"] if by_expert else block["intermediate"] // ranks,
        "top_k": block["top_k"],
        "sure_experts": block["top_k"] if local == block["experts"] else 0,
    }
    routing = "renormalize"
    if block["routing"] == "ds":
        routing = "ds"
        constants |= {
            "n_group": block["n_group"],
            "topk_group": block["topk_group"],
            "routed_scaling_factor": block.get("routed_scaling_factor", 1.0),
        }
    else:
        yield routing_kernel(block["experts"], block["top_k"])
    yield Kernel("experts", f"moe_{block['quantization']}_{routing}", constants)


def routing_kernel(count: int, top_k: int) -> Kernel:
    return Kernel("routing", "moe_softmax_routing", {"num_experts": count, "top_k": top_k})
