"""Models' pages: what a model is made of, how much of it is judged, and what that gains."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from kernelmill.dataset.catalogue import models, modules
from kernelmill.leaderboard import architectures
from tests.web.conftest import USED, Reader, Site
from tests.web.test_pages import get

SPEEDUP = {"ratio": 2.0, "ci95": [1.6, 2.5], "interval": "sessions"}
MODEL = "qwen3-8b"


def board(baseline_ms: float | None, point: float = 2.0) -> dict[str, object]:
    return {"baseline_ms": baseline_ms, "best_mix": {"speedup": {**SPEEDUP, "ratio": point}}}


@pytest.mark.parametrize("model", [one.id for one in models()])
def test_every_model_has_a_page_that_names_each_of_its_kernels(site: Site, model: str) -> None:
    text = get(site, f"/models/{model}").text.replace("<wbr>", "")
    ranks = architectures.ranks_of(architectures.find(model), None)
    for module in modules(model, ranks):
        for name in module.definitions:
            assert name in text
    assert len(text) < 200_000


def test_a_judged_kernel_counts_in_its_module_and_in_its_model(site: Site) -> None:
    text = get(site, f"/models/{MODEL}").text
    kernels = {name for module in modules(MODEL, 1) for name in module.definitions}
    assert f"<dd>1 of {len(kernels)}</dd>" in text
    assert "1 of 7 judged · gain <b>" in text
    assert f'href="/definitions/{USED}?device_model=Test%20CPU"' in text
    assert "is left out of both sums" in text


def test_where_nothing_is_judged_the_page_says_what_to_do(site: Site) -> None:
    text = get(site, f"/models/{MODEL}?device_model=nothing").text
    assert "None of its kernels was judged on nothing yet" in text
    assert "none measured" in text


@pytest.mark.parametrize("wanted", ["8", "3", "nothing"])
def test_the_split_over_ranks_is_one_that_the_dataset_has(site: Site, wanted: str) -> None:
    text = get(site, f"/models/deepseek-v3?tp={wanted}").text
    assert '<option value="8" selected>' in text
    assert "on one of 8 ranks" in text


def test_a_definition_names_the_models_that_use_it(site: Site) -> None:
    assert f'href="/models/{MODEL}?tp=1"' in get(site, f"/definitions/{USED}").text
    assert "No <a" in get(site, "/definitions/rmsnorm_h8").text


def test_the_gain_is_of_times_and_not_of_ratios() -> None:
    """36 layers of a slow kernel outweigh the one call of a fast one, and what has no time changes nothing."""
    attention = next(module for module in modules(MODEL, 1) if module.name == "attention")
    head = next(module for module in modules(MODEL, 1) if module.name == "output head")
    first, second = attention.definitions[0], head.definitions[0]
    boards = {first: board(1.0, 2.0), second: board(36.0, 1.8), attention.definitions[1]: board(None)}
    found = architectures.part([attention, head], boards)
    assert found.covered == 3
    assert found.gain is not None
    assert found.gain.point == pytest.approx(72 / (36 / 2.0 + 36 / 1.8))
    assert (found.gain.lo, found.gain.hi) == pytest.approx((1.6, 2.5))
    assert architectures.part([head], {}).gain is None


def test_from_home_to_a_kernel_by_its_model(reader: Reader) -> None:
    page = reader.open("/")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Models").click()
    page.get_by_role("link", name="Qwen3-8B").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Qwen3")
    page.get_by_role("link", name=USED).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(USED)
