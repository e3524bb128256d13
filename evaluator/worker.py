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
from functools import partial
from typing import Any, NamedTuple

from kernelmill.evaluator import protocol
from kernelmill.evaluator.burst.player import Player
from kernelmill.evaluator.lent import Buffers
from kernelmill.evaluator.protocol import Bind, Burst, Failure, Load, Strided, TensorSlot

CHANNEL = "KERNELMILL_CHANNEL"
"""Environment variable that holds the number of the channel's descriptor."""
DEVICE = "KERNELMILL_DEVICE"
"""Environment variable that holds the device as torch names it; the CPU if unset."""
AS_DEFAULT = "KERNELMILL_DEFAULT_DEVICE"
"""Environment variable; set where tensors made without a device belong on it, as references may make them."""
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


def bind(request: Bind, buffers: Buffers) -> list[Call]:
    return [
        Call(
            tuple(buffers.tensor(arg) if isinstance(arg, TensorSlot) else arg for arg in inputs),
            tuple(buffers.tensor(slot) for slot in outputs),
        )
        for inputs, outputs in zip(request.inputs, request.outputs, strict=True)
    ]


def bind_burst(request: Burst, buffers: Buffers) -> list[Call]:
    slots = max(request.lengths)
    columns = [list(buffers.strided(a, slots)) if isinstance(a, Strided) else [a] * slots for a in request.inputs]
    outputs = [list(buffers.strided(output, slots)) for output in request.outputs]
    return [
        Call(tuple(column[slot] for column in columns), tuple(column[slot] for column in outputs))
        for slot in range(slots)
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

    def __init__(self, channel: socket.socket, device: str) -> None:
        self.channel = channel
        self.device = device
        self.targets: dict[int, Target] = {}
        self.buffers: dict[int, Buffers] = {}
        self.calls: dict[int, list[Call]] = {}
        self.players: dict[int, Player] = {}

    def serve(self) -> None:
        while True:
            packet, fds, _, _ = socket.recv_fds(self.channel, protocol.MAX_BYTES, MAX_FDS)
            if not packet:
                return
            if packet[:1] == b"G":
                self.call(packet)
            elif packet[:1] == b"P":
                self.play(packet)
            else:
                self.channel.send(self.request(packet, fds))

    def call(self, packet: bytes) -> None:
        _, request_id, target, slot = protocol.GO.unpack(packet)
        try:
            run(self.targets[target], self.calls[target][slot])
            self.synchronize()
        except Exception as error:  # the boundary to foreign code
            self.channel.send(protocol.DONE.pack(b"D", request_id, protocol.FAILED))
            self.channel.send(protocol.encode(failure(error, "call")))
        else:
            self.channel.send(protocol.DONE.pack(b"D", request_id, protocol.OK))

    def play(self, packet: bytes) -> None:
        _, request_id, target, length = protocol.PLAY.unpack(packet)
        raised = self.players[target].play(request_id, length)
        if raised is not None:
            self.channel.send(protocol.encode(failure(raised, "call")))

    def synchronize(self) -> None:
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize()

    def request(self, packet: bytes, fds: Sequence[int]) -> bytes:
        try:
            if packet.startswith(b'["Load"'):
                load_request = protocol.decode_load(packet)
                self.targets[load_request.target] = load(load_request)
            elif packet.startswith(b'["Bind"'):
                bind_request = protocol.decode_bind(packet)
                buffers = self.renew(bind_request, fds)
                self.calls[bind_request.target] = bind(bind_request, buffers)
            else:
                return self.prepare_bursts(protocol.decode_burst(packet), fds)
        except Exception as error:  # the boundary to foreign code
            return protocol.encode(failure(error, "load"))
        return protocol.READY

    def renew(self, request: Bind | Burst, fds: Sequence[int]) -> Buffers:
        """Let go of what the target was bound to before, then open what it is lent now."""
        self.calls.pop(request.target, None)
        self.players.pop(request.target, None)
        old = self.buffers.pop(request.target, None)
        self.buffers[request.target] = Buffers(request, fds, self.device, old)
        if old:
            self.synchronize()
            old.close()
        return self.buffers[request.target]

    def prepare_bursts(self, request: Burst, fds: Sequence[int]) -> bytes:
        page = mmap.mmap(fds[0], protocol.PAGE_BYTES)
        os.close(fds[0])
        calls = bind_burst(request, self.renew(request, fds[1:]))
        target = self.targets[request.target]
        once = [partial(run, target, call) for call in calls]
        player = Player(once, request.lengths, page, self.device)
        self.players[request.target] = player
        return protocol.READY if player.captured else protocol.EAGER


def failure(error: Exception, stage: str) -> Failure:
    text = "".join(traceback.format_exception(error, limit=-6))
    return Failure(getattr(error, "stage", stage), text[-8000:])


def warm_up(device: str) -> None:
    """What nearly every artefact needs, imported before the judge waits for anything."""
    import torch

    torch.zeros(1, device=device)
    if device != "cpu":
        torch.cuda.synchronize()


def default_to(device: str) -> None:
    import torch

    torch.set_default_device(device)


def main() -> None:
    warnings.filterwarnings("ignore", "The given buffer is not writable")
    sys.setrecursionlimit(1000)
    channel = socket.socket(fileno=int(os.environ.pop(CHANNEL)))
    device = os.environ.get(DEVICE, "cpu")
    warm_up(device)
    if AS_DEFAULT in os.environ:
        default_to(device)
    channel.send(protocol.READY)
    Worker(channel, device).serve()


if __name__ == "__main__":
    main()
