from __future__ import annotations

from pathlib import Path

from benchmarks.dataset_load import measure, write_dataset


def test_the_benchmark_measures_a_dataset_that_it_wrote(root: Path, tmp_path: Path) -> None:
    written = write_dataset(root, traces_per_solution=64)
    assert written == sum(path.stat().st_size for path in (root / "traces").rglob("*.jsonl"))
    for run in measure(root, tmp_path).values():
        assert run["counts"] == {"definitions": 1, "solutions": 20, "workloads": 0, "traces": 1280}
        assert run["peak_mb"] < 200
