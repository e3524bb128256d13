"""The inventory in the docs is that of the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelmill.dataset import Dataset
from kernelmill.dataset.catalogue.inventory import BEGIN, END, refresh, table
from tests.dataset.catalogue.small import place
from tests.dataset.shipped import DATA

DOCUMENT = Path(__file__).parents[3] / "docs/dataset.md"


def test_the_documents_table_is_current() -> None:
    assert refresh(DOCUMENT, Dataset.open(DATA)) == DOCUMENT.read_text(), "run make dataset"


def test_a_row_counts_and_says_the_sizes(tmp_path: Path) -> None:
    place(tmp_path, "log_softmax")
    lines = table(Dataset.open(tmp_path, cache_dir=tmp_path / "cache")).splitlines()
    assert lines[2] == "| softmax | 1 | 0 | 4 | 0 | batch_size 1 to 128 |"
    assert lines[3] == "| all | 1 | 0 | 4 | 0 |  |"


def test_a_document_keeps_what_is_around_the_table(tmp_path: Path) -> None:
    place(tmp_path, "log_softmax")
    dataset, document = Dataset.open(tmp_path, cache_dir=tmp_path / "cache"), tmp_path / "a.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    made = refresh(document, dataset)
    assert made.startswith(f"before\n{BEGIN}\n| op type |") and made.endswith(f"{END}\nafter\n") and "old" not in made
    document.write_text("nothing")
    with pytest.raises(ValueError, match="has no lines"):
        refresh(document, dataset)
