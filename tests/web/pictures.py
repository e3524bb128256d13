"""Pictures of the main pages, light and dark.

`python -m tests.web.pictures` serves a dataset by a site of its own, so what is shown are its real traces: the shipped
dataset where that has some, else what `make demo` left in demo/dataset.
"""

from __future__ import annotations

import argparse
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, sync_playwright

from kernelmill.dataset import Dataset
from kernelmill.leaderboard import boards, serve
from kernelmill.leaderboard.api.app import create_app
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.settings import Settings
from kernelmill.trace_schema.errors import DatasetError
from kernelmill.web.site import install

ROOT = Path(__file__).resolve().parents[2]
WIDTH, HEIGHT = 1200, 900


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address at which it answers meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.02)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)


def take(browser: Browser, address: str, pages: Mapping[str, str], folder: Path) -> list[Path]:
    """One picture a page and scheme; `pages` is from a picture's name to its path."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, viewport={"width": WIDTH, "height": HEIGHT})
        page = context.new_page()
        for name, path in pages.items():
            page.goto(address + path)
            page.wait_for_load_state("networkidle")
            made.append(folder / f"{name}-{scheme}.png")
            page.screenshot(path=made[-1])
        context.close()
    return made


def dataset_with_traces() -> Path:
    """Raises DatasetError where neither the shipped one nor the demo's has any."""
    tried = [Dataset.open(None).root, ROOT / "demo" / "dataset"]
    for folder in tried:
        if next((folder / "traces").rglob("*.jsonl"), None):
            return folder
    raise DatasetError(f"no traces in {' or '.join(map(str, tried))}: run `make demo`, or name a --dataset")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dataset", type=Path, help="another one")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "screenshots")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    wanted = parser.parse_args()
    dataset = wanted.dataset or dataset_with_traces()
    print(f"dataset: {dataset}")
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(state=Path(folder), auth=True)
        database = Database(settings.url)
        serve.prepare(database, settings, dataset)
        while boards.refresh_next(database):
            pass
        app = create_app(settings, database)
        install(app)
        with served(app) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=wanted.chromium, args=["--no-sandbox"])
            for path in take(browser, address, pages_of(database), wanted.out):
                print(path)
            browser.close()
        database.close()


def pages_of(database: Database) -> dict[str, str]:
    """The main pages, with a definition and a solution that lead somewhere."""
    from kernelmill.dataset.catalogue import models
    from kernelmill.leaderboard import architectures, ranking

    with database.read() as connection:
        edition = ranking.edition(connection, None)
        heads = ranking.heads(connection, edition.id)
        found = [(head, ranking.Ranking().board(connection, edition.id, head)) for head in heads]
    head, board = max(found, key=lambda pair: len(pair[1]["entries"]))
    judged = {each.definition: told["summary"] for each, told in found if each.device_model == head.device_model}
    best = next(row for row in board["entries"] if not row["is_baseline"])
    covered = {
        one.id: architectures.part(architectures.modules(one.id, one.tensor_parallel[0]), judged) for one in models()
    }
    device = urlencode({"device_model": head.device_model})
    model = max(covered, key=lambda id: covered[id].covered)
    return {
        "home": "/",
        "board": f"/leaderboard?by=solution&{device}",
        "definition": f"/definitions/{head.definition}?{device}#board",
        "roofline": f"/definitions/{head.definition}?{device}#heat",
        "solution": f"/solutions/{best['solution_hash']}?{device}#verdicts",
        "author": f"/authors/{quote(best['author'])}?{device}",
        "model": f"/models/{model}",
        "submit": "/submit",
    }


if __name__ == "__main__":
    main()
