"""A site with a board on it, served for a real browser, and a judge that can be switched on."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

from kernelmill.agents.making import Making
from kernelmill.dataset import Dataset
from kernelmill.evaluator.executors import LocalExecutor
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.leaderboard.db.engine import Database
from kernelmill.leaderboard.db.migrate import migrate
from kernelmill.leaderboard.dispatcher import Dispatcher
from kernelmill.leaderboard.spool import Spool
from kernelmill.trace_schema import Trace
from kernelmill.web.site import install
from tests.builders import definition, raw_solution, solution, workload
from tests.leaderboard.world import World, scripted, small_dataset
from tests.web.pictures import served

HOSTILE = "<img src=x onerror=alert(1)>"
USED = "rmsnorm_h128"
"""A definition that models of the catalogue call; a small one stands for it."""
OWNER = "tests.leaderboard.scripted_owner"
MAKING = Making("1", "climb", "openai:some", 40, 30_000, 0.75)
"""What alice tells of how her leading kernels came to be."""


@dataclass
class Site:
    """Its world, and where it is served."""

    world: World
    address: str
    waiting: str
    """The id of a submission that waits."""

    def judge(self) -> threading.Thread:
        """One submission, as a dispatcher does it, while the caller goes on."""
        spool = Spool(self.world.folder / "spool", self.world.dataset.root)

        def opener() -> LocalExecutor:
            return LocalExecutor(["cpu"], JudgeOptions(), owner=OWNER)

        def work() -> None:
            dispatcher = Dispatcher(self.world.database, opener, spool, "test")
            dispatcher.step(threading.Event())
            dispatcher.close()

        thread = threading.Thread(target=work)
        thread.start()
        return thread


def populate(world: World) -> str:
    """A board with a leader, a loser, wrong and cheating ones, hostile names; the id of one that waits."""
    cases = [
        ("PASSED 2.0", "alice", "rmsnorm_fast"),
        ("PASSED 1.5", "bob", "rmsnorm_faster_than_some"),
        ("PASSED 0.7", "bob", "rmsnorm_slow"),
        ("INCORRECT_NUMERICAL", "alice", "rmsnorm_wrong"),
        ("CHEAT_DETECTED", "bob", "rmsnorm_cheat"),
        ("PASSED 1.2", "alice", HOSTILE),
    ]
    for place, (verdict, who, name) in enumerate(cases):
        submit(world, scripted(verdict, f"{place} {HOSTILE}"), who, name)
        world.judge()
    used = raw_solution(name="used_by_a_model", definition=USED, source=scripted("PASSED 2.0", "used"))
    assert world.post("/api/v1/submissions", {"solution": used}).status_code == 202
    world.judge()
    world.refresh()
    return submit(world, scripted("PASSED 3.0", "waiting"), "alice", "rmsnorm_waiting")


def submit(world: World, source: str, who: str, name: str) -> str:
    """Its id. The two that lead, one after the other, tell how they came to be."""
    raw = raw_solution(name=name, source=source)
    if name in ("rmsnorm_fast", "rmsnorm_waiting"):
        raw["description"] = f"Tiled. {MAKING.words()}"
    reply = world.post("/api/v1/submissions", {"solution": raw}, who)
    assert reply.status_code == 202
    return str(reply.json()["id"])


def _with_a_models_kernel(folder: Path) -> Path:
    dataset = Dataset.open(folder)
    dataset.add_definition(definition(name=USED))
    baseline = scripted("PASSED 1.0", "of a model's kernel")
    dataset.add_solution(solution(name="used_baseline", definition=USED, author="baseline", source=baseline))
    made = workload(uuid="a1111111-1111-4111-8111-111111111111")
    dataset.append(Trace(definition=USED, workload=made, solution=None, evaluation=None))
    return folder


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    database = Database(f"sqlite:///{folder / 'site.db'}")
    migrate(database)
    world = World(database, _with_a_models_kernel(small_dataset(folder / "dataset")), folder)
    waiting = populate(world)
    app = world.fresh_app()
    install(app)
    with served(app) as address:
        yield Site(world, address, waiting)
    world.close()
    database.close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    found = os.environ.get("KERNELMILL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no Chromium on this host: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield browser
        browser.close()


@dataclass
class Reader:
    """Somebody at a browser; whatever goes wrong in it is kept."""

    site: Site
    context: BrowserContext
    page: Page
    faults: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(self.site.address + path)
        self.page.wait_for_load_state("networkidle")
        return self.page


def sit_down(site: Site, chromium: Browser, scheme: str = "light", width: int = 1200) -> Reader:
    context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})  # type: ignore[arg-type]
    context.set_default_timeout(15_000)
    page = context.new_page()
    reader = Reader(site, context, page)
    page.on("console", lambda said: reader.faults.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: reader.faults.append(str(error)))
    page.on("requestfailed", lambda request: _failed(reader, request))
    page.on(
        "response", lambda reply: reader.faults.append(f"{reply.url} {reply.status}") if reply.status >= 500 else None
    )
    return reader


def _failed(reader: Reader, request: Request) -> None:
    """What the reader left behind by going on to another page has not failed."""
    if request.failure != "net::ERR_ABORTED":
        reader.faults.append(f"{request.url} failed: {request.failure}")


@pytest.fixture
def reader(site: Site, chromium: Browser) -> Iterator[Reader]:
    made = sit_down(site, chromium)
    yield made
    made.context.close()
    assert made.faults == []
