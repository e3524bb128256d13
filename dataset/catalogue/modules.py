"""Modules: a model's parts in the order of a step, each with the kernels that it calls on one rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernelmill.dataset.catalogue import kernel
from kernelmill.dataset.catalogue.kernel import Kernel
from kernelmill.dataset.catalogue.model import Block, Model, model
from kernelmill.dataset.catalogue.template import Constants

SAMPLERS = ("top_p", "top_k_top_p", "top_k", "min_p")
"""The first two for every vocabulary."""


@dataclass(frozen=True)
class Module:
    """One box of a model's diagram."""

    name: str
    """Such as `attention`; several may have the same one, where layers differ."""
    kind: str
    """embedding, norm, head, sampling, or the kind of the attention or MLP."""
    detail: str
    """In words, what tells it from others of its name."""
    layers: int | None
    """How many layers have it, 1 outside the layers; None where the model's source doesn't say."""
    kernels: tuple[Kernel, ...]
    """Empty where no definition is written yet."""

    @property
    def definitions(self) -> tuple[str, ...]:
        """Names, each once."""
        return tuple(dict.fromkeys(one.definition for one in self.kernels))


def modules(of: Model | str, ranks: int) -> list[Module]:
    """A model's modules on one of `ranks` ranks. LookupError for an unknown model, ValueError for a bad split.

    Their definitions are in the dataset for the numbers of ranks in `tensor_parallel`.
    """
    one = model(of) if isinstance(of, str) else of
    if ranks < 1 or any(block.get("q_heads", ranks) % ranks for block in one.attention):
        raise ValueError(f"{one.name} does not split over {ranks} ranks; take one of {one.tensor_parallel}")
    size = one.hidden_size
    table = Kernel("lookup", "embedding", {"vocab_size": one.vocab_size, "embedding_dim": size})
    norms = (kernel.norm(one, "norm", size), *kernel.fused_norm(one))
    return [
        Module("embedding", "embedding", f"{one.vocab_size} words of {size}", 1, (table,) if one.common else ()),
        Module("input norm", "norm", f"over {size}", one.layers, norms),
        *(_attention(one, block, ranks) for block in one.attention),
        Module("norm after attention", "norm", f"over {size}", one.layers, tuple(kernel.fused_norm(one))),
        *_mlps(one, ranks),
        Module("final norm", "norm", f"over {size}", 1, tuple(kernel.fused_norm(one))),
        _head(one, ranks),
        _sampling(one),
    ]


def _attention(one: Model, block: Block, ranks: int) -> Module:
    make = {"gqa": _gqa, "mla": _mla, "gdn": _gdn, "mamba2": _mamba2, "other": _other}[block.kind]
    detail, kernels = make(one, block, ranks)
    return Module("attention", block.kind, detail, block.layers, tuple(kernels))


Made = tuple[str, list[Kernel]]


def _gqa(one: Model, block: Block, ranks: int) -> Made:
    heads, shared, width = block["q_heads"] // ranks, max(1, block["kv_heads"] // ranks), block["head_dim"]
    kernels = [kernel.gemm(one, "qkv projection", (heads + 2 * shared) * width, one.hidden_size)]
    if block.get("qk_norm"):
        kernels.append(kernel.norm(one, "norm of queries and keys", width))
    if block["rotary_dim"]:
        kernels.append(kernel.rope("rotary embedding", width, block["rotary_dim"]))
    kernels += [*kernel.grouped_query(one, block, ranks)]
    kernels.append(kernel.gemm(one, "output projection", one.hidden_size, heads * width))
    detail = f"{block['q_heads']} query heads and {block['kv_heads']} of keys and values, {width} wide"
    if block.get("window"):
        detail += f", window {block['window']}"
    return detail + (", with sinks" if block.get("sinks") else ""), kernels


def _mla(one: Model, block: Block, ranks: int) -> Made:
    heads, rank = block["q_heads"] // ranks, block["kv_rank"]
    down = block["q_rank"] + rank + block["rope_dim"]
    keys, values = block["nope_dim"], block["v_dim"]
    kernels = [
        kernel.gemm(one, "down projection", down, one.hidden_size),
        kernel.norm(one, "norm of the query's latent", block["q_rank"]),
        kernel.norm(one, "norm of the latent", rank),
        kernel.gemm(one, "query projection", heads * (keys + block["rope_dim"]), block["q_rank"]),
        kernel.gemm(one, "key and value projection", heads * (keys + values), rank),
        *kernel.latent(block, ranks),
        kernel.gemm(one, "output projection", one.hidden_size, heads * values),
    ]
    sparse = f", the {block['index_topk']} best tokens" if block.get("index_topk") else ""
    return f"{block['q_heads']} heads over a latent of {rank} + {block['rope_dim']}{sparse}", kernels


def _gdn(one: Model, block: Block, ranks: int) -> Made:
    keys, values, width = block["q_heads"] // ranks, block["v_heads"] // ranks, block["head_dim"]
    constants = {"num_q_heads": keys, "num_v_heads": values, "head_size": width}
    kernels = [
        kernel.gemm(one, "query, key, value and gate projection", 2 * (keys + values) * width, one.hidden_size),
        Kernel("decode", "gdn_decode", constants),
        Kernel("prefill", "gdn_prefill", constants),
        kernel.gemm(one, "output projection", one.hidden_size, values * width),
    ]
    return f"gated delta rule, {block['q_heads']} key and {block['v_heads']} value heads of {width}", kernels


def _mamba2(one: Model, block: Block, ranks: int) -> Made:
    heads, groups = block["heads"] // ranks, max(1, block["groups"] // ranks)
    constants = {"nheads": heads, "head_dim": block["head_dim"], "dstate": block["state"], "ngroups": groups}
    kernels = [
        Kernel("decode", "mamba_ssu_decode_inplace", constants),
        kernel.gemm(one, "output projection", one.hidden_size, heads * block["head_dim"]),
    ]
    return f"Mamba2, {block['heads']} heads of {block['head_dim']}, state {block['state']}", kernels


def _other(one: Model, block: Block, ranks: int) -> Made:
    return block["title"], [*kernel.indexer(block)] if block.get("index_topk") else []


def _mlps(one: Model, ranks: int) -> Iterator[Module]:
    for block in one.mlp:
        kernels: list[Kernel] = []
        if block.kind == "dense":
            kernels += _dense(one, block["intermediate"] // ranks, block["activation"])
            detail = f"{block['intermediate']} wide, {block['activation']}"
        elif block.kind == "moe":
            kernels += kernel.experts(one, block, ranks)
            if block["shared"]:
                kernels += _dense(one, block["shared"] * block["intermediate"] // ranks, "silu")
            detail = f"{block['experts']} experts of {block['intermediate']}, {block['top_k']} a token"
        else:
            detail = block["title"]
            if one.router:
                kernels += [kernel.gemm(one, "router", one.router[0], one.hidden_size)]
                kernels += [kernel.routing_kernel(*one.router)]
        yield Module("MLP", block.kind, detail, block.layers, tuple(kernels))


def _dense(one: Model, width: int, activation: str) -> list[Kernel]:
    return [
        kernel.gemm(one, "gate and up projection", 2 * width, one.hidden_size),
        Kernel("activation", f"{activation}_and_mul", {"intermediate_size": width}),
        kernel.gemm(one, "down projection", one.hidden_size, width),
    ]


def _head(one: Model, ranks: int) -> Module:
    """Logits; words are split over ranks as evenly as they go."""
    kernels = (kernel.gemm(one, "output head", -(-one.vocab_size // ranks), one.hidden_size),)
    return Module("output head", "head", f"{one.vocab_size} words", 1, kernels)


def _sampling(one: Model) -> Module:
    words = {"vocab_size": one.vocab_size}
    cap: Constants = {**words, "soft_cap": one.final_soft_cap, "cap": f"{one.final_soft_cap:g}"}
    logs = Kernel("log probabilities", "log_softmax", words)
    if one.final_soft_cap:
        logs = Kernel("log probabilities", "softcap_log_softmax", cap)
    samplers = tuple(
        Kernel(name.replace("_", "-"), f"{name}_sampling_from_probs", words)
        for name in (SAMPLERS if one.common else SAMPLERS[:2])
    )
    return Module("sampling", "sampling", f"{one.vocab_size} words", 1, (logs, *samplers))
