from __future__ import annotations

from pathlib import Path

from tests import builders
from tests.dataset.checks.attention import found, lines, only
from tests.dataset.folder import add_definition, add_traces, small, write_json


def test_a_dataset_in_the_public_layout_passes(root: Path) -> None:
    small(root)
    (root / "definitions/README.md").write_text("notes")
    (root / "traces/.gitkeep").touch()
    (root / "tests/references").mkdir(parents=True)
    assert found(root, "layout") == []


def test_documents_in_the_wrong_folder_are_errors_that_name_the_right_one(root: Path) -> None:
    small(root)
    (root / "definitions/rmsnorm/rmsnorm_h8.json").rename(root / "definitions/rmsnorm/other.json")
    (root / "solutions/alice").rename(root / "solutions/bob")
    messages = [message for severity, _, message in lines(root, "layout") if severity == "error"]
    assert messages == [
        "what it holds belongs in definitions/rmsnorm/rmsnorm_h8.json",
        "what it holds belongs in solutions/alice/rmsnorm/rmsnorm_h8/rmsnorm_torch.json",
    ]


def test_traces_lie_with_the_author_of_their_solution(root: Path) -> None:
    small(root)
    add_traces(root, {}, author="mallory")
    finding = only(root, "layout")
    assert finding.file == "traces/mallory/rmsnorm/rmsnorm_h8.jsonl"
    assert "traces/alice/rmsnorm/rmsnorm_h8.jsonl" in finding.message


def test_the_older_layout_of_traces_is_a_warning(root: Path) -> None:
    small(root)
    (root / "traces/rmsnorm").mkdir()
    (root / "traces/alice/rmsnorm/rmsnorm_h8.jsonl").rename(root / "traces/rmsnorm/rmsnorm_h8.jsonl")
    finding = only(root, "layout")
    assert finding.severity == "warning" and "traces/alice/" in finding.advice


def test_a_workload_file_has_its_definitions_name(root: Path) -> None:
    small(root)
    (root / "workloads/rmsnorm/rmsnorm_h8.jsonl").rename(root / "workloads/rmsnorm/h8.jsonl")
    assert only(root, "layout").severity == "error"


def test_names_that_no_file_can_have_are_errors(root: Path) -> None:
    add_definition(root)
    write_json(root / "solutions/x.json", builders.raw_solution(author="../up"))
    assert "cannot name a file" in only(root, "layout").message


def test_files_that_are_never_read_are_warnings(root: Path) -> None:
    small(root)
    (root / "workloads/rmsnorm/rmsnorm_h8.json").write_text("{}")
    finding = only(root, "layout")
    assert (finding.severity, finding.file) == ("warning", "workloads/rmsnorm/rmsnorm_h8.json")
