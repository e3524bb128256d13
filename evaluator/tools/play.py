"""Inside the sandbox, below a profiler or a checker: loads an artefact and calls it on one workload's inputs.

Standard library, torch and the worker's own loading and calling: what is measured here is what the judge calls. The
order comes as JSON on standard input. Nothing is printed; whatever the foreign code raises ends the process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelmill.evaluator import worker
from kernelmill.evaluator.dtypes import torch_dtype, view
from kernelmill.evaluator.protocol import Load
from kernelmill.evaluator.worker import Call

if TYPE_CHECKING:
    import torch


class Piece(NamedTuple):
    """One tensor: where its bytes lie in the file of inputs (an output has none), and what it is."""

    offset: int
    shape: tuple[int, ...]
    dtype: str
    updated: bool
    """Whether a call writes into it: then every call gets a copy of its own."""


class Order(NamedTuple):
    """What to play."""

    load: Load
    device: str
    """As torch names it."""
    file: str
    """Holds the inputs' bytes."""
    inputs: tuple[Piece | float | int | bool | None, ...]
    outputs: tuple[Piece, ...]
    warmups: int
    """Calls before the profiler is told to look: they compile and choose."""
    calls: int


def encode(order: Order) -> bytes:
    return json.dumps(order).encode()


def decode(packet: bytes) -> Order:
    load, device, file, inputs, outputs, warmups, calls = json.loads(packet)
    arguments = tuple(_piece(argument) if isinstance(argument, list) else argument for argument in inputs)
    return Order(Load(*load), device, file, arguments, tuple(map(_piece, outputs)), warmups, calls)


def _piece(fields: list[Any]) -> Piece:
    offset, shape, dtype, updated = fields
    return Piece(offset, tuple(shape), dtype, updated)


def play(order: Order) -> None:
    target = worker.load(order.load)
    calls = _calls(order)
    for call in calls[: order.warmups]:
        worker.run(target, call)
    _look(order.device, begin=True)
    for call in calls[order.warmups :]:
        worker.run(target, call)
    _look(order.device, begin=False)


def _calls(order: Order) -> list[Call]:
    """Every call's arguments, made before the first call; outputs are never initialised."""
    import torch

    if order.device != "cpu":
        torch.cuda.set_device(order.device)
    raw = _bytes(Path(order.file))
    shared = [_tensor(raw, a, order.device) if isinstance(a, Piece) and not a.updated else a for a in order.inputs]
    return [
        Call(
            tuple(_tensor(raw, a, order.device) if isinstance(a, Piece) else a for a in shared),
            tuple(torch.empty(p.shape, dtype=torch_dtype(p.dtype), device=order.device) for p in order.outputs),
        )
        for _ in range(order.warmups + order.calls)
    ]


def _bytes(file: Path) -> torch.Tensor:
    """The file as bytes; it is mapped privately and never written."""
    import torch

    size = file.stat().st_size
    return torch.from_file(str(file), size=size, dtype=torch.uint8) if size else torch.empty(0, dtype=torch.uint8)


def _tensor(raw: torch.Tensor, piece: Piece, device: str) -> torch.Tensor:
    return view(raw, piece.offset, piece.shape, piece.dtype).to(device, copy=True)


def _look(device: str, *, begin: bool) -> None:
    """Wait for the device, and tell a profiler to begin or to end."""
    if device == "cpu":
        return
    import torch

    torch.cuda.synchronize()
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    (runtime.cudaProfilerStart if begin else runtime.cudaProfilerStop)()


def main() -> None:
    sys.setrecursionlimit(1000)
    play(decode(sys.stdin.buffer.read()))


if __name__ == "__main__":
    main()
