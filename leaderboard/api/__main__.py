"""The API's process: `python -m kernelmill.leaderboard.api FD`, with a socket that is bound already."""

from __future__ import annotations

import sys
from importlib import import_module

import uvicorn

from kernelmill.leaderboard import log
from kernelmill.leaderboard.api.app import create_app
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.garbage import settle
from kernelmill.leaderboard.lifeline import end_with_parent
from kernelmill.leaderboard.settings import Settings

SITE = "kernelmill.web.site"
"""It lies above this package, so it is asked for by name."""
KEEP_ALIVE_S = 75
"""Longer than clients and proxies keep an idle connection (60 s is usual): else some requests meet its end."""


def main() -> None:
    settings = Settings()
    log.set_up(settings.log_level)
    end_with_parent()
    app = create_app(settings, Database(settings.url))
    import_module(SITE).install(app)
    settle()
    uvicorn.run(
        app,
        fd=int(sys.argv[1]),
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=5,
        timeout_keep_alive=KEEP_ALIVE_S,
    )


if __name__ == "__main__":
    main()
