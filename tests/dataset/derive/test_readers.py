"""Traces as they are published become requests; files that are no traces are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelmill.dataset.derive import readers
from kernelmill.dataset.derive.request import Request
from kernelmill.dataset.derive.traffic import SOURCES, plan
from kernelmill.trace_schema.errors import DatasetError
from tests.dataset.derive.traffic import write_traces


def test_azure_rows_become_requests_by_arrival(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:50.9951690,396,109\n"
        "2023-11-16 18:15:46.4951690,374,44\n"
    )
    assert readers.azure(file) == [Request(0.0, 374, 44), Request(4.5, 396, 109)]


def test_mooncake_hashes_say_what_prompts_share(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    rows = [
        {"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]},
        {"timestamp": 1500, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 3]},
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    first, second = readers.mooncake(file)
    assert second.arrival_s == 1.5
    keys = [[one.key(number, block, 16) for block in range(68)] for number, one in enumerate((first, second))]
    assert keys[0][:64] == keys[1][:64] and not set(keys[0][64:]) & set(keys[1][64:])


def test_turns_of_a_session_share_what_the_trace_says_they_do(tmp_path: Path) -> None:
    columns = ["t_s", "input_tokens", "output_tokens", "prefix_hit_tokens_vs_prev", "api_time_s", "think_time_s"]
    turns = [[0, 1000, 9, 0, 1, None], [5, 1400, 0, 960, 1, 2.5], [9, 1500, 7, 640, 1, 1.0]]
    row = {"id": "s", "block_size": 64, "tool_tokens": 200, "cols": columns, "requests": turns}
    file = tmp_path / "trace.jsonl"
    file.write_text(json.dumps(row) + "\n" + json.dumps({**row, "id": "t"}) + "\n")
    first, second, third, *others = readers.agentic(file)
    assert (first.after, second.after, third.after, others[0].after) == (None, 0, 1, None)
    assert second.arrival_s == 2.5 and second.output == 1

    def common(a: Request, b: Request) -> int:
        pairs = ((a.key(0, at, 64), b.key(1, at, 64)) for at in range(23))
        return sum(x == y for x, y in pairs)

    assert common(first, second) == 960 // 64 and common(second, third) == 640 // 64
    assert common(first, others[0]) == 192 // 64, "equal tools come first in both sessions"


def test_servegen_lengths_come_from_the_histogram(tmp_path: Path) -> None:
    file = tmp_path / "hist.json"
    file.write_text(json.dumps({"input_tokens": [[50, 3.0], [900, 1.0]], "output_tokens": [[20, 1.0]]}))
    found = readers.servegen(file)
    assert found == readers.servegen(file)
    assert {one.prompt for one in found} == {50, 900} and {one.output for one in found} == {20}
    assert 0.7 < sum(one.prompt == 50 for one in found) / len(found) < 0.8


@pytest.mark.parametrize("read", [readers.azure, readers.mooncake, readers.agentic, readers.servegen])
def test_a_file_that_is_no_trace_is_named(read: object, tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"a": 1}\n')
    with pytest.raises(DatasetError, match=r"other\.json"):
        read(file)  # type: ignore[operator]


def test_arrivals_are_stretched_to_a_rate_and_turns_are_not() -> None:
    requests = [Request(10.0, 5, 5), Request(3.0, 6, 5, after=0), Request(11.0, 7, 5), Request(14.0, 8, 5)]
    slower = readers.at_rate(requests, per_second=0.5, count=4)
    assert [one.arrival_s for one in slower] == [0.0, 3.0, 1.5, 6.0]
    assert [one.prompt for one in slower] == [5, 6, 7, 8]


def test_missing_traces_are_named_with_their_origin(tmp_path: Path) -> None:
    write_traces(tmp_path)
    (tmp_path / "conversation_trace.jsonl").unlink()
    with pytest.raises(DatasetError) as caught:
        plan(tmp_path)
    assert "conversation_trace.jsonl: github.com/kvcache-ai/Mooncake @ 3b5a5941" in str(caught.value)
    assert "Azure" not in str(caught.value) and "DATA_LICENSES" in str(caught.value)


def test_a_plan_may_name_one_trace_a_model_and_a_load(tmp_path: Path) -> None:
    write_traces(tmp_path)
    assert len(plan(tmp_path).sources) == len(SOURCES) == 5
    ((source, file),) = plan(tmp_path / "conversation_trace.jsonl", model="deepseek-v3", tp=8, load="busy").sources
    assert (source.model, source.tp, [one.name for one in source.loads]) == ("deepseek-v3", 8, ["busy"])
    assert file.name == "conversation_trace.jsonl"
    with pytest.raises(DatasetError, match="no load point is called 'idle'; there are calm, busy"):
        plan(tmp_path, load="idle")
    with pytest.raises(DatasetError, match="no reader is known"):
        plan(Path(__file__))
