from __future__ import annotations

from math import exp, log

import pytest

from kernelmill.evaluator.authors import dump_standings, load_standings, rank_authors, score_authors, standings
from kernelmill.evaluator.scoring import Score, score
from tests.evaluator.records import (
    BASELINE,
    CPU,
    FAST,
    a_definition,
    a_solution,
    a_trace,
    a_workload,
    named,
    scored,
)


def board_of(name: str, *entries: tuple[str, str, float]) -> Score:
    """A board of definition `name` with one workload and (solution, author, ratio) entries."""
    definition, load = a_definition(name), a_workload()
    solutions = {each: a_solution(each, author=author, definition=name) for each, author, _ in entries}
    traces = [a_trace(solutions[each], load, ratio, definition=definition) for each, _, ratio in entries]
    return score(definition, [load], traces, device_model=CPU, solutions={**solutions, "torch": BASELINE})


def test_authors_rank_over_the_whole_list_not_over_what_they_chose() -> None:
    scores = [
        board_of("d1", ("a1", "picky", 10.0), ("b1", "steady", 3.0)),
        board_of("d2", ("b2", "steady", 3.0)),
        board_of("d3", ("b3", "steady", 3.0)),
    ]
    steady, picky = score_authors(scores)
    assert (steady.author, steady.rank, steady.improved, steady.attempted, steady.all) == ("steady", 1, 3, 3, 3)
    assert (picky.author, picky.rank, picky.improved, picky.attempted, picky.all) == ("picky", 2, 1, 1, 3)
    assert picky.log_gain == pytest.approx(log(10) / 3)
    assert steady.speedup.point == pytest.approx(3.0)


def test_an_authors_best_entry_is_the_one_with_the_highest_lower_bound() -> None:
    (author,) = score_authors([board_of("d1", ("one", "ada", 2.0), ("two", "ada", 3.0))])
    assert author.best["d1"].solution == "two"


def test_baselines_are_no_authors() -> None:
    board = board_of("d1", ("a1", "ada", 2.0))
    assert [author.author for author in score_authors([board])] == ["ada"]


def test_an_author_whose_every_entry_was_removed_attempted_but_has_no_rank() -> None:
    load, solutions = a_workload(), named(FAST, BASELINE)
    board = scored([load], [a_trace(FAST, load, verdict="CHEAT_DETECTED")], solutions=solutions)
    (author,) = score_authors([board])
    assert (author.rank, author.attempted, author.improved, author.log_gain) == (None, 1, 0, 0.0)


def test_authors_whose_intervals_overlap_are_tied() -> None:
    scores = [board_of("d1", ("a", "ada", 2.0), ("b", "bob", 2.01))]
    assert [(author.author, author.rank, author.tied) for author in score_authors(scores)] == [
        ("ada", 1, True),
        ("bob", 1, True),
    ]


def test_an_authors_interval_is_the_geometric_mean_of_bounds() -> None:
    scores = [board_of("d1", ("a", "ada", 2.0)), board_of("d2")]
    (author,) = score_authors(scores)
    assert author.speedup.lo == pytest.approx(exp(log(2.0 * 0.98) / 2))


def test_languages_rank_by_the_same_rule_as_authors() -> None:
    load = a_workload()
    one, two = a_solution("one", language="python"), a_solution("two", language="triton", author="bob")
    board = scored([load], [a_trace(one, load, 2.0), a_trace(two, load, 3.0)], solutions=named(one, two, BASELINE))
    ranked = score_authors([board], by="language")
    assert [(each.author, each.rank, each.best[board.definition].solution) for each in ranked] == [
        ("triton", 1, "two"),
        ("python", 2, "one"),
    ]


def test_authors_can_be_ranked_by_standings_alone() -> None:
    scores = [board_of("d1", ("a", "ada", 2.0), ("b", "bob", 3.0)), board_of("d2", ("c", "ada", 1.5)), board_of("d3")]
    stored = {board.definition: dump_standings(standings(board)) for board in scores}
    assert rank_authors({name: load_standings(text) for name, text in stored.items()}) == score_authors(scores)
    assert standings(scores[0])["bob"].solution_hash == a_solution("b", author="bob", definition="d1").hash()


def test_wins_are_counted_by_lower_bounds_and_passes_over_what_was_attempted() -> None:
    scores = [board_of("d1", ("a", "ada", 2.0)), board_of("d2", ("b", "ada", 1.3)), board_of("d3")]
    (author,) = score_authors(scores)
    assert author.wins == {1.0: 2, 1.2: 2, 1.5: 1, 2.0: 0, 3.0: 0, 5.0: 0}  # the interval of 2.0 begins below it
    assert author.pass_rate == 1.0
    assert author.wins[1.0] == author.improved
