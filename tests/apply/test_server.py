"""The table from a service's board: the same ranges, the sources checked by hash."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from kernelmill.apply import ApplyError
from kernelmill.apply.build import Made, Wish
from kernelmill.apply.server import build_from_server
from tests import builders
from tests.apply.folder import MEASURED, cpp, host, workload
from tests.apply.kernels import NORM

FAST = cpp()


def row(rows: int) -> dict[str, Any]:
    return {
        "definition": NORM.name,
        "device_model": host().model,
        "arch": host().arch,
        "axes": {"batch_size": rows},
        "solution": FAST.name,
        "solution_hash": FAST.hash(),
        "baseline": "torch_norm",
        "speedup": {"ratio": 2.0, "ci95": [1.9, 2.1], "interval": "sessions"},
        "fingerprint": host().fingerprint,
    }


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Made]:
    """Builds from a service that answers so; `asked` keeps the requests."""

    def build(rows: list[dict[str, Any]], source: Any = FAST, asked: list[httpx.Request] | None = None) -> Made:
        def answer(request: httpx.Request) -> httpx.Response:
            if asked is not None:
                asked.append(request)
            path = request.url.path.removeprefix("/api/v1")
            loads = [builders.plain(workload(size)) for size in MEASURED]
            half = len(loads) // 2 if "cursor" not in request.url.params else len(loads)
            replies = {
                "/apply-table": {"edition": "e", "items": rows},
                f"/definitions/{NORM.name}": builders.plain(NORM),
                f"/definitions/{NORM.name}/workloads": {
                    "items": loads[:half] if half < len(loads) else loads[len(loads) // 2 :],
                    "next": "c" if half < len(loads) else None,
                },
                f"/solutions/{FAST.hash()}": {"reports": [], "solution": builders.plain(source)},
            }
            return httpx.Response(200 if path in replies else 404, text=json.dumps(replies.get(path)))

        transport = httpx.MockTransport(answer)
        client = httpx.Client
        monkeypatch.setattr(httpx, "Client", lambda **options: client(transport=transport, **options))
        return build_from_server("http://board.example", host(), Wish())

    return build


def test_rows_join_to_ranges_unless_a_workload_between_them_kept_the_baseline(ask: Callable[..., Made]) -> None:
    asked: list[httpx.Request] = []
    made = ask([row(1), row(2), row(8), row(16)], asked=asked)
    (entry,) = made.table.entries
    assert sorted((one.lo[0], one.hi[0]) for one in entry.ranges) == [(1, 2), (8, 16)]
    assert made.solutions == {FAST.hash(): FAST}
    assert entry.definition_hash == NORM.hash()
    assert dict(asked[0].url.params) == {
        "device_model": host().model,
        "arch": host().arch,
        "fingerprint": host().fingerprint,
    }


def test_a_source_that_is_not_the_one_named_is_refused(ask: Callable[..., Made]) -> None:
    with pytest.raises(ApplyError, match="another source"):
        ask([row(1)], source=cpp(source="// other\n" + FAST.sources[0].content))


def test_a_service_that_offers_nothing_gives_an_empty_table_that_says_so(ask: Callable[..., Made]) -> None:
    made = ask([])
    assert made.table.entries == ()
    assert "offers nothing" in made.table.notes[0].why


def test_a_service_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ApplyError, match="cannot be asked"):
        build_from_server("http://127.0.0.1:1", host(), Wish())
