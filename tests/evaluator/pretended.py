"""This host's CPU as several devices. Owners open them by the name of a function here, each in its own process."""

from __future__ import annotations

import os

from kernelmill.evaluator.devices.cpu import Cpu
from kernelmill.evaluator.devices.own import own
from kernelmill.trace_schema import Environment

MODEL = "Pretended CPU"


class Pretended(Cpu):
    """Its traces tell by which name and in which process it was opened."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def model(self) -> str:
        return MODEL

    def environment(self, sandbox_kind: str, null_s: float) -> Environment:
        found = super().environment(sandbox_kind, null_s)
        return found.model_copy(update={"clocks": {"opened_as": self.name, "pid": os.getpid()}})


def open_owned(name: str) -> Pretended:
    """Raises InternalError if another process has opened it."""
    own(f"pretended-{name}")
    return Pretended(name)


def open_shared(name: str) -> Pretended:
    """For nodes that pretend to be several hosts."""
    return Pretended(name)


class Unlike(Pretended):
    @property
    def model(self) -> str:
        return f"{MODEL} {self.name}"


def open_unlike(name: str) -> Unlike:
    return Unlike(name)
