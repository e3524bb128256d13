"""Hand-sized calls: the smallest and the longest, and a few that look like a serving step, for each phase.

They are there so that every definition can be judged. Calls with the weights of real traffic are derived from request
traces by `kernelmill.dataset.derive`, and take the place of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from kernelmill.dataset.catalogue.entries import Entry

ROWS = (1, 7, 64, 300, 2048)
SAMPLED = (1, 6, 33, 128)
EXPERT_ROWS = (1, 8, 61, 512)
DECODE = (
    (1,),
    (4099,),
    (17, 2048, 131, 400, 1025, 64, 33, 700),
    tuple(1 + (i * 173 + i * i * 7) % 640 for i in range(64)),
)
"""Tokens in each sequence's cache."""
PREFILL = (
    ((1, 1),),
    ((512, 512),),
    ((200, 1500), (37, 37), (1, 900), (300, 300)),
    tuple((1 + (i * 29) % 61, 62 + (i * 137) % 500) for i in range(16)),
)
"""New tokens of each sequence, and tokens that it has with them."""
SCAN = ((1,), (64,), (100, 3, 180), (257, 31, 64, 2, 200))
SLOTS = (1, 5, 24, 64)
SPARSE = (1, 3, 8, 16)
SPARSE_SLOTS = 32_768
INDEXED = ((4200,), (64, 5000), (300, 2500, 8000, 4097), (1, 640, 6000, 2048, 2050, 3333, 9000, 700))
HEADS = (32, 8)
POSITIONS = 8192
STRIDE = 7919
"""A prime: multiples of it, modulo a size that it does not divide, visit every place once and no two in a row."""


@dataclass(frozen=True)
class State:
    """One call's variable axes and stored index tensors."""

    axes: dict[str, int]
    tensors: dict[str, list[int] | list[list[int]]] = field(default_factory=dict)


def states(entry: Entry) -> Iterator[State]:
    """The calls of a definition, in the order of their size."""
    template = entry.template
    makers: dict[str, Callable[[Entry], Iterator[State]]] = {
        "rows": lambda entry: _rows(entry, template.facts.get("sizes", ROWS)),
        "sampled": lambda entry: _rows(entry, SAMPLED),
        "moe": lambda entry: _rows(entry, EXPERT_ROWS),
        "ids": _ids,
        "positions": lambda _: _positions(),
        "decode": _decode,
        "prefill": _prefill,
        "ragged": lambda _: _ragged(),
        "scan": lambda _: _scan(),
        "slots": lambda _: _slots(),
        "sparse": _sparse,
        "indexer": _indexer,
    }
    return makers[template.phase](entry)


def scattered(count: int, size: int) -> list[int]:
    """`count` different places below `size`, far from their neighbours."""
    assert count <= size and (size == 1 or math.gcd(STRIDE, size) == 1)
    return [(STRIDE * i + 13) % size for i in range(count)]


def _rows(entry: Entry, sizes: Iterable[int]) -> Iterator[State]:
    (axis,) = entry.definition.var_axes
    return (State({axis: size}) for size in sizes)


def _ids(entry: Entry) -> Iterator[State]:
    words = entry.definition.const_axes["vocab_size"]
    return (
        State({"num_tokens": rows}, {"token_ids": [(104_729 * i + 7) % words for i in range(rows)]}) for rows in ROWS
    )


def _positions() -> Iterator[State]:
    for rows in ROWS:
        axes = {"num_tokens": rows, "num_qo_heads": HEADS[0], "num_kv_heads": HEADS[1], "max_seq_len": POSITIONS}
        yield State(axes, {"positions": scattered(rows, POSITIONS)})


def _paged(lengths: Sequence[int], page_size: int) -> tuple[dict[str, int], dict[str, list[int] | list[list[int]]]]:
    counts = [-(-length // page_size) for length in lengths]
    total = sum(counts)
    pool = total + 3 + ((total + 3) % STRIDE == 0)
    axes = {"num_pages": pool, "len_indptr": len(counts) + 1, "num_kv_indices": total}
    tensors: dict[str, list[int] | list[list[int]]] = {
        "kv_indptr": _offsets(counts),
        "kv_indices": scattered(total, pool),
    }
    if page_size > 1:
        axes["batch_size"] = len(lengths)
        tensors["kv_last_page_len"] = [
            length - (count - 1) * page_size for length, count in zip(lengths, counts, strict=True)
        ]
    return axes, tensors


def _offsets(counts: Iterable[int]) -> list[int]:
    return list(accumulate(counts, initial=0))


def _decode(entry: Entry) -> Iterator[State]:
    for lengths in DECODE:
        axes, tensors = _paged(lengths, entry.definition.const_axes["page_size"])
        yield State({**axes, "batch_size": len(lengths)}, tensors)


def _prefill(entry: Entry) -> Iterator[State]:
    for sequences in PREFILL:
        axes, tensors = _paged([seen for _, seen in sequences], entry.definition.const_axes["page_size"])
        offsets = _offsets(new for new, _ in sequences)
        yield State({**axes, "total_q": offsets[-1]}, {"qo_indptr": offsets, **tensors})


def _ragged() -> Iterator[State]:
    for sequences in PREFILL:
        queries, keys = (_offsets(pair[side] for pair in sequences) for side in (0, 1))
        axes = {"len_indptr": len(queries), "total_q": queries[-1], "total_kv": keys[-1]}
        yield State(axes, {"qo_indptr": queries, "kv_indptr": keys})


def _scan() -> Iterator[State]:
    for lengths in SCAN:
        offsets = _offsets(lengths)
        axes = {"total_seq_len": offsets[-1], "num_seqs": len(lengths), "len_cu_seqlens": len(offsets)}
        yield State(axes, {"cu_seqlens": offsets})


def _slots() -> Iterator[State]:
    for rows in SLOTS:
        pool = 2 * rows + 3
        slots = scattered(rows, pool)
        if rows > 8:
            slots[3] = -1
        yield State({"batch_size": rows, "state_cache_size": pool}, {"state_batch_indices": slots})


def _sparse(entry: Entry) -> Iterator[State]:
    """Each token has other slots; every third has fewer than it may."""
    sizes = entry.definition.const_axes
    for rows in SPARSE:
        places = scattered(SPARSE_SLOTS, SPARSE_SLOTS)
        table = []
        for row in range(rows):
            start = row * 977 % (SPARSE_SLOTS - sizes["topk"])
            found = places[start : start + (sizes["topk"] if row % 3 != 2 else 100 * row + 50)][: sizes["topk"]]
            table.append(found + [-1] * (sizes["topk"] - len(found)))
        yield State({"num_tokens": rows, "num_pages": SPARSE_SLOTS // sizes["page_size"]}, {"sparse_indices": table})


def _indexer(entry: Entry) -> Iterator[State]:
    page_size = entry.definition.const_axes["page_size"]
    for lengths in INDEXED:
        counts = [-(-length // page_size) for length in lengths]
        width, pool = max(*counts, 33), sum(counts) + 2
        pages = scattered(sum(counts), pool)
        starts = _offsets(counts)
        table = [pages[start : start + n] + [0] * (width - n) for start, n in zip(starts, counts, strict=False)]
        axes = {"batch_size": len(lengths), "max_num_pages": width, "num_pages": pool}
        yield State(axes, {"seq_lens": list(lengths), "block_table": table})
