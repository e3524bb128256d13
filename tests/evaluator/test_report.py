from __future__ import annotations

import json
from io import StringIO
from math import inf
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner, Result

from kernelmill.evaluator.report import Report, build_report
from kernelmill.evaluator.report.commands import register
from kernelmill.evaluator.report.lines import json_lines
from kernelmill.evaluator.report.terminal import render_terminal
from kernelmill.evaluator.report.wording import bounds, milliseconds, printable, times
from kernelmill.evaluator.statistics import ONE, Ratio
from kernelmill.trace_schema import DatasetError
from tests.evaluator.fabricated import KERNELS, Fabricated, fabricate
from tests.evaluator.records import CPU, a_definition, a_public_trace, a_solution, a_trace, a_workload

GPU = "NVIDIA H200"


def tiny(*names: str, author: str = "ada", reason: str | None = None) -> Fabricated:
    """One definition, one workload, one solution a name."""
    definition, load = a_definition(), a_workload()
    solutions = [a_solution(name, author=author) for name in names]
    traces = [a_trace(solution, load, 2.0, reason=reason) for solution in solutions]
    return Fabricated(
        {definition.name: definition},
        {definition.name: [load]},
        {definition.name: solutions},
        {definition.name: traces},
    )


def on_two_devices() -> Fabricated:
    made = tiny("fast")
    (solution,), (load,) = made.solved["rmsnorm_h64"], made.loads["rmsnorm_h64"]
    made.judged["rmsnorm_h64"] += [
        a_trace(solution, load, 3.0, device=GPU),
        a_trace(solution, load, 1.0, sandbox="none"),
    ]
    return made


# --- data ---------------------------------------------------------------------------------------------------------


def test_every_device_model_has_its_own_board() -> None:
    report = build_report(on_two_devices())
    assert [board.device_model for board in report.boards] == [CPU, GPU]
    assert [board.best_mix.point for board in report.boards] == pytest.approx([2.0, 3.0])


def test_a_trace_is_left_out_once_however_many_boards_there_are() -> None:
    assert build_report(on_two_devices()).ignored == {"judged without a sandbox": 1}


def test_one_device_model_on_request_and_the_others_are_told_of() -> None:
    report = build_report(on_two_devices(), GPU)
    assert [board.device_model for board in report.boards] == [GPU]
    assert report.ignored == {"other device model": 2}


def test_an_unknown_device_model_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        DatasetError, match=f"no trace was measured on 'NVIDIA B200'; there are traces of: {CPU}, {GPU}"
    ):
        build_report(on_two_devices(), "NVIDIA B200")


def test_unsandboxed_traces_can_be_asked_for() -> None:
    (board,) = build_report(on_two_devices(), CPU, accept_unsandboxed=True).boards
    assert board.conditions.sandboxes == ("bwrap", "none")


def test_a_board_counts_what_was_judged_and_ranks_authors_over_all_definitions() -> None:
    made = fabricate()
    made.judged["rmsnorm_h4096"] = []
    (board,) = build_report(made).boards
    assert (len(board.judged), len(board.scores), board.workloads, board.solutions) == (11, 12, 99, 33)
    assert {author.all for author in board.authors} == {12}


def test_traces_that_do_not_count_make_no_board() -> None:
    made = tiny()
    made.judged["rmsnorm_h64"] = [a_public_trace(a_solution("fast"), a_workload())]
    report = build_report(made)
    assert (report.boards, sum(report.ignored.values())) == ((), 1)


# --- JSON lines ---------------------------------------------------------------------------------------------------


def lines_of(report: Report, kind: str) -> list[dict[str, object]]:
    return [line for line in json_lines(report) if line["kind"] == kind]


def test_json_lines_hold_every_row_choice_author_and_reason() -> None:
    report = build_report(fabricate())
    counted = {
        kind: len(lines_of(report, kind)) for kind in ("report", "board", "entry", "best_mix", "author", "ignored")
    }
    assert counted == {"report": 1, "board": 1, "entry": 48, "best_mix": 12, "author": 3, "ignored": 2}


def test_json_lines_are_json_even_where_an_interval_has_no_end() -> None:
    made = tiny("fast")
    made.judged["rmsnorm_h64"] = [a_trace(a_solution("fast"), a_workload(), 2.0, ci=[1.5, inf])]
    text = "\n".join(json.dumps(line, allow_nan=False) for line in json_lines(build_report(made)))
    assert '"ci95": [1.5, "Infinity"]' in text


def test_a_removed_solution_has_a_reason_and_no_speedup() -> None:
    removed = [line for line in lines_of(build_report(fabricate()), "entry") if line["off_board"]]
    assert [(line["author"], line["speedup"], line["rank"]) for line in removed] == [("night-shift", None, None)]


# --- terminal -----------------------------------------------------------------------------------------------------


def printed(report: Report, width: int = 100) -> str:
    console = Console(width=width, file=StringIO())
    with console.capture() as captured:
        for part in render_terminal(report):
            console.print(part)
    return captured.get()


def test_the_terminal_fits_a_hundred_columns_and_loses_no_name() -> None:
    text = printed(build_report(fabricate()))
    assert max(map(len, text.splitlines())) <= 100
    assert all(name in text for name in KERNELS)
    assert "1=" in text
    assert "the outputs changed after it had answered" in " ".join(text.split())
    assert "Traces left out: 1 no statistics" in text


def test_foreign_names_cannot_steer_the_terminal() -> None:
    text = printed(build_report(tiny("[red]x[/red]\x1b[2J\x07", author="a\u202eb\r")))
    assert "[red]x[/red]" in text.replace("\n", "")
    assert not any(char in text for char in "\x1b\x07\u202e\r")


def test_an_empty_dataset_says_what_to_run() -> None:
    assert "kernelmill run DATASET" in printed(build_report(Fabricated()))


# --- wording ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.0, "1.00×"), (9.994, "9.99×"), (9.996, "10.0×"), (140.2, "140×"), (inf, "∞"), (None, "–")]
)
def test_ratios_have_three_digits(ratio: float | None, text: str) -> None:
    assert times(ratio) == text


def test_an_interval_says_what_it_covers() -> None:
    assert bounds(Ratio(1.5, 1.4, 1.6)) == "1.40–1.60"
    assert bounds(Ratio(1.5, 1.4, inf, "within-session")) == "1.40–∞ †"
    assert bounds(Ratio(1.5, 0.0, inf, "within-session")) == "too few pairs for an interval †"
    assert bounds(ONE) == "exactly"


@pytest.mark.parametrize(
    ("time_ms", "text"), [(None, "–"), (1500, "1.5 s"), (2.5, "2.5 ms"), (0.00254, "2.54 µs"), (1e-5, "10 ns")]
)
def test_times_come_in_the_unit_that_fits(time_ms: float | None, text: str) -> None:
    assert milliseconds(time_ms) == text


def test_printable_leaves_letters_of_any_script() -> None:
    assert printable("Grüße, 核") == "Grüße, 核"
    assert printable("a\x1b[0m\n") == "a\\x1b[0m\\n"


# --- command ------------------------------------------------------------------------------------------------------


def invoke(*arguments: str | Path) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fabricate().write(tmp_path_factory.mktemp("dataset"))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELMILL_CACHE", str(tmp_path / "cache"))


def test_the_command_prints_tables_and_names_the_dataset_on_stderr(dataset: Path) -> None:
    result = invoke(dataset)
    assert result.exit_code == 0
    assert "agent-mill" in result.stdout
    assert result.stderr == f"dataset: {dataset}\n"


def test_the_command_prints_json_lines(dataset: Path) -> None:
    result = invoke(dataset, "--json")
    assert {json.loads(line)["kind"] for line in result.stdout.splitlines()} >= {"board", "entry", "author"}


def test_the_command_writes_a_page(dataset: Path, tmp_path: Path) -> None:
    result = invoke(dataset, "--html", tmp_path / "new" / "report.html")
    assert result.exit_code == 0
    assert "agent-mill" in (tmp_path / "new" / "report.html").read_text()


def test_an_unknown_device_or_dataset_is_a_usage_error(dataset: Path, tmp_path: Path) -> None:
    unknown, missing = invoke(dataset, "--device-model", "abacus"), invoke(tmp_path / "nowhere")
    assert (unknown.exit_code, missing.exit_code) == (2, 2)
    assert "no trace was measured on 'abacus'" in unknown.stderr
    assert "there is no dataset at" in missing.stderr


def test_a_dataset_without_traces_is_no_error(tmp_path: Path) -> None:
    made = fabricate()
    made.judged = {name: [] for name in made.judged}
    result = invoke(made.write(tmp_path / "unjudged"))
    assert result.exit_code == 0
    assert "Nothing judged yet" in result.stdout
