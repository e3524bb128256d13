"""How a definition is called: which part of a step, and how axes and index tensors follow from it.

A recipe is chosen by op type and by which tensors the definition takes (offsets of queries mean prefill, and so on).
It offers every axis and index tensor that it knows by its customary names; a definition takes those it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelmill.dataset.derive.catalogued import entry_of, is_head
from kernelmill.dataset.derive.states import Ints, State, View
from kernelmill.trace_schema import Definition
from kernelmill.trace_schema.errors import DatasetError

ROW_AXES = ("batch_size", "num_tokens", "seq_len", "num_rows", "total_tokens", "M")
SEQUENCE_AXES = ("batch_size", "num_tokens", "num_seqs", "total_q")
ROPE_HEADS = {"num_qo_heads": 32, "num_q_heads": 32, "num_kv_heads": 8, "num_k_heads": 8}
"""Where a definition leaves them open."""
HEAD_NORM_WIDTH, HEADS = 256, 32
"""Norms up to this wide are over one head; a token has so many heads."""
SHORTEST_ROPE_CACHE = 8192

Group = Mapping[str, Ints]
"""Index tensors that are stored in one file."""


@dataclass(frozen=True, slots=True)
class Laid:
    """Sizes and index tensors that a state gives, by customary name."""

    axes: dict[str, int]
    groups: list[Group] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Recipe:
    """`lay` reads a state; `stored` says how many elements it would store, given features by name."""

    view: View
    lay: Callable[[Definition, State], Laid]
    stored: Callable[[Definition, Mapping[str, Any]], Any] = lambda definition, features: 0
    pages: bool = False
    """Whether page tables are read, so that the page size matters."""


def page_size(definition: Definition) -> int:
    return definition.const_axes.get("page_size", definition.const_axes.get("block_size", 16))


def _rows(definition: Definition, state: State) -> Laid:
    tokens = int(state.new.sum())
    if definition.op_type == "rmsnorm" and definition.const_axes.get("hidden_size", 1 << 20) <= HEAD_NORM_WIDTH:
        tokens *= HEADS
    return Laid(dict.fromkeys(ROW_AXES, tokens))


def _sampled(definition: Definition, state: State) -> Laid:
    return Laid(dict.fromkeys(ROW_AXES, state.sampled))


def _rope(definition: Definition, state: State) -> Laid:
    import numpy as np

    spans = [np.arange(kv - new, kv) for new, kv in zip(state.new, state.kv, strict=True)]
    longest = max(SHORTEST_ROPE_CACHE, 1 << (int(state.kv.max()) - 1).bit_length())
    sizes = dict.fromkeys(ROW_AXES, int(state.new.sum())) | ROPE_HEADS
    sizes |= dict.fromkeys(("max_seq_len", "max_position", "max_positions"), longest)
    return Laid(sizes, [dict.fromkeys(("positions", "pos_ids", "position_ids"), np.concatenate(spans))])


def offsets(lengths: Ints) -> Ints:
    import numpy as np

    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _sequences(state: State) -> dict[str, int]:
    count, new, kv = len(state.kv), int(state.new.sum()), int(state.kv.sum())
    sizes = dict.fromkeys(SEQUENCE_AXES, count) | {"len_indptr": count + 1, "len_cu_seqlens": count + 1}
    if state.view == "prefill":
        sizes |= {"total_q": new, "num_tokens": new}
    sizes |= {"total_kv": kv, "total_seq_len": new, "total_num_tokens": new}
    return sizes | dict.fromkeys(("state_cache_size", "pool_size", "num_slots"), state.num_slots)


def _paged(definition: Definition, state: State) -> Laid:
    import numpy as np

    indices = np.concatenate(state.tables)
    group = {
        "kv_indptr": offsets(np.array([len(table) for table in state.tables])),
        "kv_indices": indices,
        "kv_last_page_len": (state.kv - 1) % state.page_size + 1,
    }
    if state.view == "prefill":
        group["qo_indptr"] = offsets(state.new)
    sizes = _sequences(state) | {"num_pages": state.num_pages, "num_kv_indices": len(indices)}
    return Laid(sizes, [group])


def _block_table(definition: Definition, state: State) -> Laid:
    import numpy as np

    # Tables are as wide as what is chosen from them at least; engines pad them, too.
    width = max(*map(len, state.tables), -(-definition.const_axes.get("topk", 1) // state.page_size))
    table = np.zeros((len(state.tables), width), dtype=np.int64)
    for row, pages in zip(table, state.tables, strict=True):
        row[: len(pages)] = pages
    sizes = _sequences(state) | {"num_pages": state.num_pages}
    sizes |= dict.fromkeys(("max_num_pages", "max_num_blocks", "max_blocks"), width)
    lengths = dict.fromkeys(("seq_lens", "kv_lens", "context_lens", "cache_seqlens"), state.kv)
    tables = dict.fromkeys(("block_table", "block_tables", "page_table"), table)
    return Laid(sizes, [{**lengths, **tables}])


def _sparse(definition: Definition, state: State) -> Laid:
    """Each query's chosen tokens: so many distinct ones, or all there are and -1 for the rest."""
    import numpy as np

    wanted = definition.const_axes["topk"]
    draws = np.random.default_rng([int(state.kv.sum()), len(state.kv)])
    chosen = np.full((len(state.kv), wanted), -1, dtype=np.int64)
    for row, pages, kv in zip(chosen, state.tables, state.kv, strict=True):
        tokens = draws.permutation(int(kv))[:wanted]
        row[: len(tokens)] = pages[tokens // state.page_size] * state.page_size + tokens % state.page_size
    sizes = _sequences(state) | {"num_pages": state.num_pages}
    return Laid(sizes, [dict.fromkeys(("sparse_indices", "topk_indices"), chosen)])


def _ragged(definition: Definition, state: State) -> Laid:
    queries = offsets(state.new)
    return Laid(_sequences(state), [{"qo_indptr": queries, "kv_indptr": offsets(state.kv)}, {"cu_seqlens": queries}])


def _recurrent(definition: Definition, state: State) -> Laid:
    groups: list[Group] = [dict.fromkeys(("state_batch_indices", "state_indices", "cache_indices"), state.slots)]
    if state.view == "prefill":
        groups.append({"cu_seqlens": offsets(state.new)})
    return Laid(_sequences(state), groups)


def _experts(definition: Definition, state: State) -> Laid:
    """Where a definition takes chosen experts: as popular as Zipf's law has it, in an order of the layer's own."""
    import numpy as np

    laid = _rows(definition, state)
    count, best = (definition.const_axes.get(axis) for axis in ("num_experts", "top_k"))
    if not count or not best or not ({"topk_ids", "topk_indices"} & definition.inputs.keys()):
        return laid
    tokens = int(state.new.sum())
    draws = np.random.default_rng([tokens, count, best])
    popular = -np.log(draws.permutation(count) + 4.0) + draws.gumbel(size=(tokens, count))
    chosen = np.argsort(-popular, axis=1)[:, :best]
    return Laid(laid.axes, [dict.fromkeys(("topk_ids", "topk_indices"), chosen)])


ROWS = Recipe("rows", _rows)
SAMPLED = Recipe("sampled", _sampled)
ROPE = Recipe("rows", _rope)
EXPERTS = Recipe("rows", _experts, lambda definition, seen: seen["tokens"] * definition.const_axes.get("top_k", 1))
PAGED_DECODE = Recipe("decode", _paged, pages=True)
PAGED_PREFILL = Recipe("prefill", _paged, pages=True)
RAGGED = Recipe("prefill", _ragged)
BLOCK_TABLE = Recipe(
    "decode",
    _block_table,
    lambda definition, seen: seen["sequences"] * -(-seen["longest"] // page_size(definition)),
    pages=True,
)
SPARSE = Recipe("decode", _sparse, lambda definition, seen: seen["sequences"] * definition.const_axes["topk"], True)
RECURRENT_DECODE = Recipe("decode", _recurrent)
RECURRENT_PREFILL = Recipe("prefill", _recurrent)

Chooser = Callable[[Definition], Recipe]


def _paged_attention(definition: Definition) -> Recipe:
    return PAGED_PREFILL if "qo_indptr" in definition.inputs else PAGED_DECODE


def _sparse_attention(definition: Definition) -> Recipe:
    return SPARSE if {"sparse_indices", "topk_indices"} & definition.inputs.keys() else BLOCK_TABLE


def _linear_attention(definition: Definition) -> Recipe:
    return RECURRENT_PREFILL if "cu_seqlens" in definition.inputs else RECURRENT_DECODE


def _softmax(definition: Definition) -> Recipe:
    return SAMPLED if "vocab_size" in definition.axes else ROWS


BY_OP_TYPE: dict[str, Chooser] = {
    **dict.fromkeys(("rmsnorm", "activation", "silu", "gemm", "embedding"), lambda _: ROWS),
    **dict.fromkeys(("sampling", "multinomial"), lambda _: SAMPLED),
    **dict.fromkeys(("softmax", "topk"), _softmax),
    "rope": lambda _: ROPE,
    "moe": lambda _: EXPERTS,
    **dict.fromkeys(("gqa_paged", "mla_paged"), _paged_attention),
    **dict.fromkeys(("gqa_ragged", "mla_ragged"), lambda _: RAGGED),
    **dict.fromkeys(("dsa_paged", "nsa_paged"), _sparse_attention),
    **dict.fromkeys(("gdn", "mamba_ssu"), _linear_attention),
}


def recipe_for(definition: Definition) -> Recipe:
    """DatasetError where nothing is known of the op type."""
    if definition.op_type not in BY_OP_TYPE:
        known = ", ".join(sorted(BY_OP_TYPE))
        raise DatasetError(
            f"{definition.name}: no recipe says how the op type {definition.op_type!r} is called in a serving step; "
            f"add one to dataset/derive/recipes.py (there are: {known})"
        )
    if is_head(entry_of(definition)):
        return SAMPLED
    return BY_OP_TYPE[definition.op_type](definition)
