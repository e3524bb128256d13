"""What judge and worker say to each other, and nothing else.

One private SOCK_SEQPACKET pair; a message is one packet of at most MAX_BYTES.
- JSON packets carry one request (Load, Bind, Burst) or one Failure; file descriptors ride on a Bind or a Burst.
- The timed exchange is binary: GO = b"G" + 8-byte request id + target + slot; DONE = b"D" + the same id + status byte.
  The id is fresh for every call: an answer with any other id kills the worker and is nobody's verdict.
- A burst is announced by PLAY = b"P" + id + target + length, and then runs by words of one shared page: the worker says
  that it is waiting (ARMED = id), the judge says go (GO_WORD = a secret number), the worker says done (DONE_WORD = the
  same number; STATUS_BYTE says how). No system call lies between go and done.
Nothing is ever unpickled. What a worker says about itself can only hurt it: no verdict PASSED follows from a message.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Literal, NamedTuple

MAX_BYTES = 96 << 10
GO = struct.Struct("<c8sHH")
DONE = struct.Struct("<c8sB")
PLAY = struct.Struct("<c8sHH")
OK, FAILED = 0, 1
READY = b"ok"
"""What a worker says once it can take requests, and after each Load, Bind and Burst that went well."""
EAGER = b"eager"
"""In place of READY after a Burst whose calls cannot be captured in a graph."""
PAGE_BYTES = 4096
WORD = 8
ARMED, GO_WORD, DONE_WORD, STATUS_BYTE = 0, 64, 128, 192
"""Where each lies in the shared page: a cache line apart."""


class ProtocolError(Exception):
    """The other side sent something that is not in the protocol."""


class Load(NamedTuple):
    """Load a callable as target number `target`."""

    target: int
    kind: str
    directory: str
    entry: str
    symbol: str
    destination_passing: bool
    precision: Literal["declared", "float64"]


class TensorSlot(NamedTuple):
    """One tensor in lent memory: which buffer, where in it, what it is."""

    buffer: int
    offset: int
    shape: tuple[int, ...]
    dtype: str


class Bind(NamedTuple):
    """Lend buffers to a target. Each of `slots` is one call's arguments: tensors in buffers, or plain numbers."""

    target: int
    sizes: tuple[int, ...]
    """Bytes of each buffer; the descriptors come along in the same order."""
    writable: tuple[bool, ...]
    handles: tuple[str, ...]
    """Of each buffer; an empty one's descriptor comes along."""
    inputs: tuple[tuple[TensorSlot | float | int | bool | None, ...], ...]
    outputs: tuple[tuple[TensorSlot, ...], ...]


class Strided(NamedTuple):
    """The tensors of one argument in every slot: slot i has the one at offset + (i modulo copies) * stride."""

    buffer: int
    offset: int
    stride: int
    copies: int
    shape: tuple[int, ...]
    dtype: str


class Burst(NamedTuple):
    """Lend buffers to a target for bursts: call i of one works on slot i. The shared page's descriptor comes first."""

    target: int
    sizes: tuple[int, ...]
    writable: tuple[bool, ...]
    handles: tuple[str, ...]
    lengths: tuple[int, ...]
    """Calls of each burst that will be asked for."""
    inputs: tuple[Strided | float | int | bool | None, ...]
    outputs: tuple[Strided, ...]


class Failure(NamedTuple):
    """Why a request failed, in the worker's words (untrusted text)."""

    stage: str
    """load, call, shape, dtype, lazy, arity"""
    message: str


def encode(message: Load | Bind | Burst | Failure) -> bytes:
    packet = json.dumps([type(message).__name__, *message], separators=(",", ":")).encode()
    if len(packet) > MAX_BYTES:
        raise ProtocolError(f"a {type(message).__name__} of {len(packet)} bytes exceeds the limit of {MAX_BYTES}")
    return packet


def _parse(packet: bytes, name: str, length: int) -> list[Any]:
    try:
        fields = json.loads(packet)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a packet that is not JSON: {packet[:80]!r}") from error
    if not isinstance(fields, list) or len(fields) != length + 1 or fields[0] != name:
        raise ProtocolError(f"expected a {name}, got {packet[:80]!r}")
    return fields[1:]


def decode_load(packet: bytes) -> Load:
    return Load(*_parse(packet, "Load", len(Load._fields)))


def decode_bind(packet: bytes) -> Bind:
    target, sizes, writable, handles, inputs, outputs = _parse(packet, "Bind", len(Bind._fields))
    tensors = [tuple(TensorSlot(*arg) if isinstance(arg, list) else arg for arg in call) for call in inputs]
    stored = tuple(tuple(TensorSlot(*output) for output in call) for call in outputs)
    return Bind(target, tuple(sizes), tuple(writable), tuple(handles), tuple(tensors), stored)


def decode_burst(packet: bytes) -> Burst:
    *head, inputs, outputs = _parse(packet, "Burst", len(Burst._fields))
    target, sizes, writable, handles, lengths = head
    arguments = tuple(Strided(*arg) if isinstance(arg, list) else arg for arg in inputs)
    stored = tuple(Strided(*output) for output in outputs)
    return Burst(target, tuple(sizes), tuple(writable), tuple(handles), tuple(lengths), arguments, stored)


def decode_failure(packet: bytes) -> Failure:
    stage, message = _parse(packet, "Failure", len(Failure._fields))
    if not isinstance(stage, str) or not isinstance(message, str):
        raise ProtocolError(f"a Failure with fields that are not text: {packet[:80]!r}")
    return Failure(stage, message[:8192])
