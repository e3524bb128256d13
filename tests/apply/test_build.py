"""What comes into the table: what was judged on such a machine, and is surely faster than what would run otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernelmill.apply.build import Made, Wish
from kernelmill.trace_schema import Trace
from tests.apply.folder import MEASURED, built, cpp, judged

FAST = cpp()


def ranges(made: Made) -> list[tuple[int, int]]:
    return sorted((one.lo[0], one.hi[0]) for entry in made.table.entries for one in entry.ranges)


def reasons(made: Made) -> str:
    return " | ".join(f"{note.what}: {note.why}" for note in made.table.notes)


def test_ranges_join_neighbouring_sizes_that_were_both_faster(tmp_path: Path) -> None:
    traces = [judged(FAST, rows, 0.5 if rows == 4 else 2.0) for rows in MEASURED]
    made = built(tmp_path / "data", FAST, traces=traces)
    assert ranges(made) == [(1, 2), (8, 16)]
    assert made.solutions == {FAST.hash(): FAST}


def test_a_size_alone_between_two_that_were_not_faster_is_a_range_of_its_own(tmp_path: Path) -> None:
    traces = [judged(FAST, rows, 2.0 if rows == 4 else 1.0) for rows in MEASURED]
    assert ranges(built(tmp_path / "data", FAST, traces=traces)) == [(4, 4)]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another device model": ({"environment": {"device": {"name": "Other CPU", "count": 1}}}, "no trace that counts"),
    "another architecture": ({"environment": {"device": None, "hardware": "x"}}, "no trace that counts"),
    "other library versions": ({"environment": {"libs": {"torch": "1.0"}}}, "--libs any"),
    "another source": ({"solution_hash": "0" * 64}, "no trace that counts"),
    "another definition": ({"definition_hash": "0" * 64}, "no trace that counts"),
    "another workload": ({"workload_hash": "0" * 64}, "no trace that counts"),
    "no sandbox": ({"environment": {"sandbox": "none"}}, "no trace that counts"),
    "wrong answers": ({"verdict": "INCORRECT_NUMERICAL"}, "passed none of 5"),
    "a cheat": ({"verdict": "CHEAT_DETECTED", "reason": "async"}, "CHEAT_DETECTED"),
    "faster, but not surely": ({"ci": [0.9, 3.0]}, "its best lower bound is 0.90x"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_evidence_for_this_machine_stays_out_and_the_table_says_why(case: str, tmp_path: Path) -> None:
    over, why = REFUSED[case]
    made = built(tmp_path / "data", FAST, traces=[judged(FAST, rows, 2.0, **over) for rows in MEASURED])
    assert made.table.entries == ()
    assert why in reasons(made)


def test_other_library_versions_count_where_it_is_asked_for(tmp_path: Path) -> None:
    traces = [judged(FAST, rows, 2.0, environment={"libs": {"torch": "1.0"}}) for rows in MEASURED]
    made = built(tmp_path / "data", FAST, traces=traces, wish=Wish(libs="any"))
    assert len(ranges(made)) == len(MEASURED) - 1
    assert made.table.libs == "any"


def test_one_cheat_bars_a_solution_everywhere(tmp_path: Path) -> None:
    traces: list[Trace] = [judged(FAST, rows, 2.0) for rows in MEASURED[1:]]
    traces.append(judged(FAST, 1, None, verdict="CHEAT_DETECTED"))
    assert built(tmp_path / "data", FAST, traces=traces).table.entries == ()


def test_the_incumbent_is_the_engines_own_kernel_where_it_was_judged(tmp_path: Path) -> None:
    engine = cpp("engine_norm", source="// the engine's own\n" + FAST.sources[0].content, author="vllm")
    traces = [judged(FAST, rows, 2.0) for rows in MEASURED]
    traces += [judged(engine, rows, 4.0 if rows < 8 else 1.2) for rows in MEASURED]
    made = built(tmp_path / "data", FAST, engine, traces=traces, wish=Wish(engine="vllm"))
    (entry,) = made.table.entries
    assert entry.incumbent == "engine_norm"
    assert ranges(made) == [(8, 16)]
    assert entry.ranges[0].lower == pytest.approx(2.0 * 0.98 / (1.2 * 1.02))


def test_a_margin_is_asked_of_the_lower_bound(tmp_path: Path) -> None:
    traces = [judged(FAST, rows, 1.1 if rows < 8 else 2.0) for rows in MEASURED]
    assert ranges(built(tmp_path / "data", FAST, traces=traces, wish=Wish(margin=1.2))) == [(8, 16)]
