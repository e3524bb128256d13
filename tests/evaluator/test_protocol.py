"""The channel: typed, bounded, and nothing in it is ever executed."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelmill.evaluator import protocol
from kernelmill.evaluator.protocol import Bind, Failure, Load, ProtocolError, TensorSlot

LOAD = Load(1, "python", "/artifact", "main.py", "run", True, "declared")
BIND = Bind(
    0,
    (4096,),
    (True,),
    ("",),
    ((TensorSlot(0, 64, (2, 3), "float32"), 0.5, True, None),),
    ((TensorSlot(0, 0, (), "int64"),),),
)


def test_messages_come_back_as_they_were_sent() -> None:
    assert protocol.decode_load(protocol.encode(LOAD)) == LOAD
    sent = protocol.decode_bind(protocol.encode(BIND))
    assert sent.inputs[0][1:] == BIND.inputs[0][1:]
    assert sent.inputs[0][0] == TensorSlot(0, 64, [2, 3], "float32")  # type: ignore[arg-type]


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return exec, ("raise SystemExit('unpickled')",)


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"ok",
        b"{}",
        b"[]",
        b'["Failure"]',
        b'["Failure","load",7]',
        b'["Load","x","y"]',
        b"[" * 50_000,
        b'["Failure","a","b","c"]',
        pickle.dumps(Bomb()),
    ],
)
def test_anything_else_is_a_protocol_error(packet: bytes) -> None:
    with pytest.raises(ProtocolError):
        protocol.decode_failure(packet)


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_fail_or_parse(packet: bytes) -> None:
    try:
        found = protocol.decode_failure(packet)
    except ProtocolError:
        return
    assert json.loads(packet) == ["Failure", found.stage, found.message]


def test_words_of_a_worker_are_cut() -> None:
    assert len(protocol.decode_failure(protocol.encode(Failure("call", "x" * 50_000))).message) == 8192
    with pytest.raises(ProtocolError, match="exceeds the limit"):
        protocol.encode(Failure("call", "x" * 200_000))
