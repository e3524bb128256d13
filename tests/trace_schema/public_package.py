"""Runs in a child process: answers, for JSON lines on stdin, what the public flashinfer-bench package makes of them.

Its top package imports a GPU stack; only its `data` package is wanted here, so an empty parent with the same path takes
the top package's place. A line is `{"model": NAME, "text": RECORD}` or `{"dataset": DIRECTORY, "resaved": DIRECTORY}`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "flashinfer_bench"


def public_data() -> Any:
    """The package's `data` module."""
    spec = importlib.util.find_spec(NAME)
    assert spec is not None
    parent = ModuleType(NAME)
    parent.__path__ = list(spec.submodule_search_locations or [])
    sys.modules[NAME] = parent
    return importlib.import_module(f"{NAME}.data")


def judge(data: Any, model: str, text: str) -> dict[str, Any]:
    """Whether the package accepts a record, and the JSON it would write."""
    try:
        record = getattr(data, model).model_validate_json(text)
    except (ValueError, RecursionError, MemoryError) as error:
        return {"accepted": False, "error": str(error)}
    return {"accepted": True, "written": record.model_dump_json(exclude_unset=True)}


def use_dataset(data: Any, root: str, resaved: str) -> dict[str, Any]:
    """Loads, ranks and re-saves a dataset with the package's own functions."""
    found = data.TraceSet.from_path(root)
    out = Path(resaved)
    for definition in found.definitions.values():
        data.save_json_file(definition, out / "definitions" / definition.op_type / f"{definition.name}.json")
    for solutions in found.solutions.values():
        for solution in solutions:
            data.save_json_file(solution, out / "solutions" / f"{solution.name}.json")
    copy = data.TraceSet.from_path(resaved)
    for name in found.definitions:
        copy.add_workload_traces(found.workloads.get(name, []))
        copy.add_traces(found.traces.get(name, []))
    groups = {"solutions": found.solutions, "workloads": found.workloads, "traces": found.traces}
    best = {name: found.get_best_trace(name) for name in found.definitions}
    return {
        "best": {name: trace and trace.solution for name, trace in best.items()},
        "summary": found.summary(),
        "ranked": repr(found.rank_authors()) if hasattr(found, "rank_authors") else None,
        "counts": {"definitions": len(found.definitions)}
        | {kind: sum(map(len, group.values())) for kind, group in groups.items()},
    }


def main() -> None:
    """One answer a line, until stdin ends."""
    data = public_data()
    for line in sys.stdin:
        asked = json.loads(line)
        if "dataset" in asked:
            answer = use_dataset(data, asked["dataset"], asked["resaved"])
        else:
            answer = judge(data, asked["model"], asked["text"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
