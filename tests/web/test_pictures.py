"""The pictures in the documents are made by this code, here of the test's own site."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser

from tests.web.conftest import Site
from tests.web.pictures import HEIGHT, WIDTH, pages_of, take


def test_a_picture_is_made_of_each_main_page_in_light_and_dark(site: Site, chromium: Browser, tmp_path: Path) -> None:
    wanted = pages_of(site.world.database)
    made = take(chromium, site.address, wanted, tmp_path)
    assert len(made) == 2 * len(wanted) == 16
    for path in made:
        head = path.read_bytes()[:24]
        size = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
        assert size == (WIDTH, HEIGHT)
