"""A model: what it is made of, which of its kernels are judged, and what the best of them gain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request
from sqlalchemy import Connection
from starlette.responses import Response

from kernelmill.dataset.catalogue import Model, models
from kernelmill.leaderboard import architectures, ranking
from kernelmill.leaderboard.api.context import Service, service_of
from kernelmill.leaderboard.architectures import Part
from kernelmill.web.html import PageRoute, page

MADE_SO = (
    "Gain is time on the baselines divided by time with the best mixes, summed over the model's kernels. "
    "A call of a kernel takes the mean over the calls of its workloads, and counts once a layer in each module that "
    "makes it, each form of it (prefill, decode, page sizes) by itself; where the number of layers isn't known, once. "
    "A kernel without a board has no time here and is left out of both sums, so read the gain beside the coverage. "
    "The interval takes every kernel at its lower, or its upper, bound at once."
)


@dataclass(frozen=True, slots=True)
class Tile:
    """A model in few words."""

    model: Model
    ranks: int
    part: Part


def most_judged(heads: Sequence[ranking.Head]) -> str | None:
    """The device model with the most boards, the first by name of several; None without any board."""
    counts = Counter(sorted(head.device_model for head in heads))
    return counts.most_common(1)[0][0] if counts else None


def tiles(
    service: Service, connection: Connection, edition: int, heads: Sequence[ranking.Head], device: str | None
) -> list[Tile]:
    """Every model of the catalogue, on the first of its numbers of ranks."""
    own = [head for head in heads if head.device_model == device]
    boards = architectures.summaries(service.ranking, connection, edition, own)
    return [
        Tile(one, ranks, architectures.part(architectures.modules(one.id, ranks), boards))
        for one in models()
        for ranks in one.tensor_parallel[:1]
    ]


def listing(request: Request) -> Response:
    service = service_of(request)
    with service.database.read() as connection:
        edition = ranking.edition(connection, None)
        heads = ranking.heads(connection, edition.id)
        device = request.query_params.get("device_model") or most_judged(heads)
        found = tiles(service, connection, edition.id, heads, device)
    devices = sorted({head.device_model for head in heads})
    return page(request, "models.html", tiles=found, devices=devices, device=device, made_so=MADE_SO)


def model(request: Request) -> Response:
    service, query = service_of(request), request.query_params
    found = architectures.find(request.path_params["id"])
    ranks = architectures.ranks_of(found, query.get("tp"))
    modules = architectures.modules(found.id, ranks)
    with service.database.read() as connection:
        edition = ranking.edition(connection, None)
        heads = ranking.heads(connection, edition.id)
        device = query.get("device_model") or most_judged(heads)
        own = [head for head in heads if head.device_model == device]
        boards = architectures.summaries(service.ranking, connection, edition.id, own)
        known = architectures.measured(connection)
    return page(
        request,
        "model.html",
        model=found,
        ranks=ranks,
        modules=[(each, architectures.part([each], boards)) for each in modules],
        whole=architectures.part(modules, boards),
        boards=boards,
        known=known,
        devices=sorted({head.device_model for head in heads}),
        device=device,
        made_so=MADE_SO,
    )


ROUTES = [PageRoute("/models", listing), PageRoute("/models/{id}", model)]
