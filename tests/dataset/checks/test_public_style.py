"""A dataset as the public one is: no check may call anything in it an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelmill.dataset import Dataset
from kernelmill.dataset.checks.finding import Severity
from kernelmill.dataset.validate import CHECKS, validate
from tests.dataset.checks.attention import workload, write


def test_a_public_style_dataset_has_no_errors_and_no_odd_warnings(root: Path) -> None:
    write(
        root,
        workload(root),
        workload(root, "w2", {"batch_size": 2, "len_indptr": 3}, kv_indptr=[0, 1, 6], kv_last_page_len=[1, 2]),
    )
    findings = list(validate(Dataset.open(root)))
    assert [finding.check for finding in findings] == ["baseline"]
    assert findings[0].severity is Severity.WARNING


def test_missing_blobs_are_warnings_that_name_the_file_and_errors_when_strict(root: Path) -> None:
    write(root)
    (blob,) = (root / "blob").rglob("*.safetensors")
    blob.unlink()
    findings = list(validate(Dataset.open(root)))
    assert {finding.check for finding in findings} == {"baseline", "degenerate", "workload"}
    assert {finding.severity for finding in findings} == {Severity.WARNING}
    (missing,) = [finding for finding in findings if finding.check == "workload"]
    assert blob.name in missing.message and missing.line == 1
    strict = list(validate(Dataset.open(root), ["workload"], strict=True))
    assert [finding.severity for finding in strict] == [Severity.ERROR]


def test_every_check_says_nothing_of_an_empty_dataset(root: Path) -> None:
    assert list(validate(Dataset.open(root), list(CHECKS))) == []


def test_the_public_sample_has_no_errors() -> None:
    sample = os.environ.get("KERNELMILL_SAMPLE_DATASET")
    if not sample:
        pytest.skip("KERNELMILL_SAMPLE_DATASET names no copy of the public dataset")
    dataset = Dataset.open(sample)
    assert dataset.problems() == []
    findings = list(validate(dataset))
    assert [str(finding) for finding in findings if finding.severity is Severity.ERROR] == []
    missing = [finding for finding in findings if finding.check == "workload"]
    assert all("is missing" in finding.message for finding in missing)
