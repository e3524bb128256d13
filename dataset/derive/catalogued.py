"""What the catalogue says of a definition: the values of its inputs, and how often a model's step calls it."""

from __future__ import annotations

from kernelmill.dataset.catalogue.entries import Entry, entries
from kernelmill.trace_schema import Definition

HEAD = "output head"
"""Role of the projection to words: only the rows that get a token go through it."""


def entry_of(definition: Definition) -> Entry | None:
    """The catalogue's entry; None for a definition from elsewhere, or one that was changed."""
    entry = entries().get(definition.name)
    return entry if entry is not None and entry.definition.hash() == definition.hash() else None


def calls(entry: Entry | None) -> int:
    """In one step of the first model that calls it; 1 where nobody says."""
    if entry is None:
        return 1
    first = entry.uses[0]
    mine = [use for use in entry.uses if (use.model, use.ranks) == (first.model, first.ranks)]
    return sum(use.layers or 1 for use in mine)


def is_head(entry: Entry | None) -> bool:
    return entry is not None and all(use.role == HEAD for use in entry.uses)
