"""Small traffic for the tests of the derivation: requests, deployments and whole trace files."""

from __future__ import annotations

import json
import random
from pathlib import Path

from hypothesis import strategies as st

from kernelmill.dataset.derive.deployment import H200, Deployment, find_model
from kernelmill.dataset.derive.request import Request
from kernelmill.dataset.derive.scheduler import Limits

REQUESTS = st.lists(
    st.builds(
        Request,
        st.floats(0, 2),
        st.integers(1, 300),
        st.integers(1, 30),
        st.sampled_from([(), ((64, "a"),), ((64, "a"), (256, "b"))]),
    ),
    min_size=1,
    max_size=12,
).map(lambda found: sorted(found, key=lambda request: request.arrival_s))


def small(pool: int = 640, **limits: int | bool) -> Deployment:
    """A replica with room for `pool` tokens."""
    chosen = {"step_tokens": 128, "requests": 8} | limits
    return Deployment(find_model("llama-3.1-8b"), H200, limits=Limits(**chosen), pool=pool)  # type: ignore[arg-type]


def write_traces(folder: Path, rows: int = 60) -> Path:
    """A trace of each source, a few requests long."""
    draws = random.Random(7)
    for name in ("conv", "code"):
        lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
        for second in range(rows):
            moment = f"2023-11-16 18:{15 + second // 60}:{second % 60:02}.{draws.randrange(10**7):07}"
            lines.append(f"{moment},{draws.randrange(20, 3000)},{draws.randrange(1, 60)}")
        (folder / f"AzureLLMInferenceTrace_{name}.csv").write_text("\n".join(lines) + "\n")
    mooncake = [
        {
            "timestamp": 500 * at,
            "input_length": 2000 + draws.randrange(40),
            "output_length": draws.randrange(150, 400),
            "hash_ids": [0, 1, 2 + at % 3, 10 + at],
        }
        for at in range(rows)
    ]
    _write_lines(folder / "conversation_trace.jsonl", mooncake)
    columns = ["t_s", "input_tokens", "output_tokens", "prefix_hit_tokens_vs_prev", "api_time_s", "think_time_s"]
    sessions = []
    for at in range(rows // 10):
        turns = [[9.0 * turn, 1000 + 400 * turn, 20, 400 * turn + 500 * (turn > 0), 1.0, 0.5] for turn in range(5)]
        sessions.append({"id": f"s{at}", "block_size": 64, "tool_tokens": 640, "cols": columns, "requests": turns})
    _write_lines(folder / "agentic_lengths.jsonl", sessions)
    histogram = {
        "input_tokens": [[draws.randrange(20, 900), 1.0] for _ in range(50)],
        "output_tokens": [[2, 1.0], [9, 1.0]],
    }
    (folder / "reason_deepseek-r1.agg_hist.json").write_text(json.dumps(histogram))
    return folder


def _write_lines(file: Path, rows: list[dict[str, object]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
