"""A reader's ways through the site, in a real Chromium. Every test also fails on any error in the browser's console."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser, FilePayload, expect

from tests.builders import raw_solution
from tests.leaderboard.world import DEFINITION, scripted
from tests.web.conftest import HOSTILE, Reader, Site, sit_down

MAIN = ["/", "/leaderboard", "/leaderboard?by=solution", "/definitions", f"/definitions/{DEFINITION}"]
MAIN += ["/solutions/rmsnorm_fast", "/compare?a=rmsnorm_fast&b=rmsnorm_slow", "/authors/alice", "/submissions"]
MAIN += ["/submit", "/viewer", "/docs", "/docs/judging", "/models", "/models/qwen3-8b"]
MAIN += ["/leaderboard?by=language", "/solutions/rmsnorm_cheat", "/compare?a=alice&b=bob", "/submissions/WAITING"]


def test_from_home_to_a_comparison(reader: Reader) -> None:
    page = reader.open("/")
    page.get_by_role("link", name="Leaderboard").click()
    page.get_by_role("link", name="Kernels").click()
    page.get_by_label("Op type").select_option("rmsnorm")
    page.get_by_role("button", name="Show").click()
    assert "op_type=rmsnorm" in page.url
    page.get_by_role("link", name=DEFINITION).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(DEFINITION)
    page.get_by_role("link", name="rmsnorm_fast", exact=True).click()
    page.get_by_role("link", name="Compare").click()
    page.get_by_label("Other").fill("rmsnorm_slow")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".diff .add").first).to_contain_text("+")
    expect(page.get_by_role("table", name="").first).to_contain_text("2.00×")


def test_a_pinned_p_is_followed_by_the_table(reader: Reader) -> None:
    page = reader.open(f"/definitions/{DEFINITION}")
    expect(page.locator("#curves svg")).to_be_visible()
    slider = page.get_by_label("Pinned p")
    slider.focus()
    page.keyboard.press("Home")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".pin output")).to_have_text("p = 1.5")
    expect(page.locator("th.pinned")).to_have_text("p = 1.5")


def test_what_is_won_at_p_is_drawn_and_pinned_on_the_board(reader: Reader) -> None:
    page = reader.open("/leaderboard?by=author")
    expect(page.get_by_role("img", name="Definitions on which")).to_be_visible()
    page.get_by_label("Pinned p").focus()
    page.keyboard.press("End")
    expect(page.locator("th.pinned")).to_have_text("p = 5")
    page.get_by_role("link", name="Kernels", exact=True).click()
    expect(page.locator(".pin")).to_have_count(0)


def test_charts_say_what_they_show(reader: Reader) -> None:
    page = reader.open(f"/definitions/{DEFINITION}")
    expect(page.get_by_role("img", name="Share of workloads")).to_be_visible()
    expect(page.get_by_role("img", name="Workloads by batch_size")).to_be_visible()
    expect(page.get_by_role("img", name="Bytes a second that")).to_be_visible()
    page = reader.open("/solutions/rmsnorm_fast")
    expect(page.get_by_role("img", name="Time of a call on 4 workloads")).to_be_visible()
    page = reader.open("/authors/alice")
    expect(page.get_by_role("img", name="Deployed speedup of alice on Test CPU over time")).to_be_visible()


def test_a_chart_is_drawn_with_what_its_table_says(reader: Reader) -> None:
    page = reader.open("/solutions/rmsnorm_fast")
    expect(page.locator("#latency svg")).to_contain_text("baseline's median")
    page = reader.open(f"/definitions/{DEFINITION}")
    expect(page.locator("#roofline-bytes svg")).to_contain_text("measured peaks")
    expect(page.locator("#roofline-bytes svg")).to_contain_text("rmsnorm_fast")
    expect(page.locator("#roofline-flops")).to_be_hidden()  # nobody wrote down how many operations it takes


def test_the_snippet_is_copied(reader: Reader) -> None:
    reader.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = reader.open("/solutions/rmsnorm_fast")
    page.get_by_role("button", name="Copy").press("Enter")
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert "kernelmill apply build --server" in page.evaluate("navigator.clipboard.readText()")


def test_a_kernel_is_submitted_and_watched_while_it_is_judged(reader: Reader) -> None:
    site = reader.site
    site.judge().join(60)  # the one that waits already
    page = reader.open("/submit")
    body = raw_solution(name="rmsnorm_from_the_page", source=scripted("PASSED 2.5", "page", "# sleep: 0.2"))
    page.get_by_label("Solution (JSON)").fill(json.dumps(body))
    page.get_by_label("Token").fill(site.world.tokens["bob"])
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/submissions/*")
    expect(page.locator("#state")).to_have_text("queued")
    thread = site.judge()
    expect(page.locator("#state")).to_have_text("done, passed", timeout=60_000)
    expect(page.locator("#verdicts tr")).to_have_count(5)
    expect(page.locator("#count")).to_have_text("4")
    thread.join(60)
    page.reload()
    expect(page.locator("#verdicts tr")).to_have_count(5)


def test_source_files_become_a_solution_that_can_be_sent(reader: Reader) -> None:
    page = reader.open("/submit")
    page.get_by_role("button", name="Make a solution of them").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose source files")
    page.get_by_label("Definition").fill(DEFINITION)
    files = {"main.py": scripted("PASSED 1.0", "from files"), "notes.h": "/* beside it */"}
    chosen = [FilePayload(name=name, mimeType="text/plain", buffer=text.encode()) for name, text in files.items()]
    page.get_by_label("Files").set_input_files(chosen)
    page.get_by_role("button", name="Make a solution of them").click()
    expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_label("Token").fill(reader.site.world.tokens["bob"])
    made = json.loads(page.get_by_label("Solution (JSON)").input_value())
    assert {each["path"]: each["content"] for each in made["sources"]} == files
    assert (made["spec"]["language"], made["spec"]["entry_point"]) == ("python", "main.py::run")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/submissions/*")


def test_a_wrong_submission_is_told_field_by_field(reader: Reader) -> None:
    page = reader.open("/submit")
    page.get_by_label("Solution (JSON)").fill("{")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("alert")).to_contain_text("This is not JSON")
    page.get_by_label("Solution (JSON)").fill(json.dumps({**raw_solution(), "definition": "none"}))
    page.get_by_label("Token").fill(reader.site.world.tokens["bob"])
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("alert")).to_contain_text("solution.definition: there is no definition 'none'")
    reader.faults[:] = [fault for fault in reader.faults if "422" not in fault]  # the browser tells of the refusal, too


def test_hostile_names_run_nothing(reader: Reader) -> None:
    page = reader.open(f"/definitions/{DEFINITION}")
    expect(page.get_by_role("link", name=HOSTILE)).to_be_visible()
    assert page.locator("img[src=x]").count() == 0


@pytest.mark.parametrize("path", MAIN)
def test_nothing_is_wider_than_a_telephone(site: Site, chromium: Browser, path: str) -> None:
    small = sit_down(site, chromium, width=360)
    page = small.open(path.replace("WAITING", site.waiting))
    width = page.evaluate("document.documentElement.scrollWidth")
    small.context.close()
    assert width <= 360
    assert small.faults == []


def test_dark_is_dark(site: Site, chromium: Browser) -> None:
    shades = {}
    for scheme in ("light", "dark"):
        one = sit_down(site, chromium, scheme)
        colour = one.open("/leaderboard").evaluate("getComputedStyle(document.body).backgroundColor")
        shades[scheme] = sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
        one.context.close()
    assert shades["dark"] < 150 < 600 < shades["light"]


def test_the_keyboard_is_enough(reader: Reader) -> None:
    page = reader.open("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    for _ in range(4):
        page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Definitions")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url("**/definitions")
    expect(page.get_by_role("heading", level=1)).to_have_text("Definitions")


def test_reading_needs_no_script(site: Site, chromium: Browser) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site.address}/definitions/{DEFINITION}")
    expect(page.get_by_role("row", name="rmsnorm_fast").first).to_contain_text("2.00×")
    expect(page.locator(".heat")).to_contain_text("cheat detected")
    page.goto(f"{site.address}/submit")
    expect(page.locator("main")).to_contain_text("kernelmill submit")
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", MAIN)
def test_no_page_keeps_anybody_out(site: Site, chromium: Browser, path: str, scheme: str) -> None:
    """axe-core's rules, the serious and critical ones."""
    from axe_playwright_python.sync_playwright import Axe

    one = sit_down(site, chromium, scheme)
    found = Axe().run(one.open(path.replace("WAITING", site.waiting))).response["violations"]
    one.context.close()
    serious = [
        (each["id"], node["target"], node["failureSummary"])
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
    assert serious == []
