from __future__ import annotations

import json
from pathlib import Path

import pytest

import kernelmill
from kernelmill.dataset import Dataset, DatasetError
from kernelmill.trace_schema import Status
from tests import builders
from tests.dataset.folder import (
    add_traces,
    run_python,
    small,
    workload_line,
    write_json,
    write_lines,
)


def test_everything_in_a_dataset_can_be_read(root: Path) -> None:
    dataset = kernelmill.Dataset.open(small(root))
    assert dataset.root == root
    assert list(dataset.definitions) == ["rmsnorm_h8"]
    assert dataset.definitions["rmsnorm_h8"].op_type == "rmsnorm"
    assert [workload.uuid for workload in dataset.workloads("rmsnorm_h8")] == ["w4", "w9"]
    assert [solution.name for solution in dataset.solutions("rmsnorm_h8")] == ["rmsnorm_torch", "rmsnorm_baseline"]
    assert dataset.solution("rmsnorm_torch").author == "alice"
    assert [trace.solution for trace in dataset.traces()] == ["rmsnorm_torch", "rmsnorm_baseline"]
    assert dataset.counts() == {"definitions": 1, "solutions": 2, "workloads": 2, "traces": 2}
    assert dataset.problems() == []


def test_a_definition_stands_for_its_name(root: Path) -> None:
    dataset = Dataset.open(small(root))
    definition = dataset.definitions["rmsnorm_h8"]
    assert len(list(dataset.workloads(definition))) == 2
    assert len(list(dataset.solutions(definition))) == 2
    assert len(list(dataset.traces(definition=definition))) == 2
    assert dataset.best_trace(definition, {"batch_size": 4}) is not None


def test_traces_are_narrowed_by_every_argument(root: Path) -> None:
    small(root)
    fast = {"environment": {"hardware": "Other GPU"}}
    add_traces(
        root,
        {"workload": {"uuid": "w4"}},
        {"workload": {"uuid": "w9"}, "evaluation": {"status": "TIMEOUT"}},
        {"workload": {"uuid": "w9"}, "evaluation": fast},
    )
    dataset = Dataset.open(root)

    def uuids(**narrow: str) -> list[str]:
        return [trace.workload.uuid for trace in dataset.traces(**narrow)]

    assert uuids() == ["w4", "w9", "w9", "w4"]
    assert uuids(solution="rmsnorm_baseline") == ["w4"]
    assert uuids(author="alice") == ["w4", "w9", "w9"]
    assert uuids(author="alice", status="TIMEOUT") == ["w9"]
    assert uuids(status=Status.PASSED, device_model="Other GPU") == ["w9"]
    assert uuids(definition="rmsnorm_h8", device_model="Test CPU") == ["w4", "w9", "w4"]
    assert uuids(definition="nothing") == []


def test_a_trace_belongs_to_the_author_of_its_solution_wherever_it_lies(root: Path) -> None:
    small(root)
    add_traces(root, {"workload": {"uuid": "w9"}}, author="mallory")
    add_traces(root, {"solution": "gone", "workload": {"uuid": "orphan"}}, author="bob")
    dataset = Dataset.open(root)
    assert [trace.workload.uuid for trace in dataset.traces(author="alice")] == ["w4", "w9"]
    assert list(dataset.traces(author="mallory")) == []
    assert [trace.workload.uuid for trace in dataset.traces(author="bob")] == ["orphan"]


def test_the_best_trace_has_the_highest_ratio_among_those_that_passed(root: Path) -> None:
    small(root)
    axes = {"axes": {"batch_size": 4}}
    passed = builders.raw_evaluation()["statistics"]
    add_traces(
        root,
        {"workload": {"uuid": "slow", **axes}, "evaluation": {"statistics": {**passed, "ratio": 1.5}}},
        {"workload": {"uuid": "fast", **axes}, "evaluation": {"statistics": {**passed, "ratio": 3.5}}},
        {"workload": {"uuid": "failed", **axes}, "evaluation": {"status": "RUNTIME_ERROR"}},
        {
            "workload": {"uuid": "elsewhere", "axes": {"batch_size": 5}},
            "evaluation": {"statistics": {**passed, "ratio": 9}},
        },
    )
    dataset = Dataset.open(root)
    best = dataset.best_trace("rmsnorm_h8", {"batch_size": 4})
    assert best is not None and best.workload.uuid == "fast"
    baseline = dataset.best_trace("rmsnorm_h8", {"batch_size": 4}, author="baseline")
    assert baseline is not None and baseline.solution == "rmsnorm_baseline"
    assert dataset.best_trace("rmsnorm_h8", {"batch_size": 6}) is None
    assert dataset.best_trace("rmsnorm_h8", {"batch_size": 4}, device_model="Other GPU") is None


def test_without_ratios_the_lowest_latency_is_best(root: Path) -> None:
    small(root)
    public = {"statistics": None}
    for author, latency_ms in (("alice", 2.0), ("baseline", 1.0)):
        performance = {"latency_ms": latency_ms, "reference_latency_ms": 9.0, "speedup_factor": 1.0}
        name = "rmsnorm_torch" if author == "alice" else "rmsnorm_baseline"
        add_traces(root, {"solution": name, "evaluation": {**public, "performance": performance}}, author=author)
    best = Dataset.open(root).best_trace("rmsnorm_h8", {"batch_size": 4})
    assert best is not None and best.solution == "rmsnorm_baseline"


def test_a_bad_line_is_reported_with_its_place_and_hides_nothing_else(root: Path) -> None:
    small(root)
    good = builders.raw_trace(workload={"uuid": "w9"})
    no_status = builders.raw_trace()
    del no_status["evaluation"]["status"]
    path = root / "traces/alice/rmsnorm/rmsnorm_h8.jsonl"
    path.write_text("\n".join(["{not json", json.dumps(no_status), "", json.dumps(good)]) + "\n")
    dataset = Dataset.open(root)
    assert [trace.workload.uuid for trace in dataset.traces(author="alice")] == ["w9"]
    first, second = dataset.problems()
    assert (first.file, first.line, first.path) == ("traces/alice/rmsnorm/rmsnorm_h8.jsonl", 1, "$")
    assert "not valid JSON" in first.reason and first.advice
    assert (second.line, second.path) == (2, "$.evaluation.status")
    assert "None is no status" in second.reason and "PASSED" in second.advice


def test_a_line_that_only_the_schema_refuses_is_reported_when_it_is_read(root: Path) -> None:
    small(root)
    add_traces(root, {"evaluation": {"performance": None}}, {"workload": {"uuid": "w9"}})
    dataset = Dataset.open(root)
    assert [trace.workload.uuid for trace in dataset.traces(author="alice")] == ["w9"]
    (problem,) = dataset.problems()
    assert problem.line == 1 and problem.path == "$.evaluation"
    assert "PASSED needs performance" in problem.reason


def test_a_bad_definition_or_solution_is_reported_and_the_others_load(root: Path) -> None:
    small(root)
    broken = builders.raw_definition(name="broken", reference="def run(")
    write_json(root / "definitions/rmsnorm/broken.json", broken)
    write_json(root / "solutions/alice/rmsnorm/rmsnorm_h8/bad.json", {"name": "bad"})
    (root / "definitions/rmsnorm/latin.json").write_bytes(b'{"name": "\xff"}')
    dataset = Dataset.open(root)
    assert list(dataset.definitions) == ["rmsnorm_h8"]
    assert "broken" not in dataset.definitions
    assert len(list(dataset.solutions())) == 2
    files = {problem.file for problem in dataset.problems()}
    assert files == {
        "definitions/rmsnorm/broken.json",
        "definitions/rmsnorm/latin.json",
        "solutions/alice/rmsnorm/rmsnorm_h8/bad.json",
    }
    assert any("reference" in problem.reason for problem in dataset.problems())
    assert {problem.path for problem in dataset.problems() if "bad.json" in problem.file} >= {"$.spec", "$.sources"}


def test_of_two_documents_with_one_name_the_first_is_kept_and_the_other_reported(root: Path) -> None:
    small(root)
    write_json(root / "definitions/zzz/other.json", builders.raw_definition(description="the second"))
    write_json(root / "solutions/zoe/copy.json", builders.raw_solution(author="zoe"))
    dataset = Dataset.open(root)
    assert dataset.definitions["rmsnorm_h8"].description is None
    assert dataset.solution("rmsnorm_torch").author == "alice"
    assert dataset.counts()["definitions"] == 1
    reported = {problem.file: problem.reason for problem in dataset.problems()}
    assert set(reported) == {"definitions/zzz/other.json", "solutions/zoe/copy.json"}
    assert "definitions/rmsnorm/rmsnorm_h8.json" in reported["definitions/zzz/other.json"]

    (root / "definitions/rmsnorm/rmsnorm_h8.json").unlink()
    again = Dataset.open(root)
    assert again.definitions["rmsnorm_h8"].description == "the second"


def test_workloads_and_traces_in_the_wrong_tree_are_reported(root: Path) -> None:
    small(root)
    write_lines(root / "workloads/rmsnorm/rmsnorm_h8.jsonl", [builders.raw_trace(), workload_line(uuid="w4")])
    write_lines(root / "traces/alice/rmsnorm/rmsnorm_h8.jsonl", [workload_line(), builders.raw_trace()])
    dataset = Dataset.open(root)
    assert [workload.uuid for workload in dataset.workloads("rmsnorm_h8")] == ["w4"]
    assert len(list(dataset.traces(author="alice"))) == 1
    assert [(problem.file.split("/")[0], problem.line) for problem in dataset.problems()] == [
        ("traces", 1),
        ("workloads", 1),
    ]


def test_names_that_nobody_has_are_refused_with_the_nearest(root: Path) -> None:
    dataset = Dataset.open(small(root))
    with pytest.raises(DatasetError, match="did you mean rmsnorm_h8"):
        list(dataset.workloads("rmsnorm_h80"))
    with pytest.raises(DatasetError, match="did you mean rmsnorm_torch"):
        dataset.solution("rmsnorm_torhc")
    with pytest.raises(KeyError):
        dataset.definitions["nothing"]


def test_a_folder_that_is_not_there_is_a_dataset_error(root: Path) -> None:
    with pytest.raises(DatasetError, match=r"no dataset at .*nowhere"):
        Dataset.open(root / "nowhere")


def test_an_empty_folder_is_an_empty_dataset(root: Path) -> None:
    dataset = Dataset.open(root)
    assert dataset.counts() == {"definitions": 0, "solutions": 0, "workloads": 0, "traces": 0}
    assert list(dataset.traces()) == []


def test_unknown_fields_come_out_as_they_went_in(root: Path) -> None:
    small(root)
    line = workload_line(uuid="w4", note={"by": ["x"]})
    write_lines(root / "workloads/rmsnorm/rmsnorm_h8.jsonl", [line])
    (workload,) = Dataset.open(root).workloads("rmsnorm_h8")
    assert json.loads(workload.model_dump_json(exclude_unset=True)) == line["workload"]


def test_new_documents_are_written_once_and_read_back(root: Path) -> None:
    dataset = Dataset.open(root)
    dataset.add_definition(builders.definition())
    dataset.add_solution(builders.solution())
    dataset.add_solution(builders.solution())
    assert dataset.solution("rmsnorm_torch") == builders.solution()
    assert (root / "solutions/alice/rmsnorm/rmsnorm_h8/rmsnorm_torch.json").is_file()
    with pytest.raises(DatasetError, match="other content"):
        dataset.add_solution(builders.solution(source="def run(): pass\n"))
    with pytest.raises(DatasetError, match="no definition 'unheard'"):
        dataset.add_solution(builders.solution(definition="unheard"))
    assert Dataset.open(root).counts()["solutions"] == 1


def test_opening_imports_neither_torch_nor_numpy_and_is_quick(root: Path) -> None:
    program = """
import sys, time
start = time.perf_counter()
import kernelmill, kernelmill.trace_schema, kernelmill.dataset
took_s = time.perf_counter() - start
dataset = kernelmill.Dataset.open(sys.argv[1])
list(dataset.traces()), dataset.problems()
heavy = {"torch", "numpy", "pandas", "safetensors"} & set(sys.modules)
assert not heavy, heavy
print(took_s)
"""
    ran = run_python(program, small(root))
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) < 2.0  # 0.2 s on an idle machine
