"""What a request may look like, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

SOLUTION: dict[str, Any] = {
    "name": "rmsnorm_mine",
    "definition": "rmsnorm_h4096",
    "author": "me",
    "spec": {
        "language": "python",
        "target_hardware": ["cpu"],
        "entry_point": "main.py::run",
        "destination_passing_style": False,
    },
    "sources": [{"path": "main.py", "content": "def run(hidden_states, weight): ..."}],
}
WORKLOAD: dict[str, Any] = {
    "uuid": "6f1c0c0e-8a0b-4a3e-9d53-0d8b1f4e2a77",
    "axes": {"batch_size": 512},
    "inputs": {"hidden_states": {"type": "random"}, "weight": {"type": "random"}},
}
REPORT: dict[str, Any] = {
    "solution_hash": "0" * 64,
    "kind": "regressed",
    "evidence": {"host": "node-7", "device": "NVIDIA H200", "ratio": 0.93},
}


def shown(*bodies: dict[str, Any]) -> ConfigDict:
    """The configuration of a request's model that has these examples."""
    return ConfigDict(json_schema_extra={"examples": list(bodies)})
