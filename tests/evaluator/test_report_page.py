from __future__ import annotations

import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kernelmill.evaluator.report import build_report
from kernelmill.evaluator.report.page import render_page
from kernelmill.trace_schema import Trace
from tests.evaluator.fabricated import Fabricated, fabricate
from tests.evaluator.records import CPU, a_trace
from tests.evaluator.test_report import GPU, on_two_devices, tiny

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;{{ 7 * 7 }}"
VOID = {"meta", "input", "br", "wbr", "img", "link"}


class Page(HTMLParser):
    """Every element with its attributes and text; fails on tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        at = self.open[-1] if self.open else ""
        self.text[at] = self.text.get(at, "") + data

    def attributes(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.elements if name in attributes]


@pytest.fixture(scope="module")
def html() -> str:
    return render_page(build_report(fabricate()))


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_the_page_nests_and_its_links_lead_somewhere(page: Page) -> None:
    ids = page.attributes("id")
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in page.attributes("href")} <= set(ids)


def test_nothing_is_fetched(html: str, page: Page) -> None:
    assert all(link.startswith("#") for link in page.attributes("href"))
    assert page.attributes("src") == []
    assert not re.search(r"url\(|@import|https?:|//[a-z]", page.text["style"])
    assert not {"link", "img", "iframe", "object", "embed", "base", "form"} & {tag for tag, _ in page.elements}
    assert "http" not in html.replace("http-equiv", "")


def test_only_its_own_script_and_style_may_act(page: Page) -> None:
    (policy,) = page.attributes("content")[:1]
    assert policy.startswith("default-src 'none'")
    for tag in ("script", "style"):
        pin = b64encode(sha256(page.text[tag].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{pin}'" in policy
    assert page.attributes("style") == []
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]


def test_every_chart_is_described_or_hidden_from_readers(page: Page) -> None:
    charts = [attributes for tag, attributes in page.elements if tag == "svg" and "viewbox" not in attributes]
    assert len(charts) > 60
    assert all(chart.get("aria-label") or chart.get("aria-hidden") == "true" for chart in charts)


def test_the_page_says_how_it_was_made(html: str) -> None:
    for fact in (
        CPU,
        "judge (perf_counter)",
        "bwrap",
        "2026-04-01",
        "solution changed or gone since",
        "1=",
        "lower bound",
    ):
        assert fact in html


@pytest.mark.parametrize("where", ["solution", "author", "reason", "device", "definition", "workload"])
def test_hostile_text_is_only_text(where: str) -> None:
    made = hostile(where)
    page = Page(render_page(build_report(made)))
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert not {"img"} & {tag for tag, _ in page.elements}
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    seen = " ".join([*page.text.values(), *page.attributes("title"), *page.attributes("aria-label")])
    assert "alert(1)" in seen
    assert "{{ 7 * 7 }}" in seen


def hostile(where: str) -> Fabricated:
    if where == "solution":
        return tiny(HOSTILE)
    if where == "author":
        return tiny("fast", author=HOSTILE)
    made = tiny("fast")
    (solution,), (load,) = made.solved["rmsnorm_h64"], made.loads["rmsnorm_h64"]
    if where == "reason":
        made.judged["rmsnorm_h64"] = [a_trace(solution, load, verdict="CHEAT_DETECTED", reason=HOSTILE)]
    elif where == "device":
        made.judged["rmsnorm_h64"] = [a_trace(solution, load, 2.0, device=HOSTILE)]
    elif where == "workload":
        renamed = load.model_copy(update={"uuid": HOSTILE, "axes": {}})
        made.loads["rmsnorm_h64"] = [renamed]
        made.judged["rmsnorm_h64"] = [a_trace(solution, renamed, 2.0)]
    else:
        definition = made.definitions.pop("rmsnorm_h64").model_copy(update={"name": HOSTILE})
        made = Fabricated(
            {HOSTILE: definition},
            {HOSTILE: [load]},
            {HOSTILE: [solution.model_copy(update={"definition": HOSTILE})]},
        )
        (solution,) = made.solved[HOSTILE]
        made.judged[HOSTILE] = [a_trace(solution, load, 2.0, definition=definition)]
    return made


def test_two_device_models_make_one_page_with_two_boards() -> None:
    page = Page(render_page(build_report(on_two_devices())))
    assert page.attributes("href").count("#board-2") == 1
    assert page.text["h1"] == "2 device models"
    assert page.text["bdi"].startswith(CPU + GPU)


@pytest.mark.parametrize("made", [Fabricated(), tiny()])
def test_an_empty_page_says_what_to_run(made: Fabricated) -> None:
    page = Page(render_page(build_report(made)))
    assert "Nothing judged yet" in page.text["h1"]
    assert "kernelmill run DATASET" in page.text["pre"]


def test_a_solution_without_times_says_so() -> None:
    made = tiny("quiet", "broken")
    (quiet, broken), (load,) = made.solved["rmsnorm_h64"], made.loads["rmsnorm_h64"]
    made.judged["rmsnorm_h64"] = [a_trace(quiet, load, None), a_trace(broken, load, verdict="TIMEOUT")]
    text = render_page(build_report(made))
    assert "passed, but not timed" in text
    assert "nothing passed: 1 timeout" in text


def test_a_page_of_a_hundred_solutions_shows_twenty_rows_and_all_figures() -> None:
    html = render_page(build_report(tiny(*(f"s{number:03}" for number in range(100)))))
    assert "And 81 more, in the table below." in html
    assert html.count(">s099</bdi>") == 1


def test_an_old_trace_without_evidence_or_weights_still_renders() -> None:
    made = tiny("fast")
    raw = made.judged["rmsnorm_h64"][0].model_dump(mode="json", exclude_unset=True)
    del raw["evaluation"]["evidence"]
    made.judged["rmsnorm_h64"] = [Trace.model_validate(raw)]
    Page(render_page(build_report(made)))


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium on the PATH")
def test_a_browser_runs_its_script_and_reports_nothing(html: str, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(html)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    command = ["chromium", *flags, f"--user-data-dir={tmp_path}/profile", (tmp_path / "report.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert 'class="scrub"' in done.stdout
    assert '<button type="button">Definition</button>' in done.stdout
    assert "CONSOLE" not in done.stderr
