"""The judge's verdict on every cheat of the corpus and on its honest twin.

`test_naive` shows that each of these cheats gets what it wants from a naive harness. Here none may: no cheat PASSED (or
not faster than its twin, where its outputs are right), no honest kernel refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from kernelmill.evaluator.sandbox import probe
from kernelmill.trace_schema import Solution, Verdict
from tests.submissions import corpus
from tests.submissions.corpus import HOST_FILE, SIDES, Case, Side
from tests.submissions.judging import Bench, examine, open_bench

CASES = corpus.load_cases()
REFUSED = [case for case in CASES if Verdict.INVALID_SUBMISSION in case.expect]
JUDGED = [(case, side) for case in CASES for side in SIDES if side == "honest" or case not in REFUSED]
MAX_TRACE_BYTES = 6 << 20
MARKER = "kernelmill-corpus-marker"
MARKER_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock", "~", "~/.cache")


@pytest.fixture(scope="module")
def visitors_and_bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Bench, list[str]]]:
    if reason := probe():
        pytest.skip(reason)
    with open_bench(tmp_path_factory.mktemp("corpus")) as (bench, visitors):
        selected = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
        bench.announce((params["case"], params["side"]) for params in selected if {"case", "side"} <= params.keys())
        yield bench, visitors


@pytest.mark.parametrize(("case", "side"), JUDGED, ids=[f"{case.name}-{side}" for case, side in JUDGED])
def test_verdict(visitors_and_bench: tuple[Bench, list[str]], case: Case, side: Side) -> None:
    bench, visitors = visitors_and_bench
    found, fault = examine(bench, case, side)
    assert not fault
    for trace in found.traces:
        line = trace.model_dump_json()
        assert len(line) < MAX_TRACE_BYTES, "a solution may not fill the dataset with its words"
        assert HOST_FILE.read_text().strip() not in line, "a file of the host came out"
    assert not visitors, f"somebody connected from inside the sandbox: {visitors}"
    left = [place for place in MARKER_PLACES if (Path(place).expanduser() / MARKER).exists()]
    assert not left, f"a solution left a file on the host, in {left}"


@pytest.mark.parametrize(
    ("case", "path"), [(case, path) for case in REFUSED for path in case.bad_paths], ids=lambda value: repr(value)[:40]
)
def test_a_path_that_escapes_is_refused(case: Case, path: str) -> None:
    raw = case.raw_solution("cheat", answer_port=0)
    with pytest.raises(ValidationError, match="source"):
        Solution.model_validate(case.with_bad_path(raw, path))
