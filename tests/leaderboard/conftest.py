"""Every test that takes a `database` runs on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.db.migrate import migrate
from tests.leaderboard.front import PUBLIC, Front
from tests.leaderboard.oidc_provider import Bent, OidcProvider, provider
from tests.leaderboard.populated import Site, populate
from tests.leaderboard.postgres import Postgres, binaries
from tests.leaderboard.world import World, small_dataset

BACKENDS = ("sqlite", "postgresql")
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    if binaries() is None:
        pytest.skip("no PostgreSQL on this host: apt-get install postgresql")
    server = Postgres()
    try:
        server.start()
        server.sql("create database template_km")
        template = Database(server.url("template_km"))
        migrate(template)
        template.close()
        yield server
    finally:
        server.close()


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'service.db'}"
    return fresh(request.getfixturevalue("postgres"))


def fresh(server: Postgres) -> str:
    """The address of a new, migrated database."""
    name = f"test_{next(_numbers)}"
    server.sql(f"create database {name} template template_km")
    return server.url(name)


@pytest.fixture(scope="module", params=BACKENDS)
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A populated service that the tests of one file share: for those that ask much and change little."""
    folder = tmp_path_factory.mktemp("site")
    url = f"sqlite:///{folder / 'service.db'}"
    if request.param == "postgresql":
        url = fresh(request.getfixturevalue("postgres"))
    opened = Database(url)
    migrate(opened)
    made = World(opened, small_dataset(folder / "dataset"), folder, quota_per_hour=10**6)
    yield Site(made, populate(made))
    made.close()
    opened.close()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    migrate(opened)
    yield opened
    opened.close()


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return small_dataset(tmp_path / "dataset")


@pytest.fixture
def world(database: Database, dataset: Path, tmp_path: Path) -> Iterator[World]:
    """A service with a small catalogue, and people who hold tokens."""
    made = World(database, dataset, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def running() -> Iterator[OidcProvider]:
    with provider() as made:
        yield made


@pytest.fixture
def idp(running: OidcProvider) -> OidcProvider:
    """Honest, until a test bends it."""
    running.bent = Bent()
    running.person = {"sub": "1", "preferred_username": "carol"}
    running.redirect_uri = f"{PUBLIC}/auth/callback"
    return running


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[Database]:
    """For what is the same on every database."""
    opened = Database(f"sqlite:///{tmp_path / 'service.db'}")
    migrate(opened)
    yield opened
    opened.close()


@pytest.fixture
def front(lone: Database, idp: OidcProvider, tmp_path: Path) -> Iterator[Front]:
    """A service that people sign in to."""
    made = Front(lone, idp, tmp_path)
    yield made
    made.world.close()
