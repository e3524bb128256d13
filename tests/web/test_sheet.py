"""Big tables as CSV: whole, and harmless in a spreadsheet."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelmill.web.sheet import FORMULA, safe
from tests.leaderboard.world import DEFINITION
from tests.web.conftest import HOSTILE, Site
from tests.web.test_pages import get


def lines(site: Site, path: str, accept: str = "text/html") -> list[dict[str, str]]:
    reply = get(site, path, accept)
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(reply.text)))


@pytest.mark.parametrize("accept", ["text/html", "*/*"])
def test_a_board_is_a_sheet_for_people_and_programs(site: Site, accept: str) -> None:
    found = {row["name"]: row for row in lines(site, "/leaderboard?by=author&format=csv", accept)}
    assert float(found["alice"]["speedup"]) > float(found["bob"]["speedup"]) > 1


def test_kernels_too(site: Site) -> None:
    found = {row["name"]: row for row in lines(site, "/leaderboard?by=solution&format=csv")}
    (board,) = get(site, "/api/v1/leaderboard?by=solution", "application/json").json()["boards"]
    told = {row["definition"]: row["best_mix"]["ratio"] for row in board["rows"]}
    assert float(found[DEFINITION]["speedup"]) == pytest.approx(told[DEFINITION])


def test_a_definitions_ratios_have_each_solution_on_each_public_workload(site: Site) -> None:
    found = lines(site, f"/definitions/{DEFINITION}?format=csv")
    fast = [row for row in found if row["solution"] == "rmsnorm_fast"]
    assert len(fast) == 4
    assert all(float(row["ratio"]) == pytest.approx(2.0, rel=0.02) for row in fast)
    wrong = next(row for row in found if row["solution"] == "rmsnorm_wrong")
    assert (wrong["verdict"], wrong["ratio"]) == ("INCORRECT_NUMERICAL", "")
    assert any(row["solution"] == HOSTILE for row in found)


def test_an_authors_results(site: Site) -> None:
    found = lines(site, "/authors/alice?format=csv")
    assert {row["definition"] for row in found} >= {DEFINITION}


def test_an_authors_steps(site: Site) -> None:
    found = lines(site, "/authors/alice?table=progress&format=csv")
    told = get(site, "/api/v1/authors/alice/progress?device_model=Test%20CPU", "application/json").json()["items"]
    assert [row["solution"] for row in found] == [step["solution"] for step in told] != []
    assert float(found[-1]["deployed_speedup"]) == pytest.approx(told[-1]["deployed"]["ratio"])


def test_a_solutions_verdicts(site: Site) -> None:
    found = lines(site, "/solutions/rmsnorm_fast?format=csv")
    assert [row["verdict"] for row in found] == ["PASSED"] * 4
    assert all(float(row["baseline_median_ms"]) == pytest.approx(1.0) for row in found)


@given(st.text())
def test_no_text_is_a_formula(text: str) -> None:
    shown = safe(text)
    assert isinstance(shown, str)
    assert not shown.startswith(FORMULA)
    assert shown.removeprefix("'") == text or shown == text


def test_a_number_stays_one() -> None:
    assert safe(-0.5) == -0.5
