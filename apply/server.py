"""Build the table from a service's `/apply-table`: its boards' choices, and the sources behind them, by hash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kernelmill.apply.build import Made, Wish, empty_table
from kernelmill.apply.errors import ApplyError
from kernelmill.apply.features import features_of
from kernelmill.apply.host import Host
from kernelmill.apply.ranges import Sizes, spans
from kernelmill.apply.table import Entry, Note, Range
from kernelmill.trace_schema import Definition, Solution

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 30.0
Row = dict[str, Any]


def build_from_server(server: str, host: Host, wish: Wish, *, token: str | None = None) -> Made:
    """Raises ApplyError where the service cannot be asked, or gives another source than the one it named."""
    import httpx

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    made = Made(empty_table(host, wish, server))
    entries, notes = list[Entry](), list[Note]()
    try:
        with httpx.Client(base_url=f"{server.rstrip('/')}/api/v1", headers=headers, timeout=TIMEOUT_S) as http:
            for name, rows in _rows(http, host, wish).items():
                definition = Definition.model_validate(_get(http, f"/definitions/{quote(name, safe='')}"))
                entry = _entry(definition, rows, _sizes(http, definition), wish)
                if entry is None:
                    why = f"surely faster by {wish.margin:g}x nowhere"
                    notes.append(Note(definition=name, what="*", why=why))
                    continue
                entries.append(entry)
                made.definitions[name] = definition
                made.solutions |= {found.solution_hash: _solution(http, found) for found in entry.ranges}
    except httpx.HTTPError as error:
        raise ApplyError(f"{server} cannot be asked: {error}") from error
    if not entries:
        notes.append(Note(definition="*", what="*", why=f"{server} offers nothing for {host.model}"))
    made.table = made.table.model_copy(update={"entries": tuple(entries), "notes": tuple(notes)})
    return made


def _rows(http: httpx.Client, host: Host, wish: Wish) -> dict[str, list[Row]]:
    asked = {"device_model": host.model, "arch": host.arch}
    if wish.libs == "same":
        asked["fingerprint"] = host.fingerprint
    found: dict[str, list[Row]] = {}
    for row in _get(http, "/apply-table", asked)["items"]:
        if not wish.definitions or row["definition"] in wish.definitions:
            found.setdefault(row["definition"], []).append(row)
    return found


def _sizes(http: httpx.Client, definition: Definition) -> Iterator[dict[str, int]]:
    """Axes of all public workloads: those that no row names are sizes on which the baseline stays."""
    cursor: str | None = None
    while True:
        asked = {"limit": "500"} | ({"cursor": cursor} if cursor else {})
        page = _get(http, f"/definitions/{quote(definition.name, safe='')}/workloads", asked)
        yield from (load["axes"] for load in page["items"])
        if not (cursor := page["next"]):
            return


def _entry(definition: Definition, rows: list[Row], sizes: Iterator[dict[str, int]], wish: Wish) -> Entry | None:
    features = features_of(definition)
    everywhere = {tuple(feature.of(axes) for feature in features) for axes in sizes}
    ranges = []
    for solution_hash in dict.fromkeys(row["solution_hash"] for row in rows):
        own = [row for row in rows if row["solution_hash"] == solution_hash and _lower(row) > wish.margin]
        bounds: dict[Sizes, tuple[float, float]] = {}
        for row in own:
            place = tuple(feature.of(row["axes"]) for feature in features)
            bound = _lower(row), float(row["speedup"]["ratio"])
            bounds[place] = min(bound, bounds.get(place, bound))
        for span in spans({place: place in bounds for place in everywhere | bounds.keys()}):
            lower, point = (min(values) for values in zip(*(bounds[place] for place in span.points), strict=True))
            ranges.append(
                Range(
                    solution=own[0]["solution"],
                    solution_hash=solution_hash,
                    lo=span.lo,
                    hi=span.hi,
                    points=span.points,
                    lower=lower,
                    speedup=point,
                )
            )
    if not ranges:
        return None
    return Entry(
        definition=definition.name,
        definition_hash=definition.hash(),
        op_type=definition.op_type,
        features=tuple(str(feature) for feature in features),
        incumbent=rows[0]["baseline"] or "",
        ranges=tuple(sorted(ranges, key=lambda one: (-one.lower, one.solution, one.lo))),
    )


def _lower(row: Row) -> float:
    """Bounds that are not finite come as text."""
    return float(row["speedup"]["ci95"][0] or 0.0)


def _solution(http: httpx.Client, found: Range) -> Solution:
    told = _get(http, f"/solutions/{found.solution_hash}")
    solution = Solution.model_validate(told.get("solution", told))
    if solution.hash() != found.solution_hash:
        raise ApplyError(f"the service gave another source for {found.solution} than the one that it named")
    return solution


def _get(http: httpx.Client, path: str, asked: dict[str, str] | None = None) -> Any:
    reply = http.get(path, params=asked)
    reply.raise_for_status()
    return reply.json()
