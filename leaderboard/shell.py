"""What the service's commands share: settings, a database, and errors as one line on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from kernelmill.trace_schema.errors import KernelMillError

if TYPE_CHECKING:
    from kernelmill.leaderboard.db.engine import Database
    from kernelmill.leaderboard.settings import Settings

Url = Annotated[
    str | None, typer.Option(help="sqlite:///… or postgresql://…", show_default="KERNELMILL_DATABASE_URL, else a file")
]


def fail(message: object, code: int = 2) -> NoReturn:
    typer.echo(f"kernelmill: {message}", err=True)
    raise typer.Exit(code)


@contextmanager
def told() -> Iterator[None]:
    """Errors of ours are a line on stderr, not a traceback."""
    try:
        yield
    except ImportError as error:
        fail(f"the service needs more packages ({error}): pip install 'kernelmill[service]'")
    except KernelMillError as error:
        fail(error)


def settings_of(**over: Any) -> Settings:
    """The environment's settings, with what an option gave in their place."""
    from kernelmill.leaderboard.settings import Settings

    return Settings(**{name: value for name, value in over.items() if value is not None})


@contextmanager
def database_of(url: str | None) -> Iterator[Database]:
    from kernelmill.leaderboard.db.engine import Database
    from kernelmill.leaderboard.db.migrate import migrate

    with told():
        database = Database(settings_of(database_url=url).url)
        try:
            migrate(database)
            yield database
        finally:
            database.close()
