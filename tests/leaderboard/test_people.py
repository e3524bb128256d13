"""An identity is one author, whatever name it wishes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kernelmill.leaderboard import people, tokens
from kernelmill.leaderboard.db.engine import Database


def test_one_person_in_many_tabs_is_one_author(database: Database) -> None:
    def one(_: int) -> int:
        with database.write() as connection:
            return people.find_or_make(connection, "https://id.example|7", "dora")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(one, range(16)))) == 1


def test_many_people_of_one_name_are_many_authors(database: Database) -> None:
    def one(number: int) -> int:
        with database.write() as connection:
            return people.find_or_make(connection, f"https://id.example|{number}", "Dora")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(one, range(12)))) == 12


@pytest.mark.parametrize(
    ("wished", "name"),
    [
        ("dora@example.org", "dora"),
        ("@dora", "dora"),
        (" <b>do\u200bra</b>\n", "bdorab"),
        ("\uff0fdora\uff1c", "dora"),
        ("Dora  de\tla Cruz", "Dora de la Cruz"),
        ("\uff41dmin", "admin"),
        ("..", "person"),
        ("", "person"),
        ("x" * 300, "x" * 48),
    ],
)
def test_a_name_is_made_fit(wished: str, name: str) -> None:
    assert people.clean(wished) == name
    assert tokens.check_name(name) == name
