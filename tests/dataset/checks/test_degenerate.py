from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelmill.dataset.checks.finding import Severity
from tests.dataset.checks.attention import NAME, found, lines, only, workload, write
from tests.dataset.folder import add_definition, add_workloads


def pair(root: Path, **over: Any) -> dict[str, Any]:
    """A second workload of another size, so that sizes are not what is found."""
    axes = {"batch_size": 2, "len_indptr": 3}
    return workload(root, "other", axes, kv_indptr=[0, 1, 6], kv_last_page_len=[1, 2], **over)


def test_varied_workloads_pass(root: Path) -> None:
    assert found(write(root, workload(root), pair(root)), "degenerate") == []


def test_findings_are_warnings_and_errors_when_strict(root: Path) -> None:
    write(root, workload(root))
    assert [finding.severity for finding in found(root, "degenerate")] == [Severity.WARNING]
    assert [finding.severity for finding in found(root, "degenerate", strict=True)] == [Severity.ERROR]


def test_one_batch_size_only(root: Path) -> None:
    write(root, workload(root), workload(root, "w2", {"num_pages": 9}))
    assert only(root, "degenerate").message == f"batch_size is 3 in every workload of {NAME}"


@pytest.mark.parametrize("kind", ["engine", "synthetic"])
def test_one_size_and_equal_lengths_are_no_error_where_an_engine_was_seen_to_call_them(root: Path, kind: str) -> None:
    write(root, {**workload(root, kv_indptr=[0, 2, 4, 6]), "provenance": {"kind": kind}})
    severities = {finding.severity for finding in found(root, "degenerate", strict=True)}
    assert severities == {Severity.WARNING if kind == "engine" else Severity.ERROR}
    assert len(lines(root, "degenerate")) == 2


def test_the_same_workload_under_another_uuid(root: Path) -> None:
    first = workload(root)
    write(root, first, pair(root), {**first, "uuid": "copy", "seed": 3})
    assert lines(root, "degenerate") == [("warning", 3, "axes and inputs are those of line 1, w1")]


def test_an_axis_of_size_zero(root: Path) -> None:
    write(root, workload(root, axes={"num_pages": 0}), pair(root))
    assert lines(root, "degenerate") == [("warning", 1, "the axis num_pages has size 0")]


@pytest.mark.parametrize(
    ("indptr", "message"),
    [([0, 0, 0, 0], "every sequence is empty"), ([0, 2, 4, 6], "all 3 sequences have length 2")],
)
def test_sequences_without_work_or_variety(root: Path, indptr: list[int], message: str) -> None:
    write(root, workload(root, kv_indptr=indptr), pair(root))
    assert lines(root, "degenerate") == [("warning", 1, message)]


def test_random_indices_and_scalars(root: Path) -> None:
    given = workload(root)
    given["inputs"]["kv_indices"] = {"type": "random"}
    given["inputs"]["sm_scale"] = {"type": "random"}
    given["inputs"]["kv_last_page_len"] = {"type": "random", "distribution": {"kind": "randint", "low": 1, "high": 64}}
    write(root, given, pair(root))
    assert lines(root, "degenerate") == [
        ("warning", 1, "random int32 values, which no serving step has"),
        ("warning", 1, "a random scalar"),
    ]


def test_more_queries_than_keys_under_a_causal_mask(root: Path) -> None:
    inputs = {"q": {"shape": ["total_q"], "dtype": "float32"}, "i": {"shape": ["num_kv_indices"], "dtype": "float32"}}
    add_definition(
        root,
        name="prefill_causal",
        axes={
            "total_q": {"type": "var"},
            "num_kv_indices": {"type": "var"},
            "page_size": {"type": "const", "value": 4},
        },
        inputs=inputs,
        outputs={},
        reference="def run(q, i): ...",
    )
    random = {name: {"type": "random"} for name in inputs}
    sizes = [(8, 2), (9, 2)]
    workloads = [
        {"uuid": f"w{queries}", "axes": {"total_q": queries, "num_kv_indices": pages}, "inputs": random}
        for queries, pages in sizes
    ]
    add_workloads(root, *workloads, definition="prefill_causal")
    assert [line for _, line, _ in lines(root, "degenerate")] == [2]
    assert "9 queries share at most 8 keys" in only(root, "degenerate").message


def test_decode_queries_of_length_one_are_no_lack_of_variety(root: Path) -> None:
    raw = {"shape": ["len_indptr"], "dtype": "int32"}
    given = workload(root, qo_indptr=[0, 1, 2, 3])
    other = pair(root, qo_indptr=[0, 1, 2])
    from tests.dataset.checks.attention import definition

    inputs = {**definition()["inputs"], "qo_indptr": raw}
    write(root, given, other, inputs=inputs, reference="def run(*inputs): ...")
    assert found(root, "degenerate") == []
