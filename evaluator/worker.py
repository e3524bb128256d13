"""The worker: inside the sandbox, one a solution. Loads the artefact and calls it on memory that the judge lent.

It is trusted with nothing: it holds no expected value, no tolerance, no clock, no seed. It runs in the same address
space as foreign code, so whatever it says is a claim. It is frozen whenever it is not inside a call.
"""

from __future__ import annotations

import mmap
import os
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from kernelmill.evaluator import protocol
from kernelmill.evaluator.protocol import Bind, Failure, Load, TensorSlot

CHANNEL = "KERNELMILL_CHANNEL"
"""Environment variable that holds the number of the channel's descriptor."""
MAX_FDS = 64


class CallFailed(Exception):
    """A call did not give what the definition asks for."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage


class Target(NamedTuple):
    """A loaded callable."""

    function: Callable[..., Any]
    destination_passing: bool
    precision: str


class Call(NamedTuple):
    """One slot's arguments, made once: a call itself allocates nothing of ours."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


def null(*_: object) -> None:
    """Does nothing: what calling it costs is what judging costs."""


def load(request: Load) -> Target:
    if request.kind == "null":
        return Target(null, True, "declared")
    from kernelmill.evaluator.builders import load as loader

    function = loader.load(request.kind, request.directory, request.entry, request.symbol)
    return Target(function, request.destination_passing, request.precision)


def tensor(slot: TensorSlot, buffers: Sequence[memoryview]) -> Any:
    """A torch tensor over lent memory; nothing is copied."""
    import torch

    from kernelmill.evaluator.dtypes import item_bytes, torch_dtype

    size = item_bytes(slot.dtype)
    for length in slot.shape:
        size *= length
    if size == 0:
        return torch.empty(slot.shape, dtype=torch_dtype(slot.dtype))
    part = buffers[slot.buffer][slot.offset : slot.offset + size]
    return torch.frombuffer(part, dtype=torch.uint8).view(torch_dtype(slot.dtype)).view(slot.shape)


def bind(request: Bind, fds: Sequence[int]) -> list[Call]:
    buffers = []
    for fd, size, writable in zip(fds, request.sizes, request.writable, strict=True):
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        buffers.append(memoryview(mmap.mmap(fd, size, mmap.MAP_SHARED | mmap.MAP_POPULATE, protection)))
        os.close(fd)
    return [
        Call(
            tuple(tensor(arg, buffers) if isinstance(arg, TensorSlot) else arg for arg in inputs),
            tuple(tensor(slot, buffers) for slot in outputs),
        )
        for inputs, outputs in zip(request.inputs, request.outputs, strict=True)
    ]


def store(results: Any, outputs: Sequence[Any]) -> None:
    """Copy what a value-returning callable gave into the judge's buffers, on the judge's clock."""
    import torch

    values = list(results) if isinstance(results, tuple | list) else [] if results is None else [results]
    if len(values) != len(outputs):
        raise CallFailed("shape", f"returned {len(values)} values, the definition has {len(outputs)} outputs")
    for number, (value, output) in enumerate(zip(values, outputs, strict=True)):
        if isinstance(value, bool | int | float):
            value = torch.tensor(value, dtype=output.dtype)
        if type(value) is not torch.Tensor:
            raise CallFailed("lazy", f"output {number} is a {type(value).__name__}, not a torch.Tensor")
        if value.shape != output.shape:
            raise CallFailed("shape", f"output {number} has shape {list(value.shape)}, not {list(output.shape)}")
        if value.dtype != output.dtype or value.device != output.device:
            got = f"{value.dtype} on {value.device}"
            raise CallFailed("dtype", f"output {number} is {got}, not {output.dtype} on {output.device}")
        output.copy_(value)


def run(target: Target, call: Call) -> None:
    if target.precision == "declared" and target.destination_passing:
        target.function(*call.inputs, *call.outputs)
        return
    if target.precision == "declared":
        store(target.function(*call.inputs), call.outputs)
        return
    from kernelmill.evaluator.precision import Float64, widen

    inputs = [widen(arg) for arg in call.inputs]
    with Float64() if target.precision == "float64" else nullcontext():
        store(target.function(*inputs), call.outputs)


class Worker:
    """The loop: receive, do, answer."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.targets: dict[int, Target] = {}
        self.calls: dict[int, list[Call]] = {}

    def serve(self) -> None:
        while True:
            packet, fds, _, _ = socket.recv_fds(self.channel, protocol.MAX_BYTES, MAX_FDS)
            if not packet:
                return
            if packet[:1] == b"G":
                self.call(packet)
            else:
                self.channel.send(self.request(packet, fds))

    def call(self, packet: bytes) -> None:
        _, request_id, target, slot = protocol.GO.unpack(packet)
        try:
            run(self.targets[target], self.calls[target][slot])
        except Exception as error:  # the boundary to foreign code
            self.channel.send(protocol.DONE.pack(b"D", request_id, protocol.FAILED))
            self.channel.send(protocol.encode(failure(error, "call")))
        else:
            self.channel.send(protocol.DONE.pack(b"D", request_id, protocol.OK))

    def request(self, packet: bytes, fds: Sequence[int]) -> bytes:
        try:
            if packet.startswith(b'["Load"'):
                load_request = protocol.decode_load(packet)
                self.targets[load_request.target] = load(load_request)
            else:
                bind_request = protocol.decode_bind(packet)
                self.calls[bind_request.target] = []  # let go of the old buffers first
                self.calls[bind_request.target] = bind(bind_request, fds)
        except Exception as error:  # the boundary to foreign code
            return protocol.encode(failure(error, "load"))
        return protocol.READY


def failure(error: Exception, stage: str) -> Failure:
    text = "".join(traceback.format_exception(error, limit=-6))
    return Failure(getattr(error, "stage", stage), text[-8000:])


def warm_up() -> None:
    """What nearly every artefact needs, imported before the judge waits for anything."""
    import torch

    torch.zeros(1)


def main() -> None:
    warnings.filterwarnings("ignore", "The given buffer is not writable")
    sys.setrecursionlimit(1000)
    channel = socket.socket(fileno=int(os.environ.pop(CHANNEL)))
    warm_up()
    channel.send(protocol.READY)
    Worker(channel).serve()


if __name__ == "__main__":
    main()
