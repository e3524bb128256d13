"""Devices of a Ray cluster: each unit is one task, on a node that offers the custom resource of the device's model.

A node offers what it has when it starts: `ray start --address=… --resources='{"kernelmill:NVIDIA H200": 8}'`. It needs
this package, and the dataset at the same path. The task starts an owner, as a local run does, so nothing of one unit
is left on the device when the next one comes. Ray never retries: what is lost is said, and the caller decides.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kernelmill.evaluator.executors.base import (
    OPEN_FREE,
    SILENCE_S,
    START_S,
    Charge,
    Message,
    Seen,
    Stop,
    Unit,
    lost,
    never,
)
from kernelmill.evaluator.executors.process import OwnerProcess
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.runner import Event
from kernelmill.trace_schema.errors import InternalError

PREFIX = "kernelmill:"
POLL_S = 1.0
CONNECT_S = 10.0
GET_S = 60.0
"""Deadline of fetching one line that is there."""


@dataclass(slots=True)
class Task:
    """A unit that Ray was given; None is a look at the device."""

    unit: Unit | None
    stream: Any
    deadline: float
    begun: bool = False


class RayExecutor:
    """`wanted` is what nodes offer after "kernelmill:": a model, or a kind; `auto` where they offer but one.

    Raises InternalError without Ray, without a cluster, without a node that offers it, or if it can't be opened.
    """

    def __init__(
        self,
        wanted: str,
        options: JudgeOptions,
        *,
        address: str | None = None,
        opener: str = OPEN_FREE,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._ray = _imported()
        self._silence_s = silence_s + START_S
        self._joined = _join(self._ray, address)
        try:
            self._resource = _offered(self._ray.cluster_resources(), wanted)
            self._task = self._ray.remote(judge).options(
                max_retries=0, num_cpus=0, resources={self._resource: 1}, num_returns="streaming"
            )
            self._charge = Charge(self._resource.removeprefix(PREFIX), options, opener).to_json()
            self.seen = self._look()
        except InternalError:
            self.close()
            raise

    @property
    def share(self) -> int:
        return int(self._ray.cluster_resources().get(self._resource, 0))

    def run(self, units: Sequence[Unit], stop: Stop | None = None) -> Iterator[Event]:
        for task, message in self._messages([self._start(unit) for unit in units], stop or never):
            if message.event is not None:
                yield message.event
            elif message.kind == "ready":
                yield Event("building", f"{task.unit}: on {message.text}")
            elif message.kind == "lost" and task.unit is not None:
                yield lost(task.unit, message.text)

    def close(self) -> None:
        """A cluster that the caller had joined before stays joined."""
        if self._joined:
            self._ray.shutdown()
            self._joined = False

    def _look(self) -> Seen:
        """One device of the cluster opened, and closed again."""
        for _, message in self._messages([self._start(None)], never):
            if message.seen is not None:
                return message.seen
            raise InternalError(message.text)
        raise AssertionError("a stream of messages ends with one")

    def _start(self, unit: Unit | None) -> Task:
        stream = self._task.remote(self._charge, unit.to_json() if unit else "")
        return Task(unit, stream, time.monotonic() + self._silence_s)

    def _messages(self, tasks: list[Task], stop: Stop) -> Iterator[tuple[Task, Message]]:
        """As they come, until each task has said "done" or is lost. Tasks that are left early are cancelled."""
        try:
            while tasks and not stop():
                ready, _ = self._ray.wait([task.stream for task in tasks], num_returns=1, timeout=POLL_S)
                heard = [(task, self._hear(task)) for task in tasks if task.stream in ready]
                for task, message in heard or self._given_up(tasks):
                    if message.kind in ("done", "lost"):
                        tasks.remove(task)
                    self._extend(task, tasks)
                    yield task, message
        finally:
            for task in tasks if self._ray.is_initialized() else []:
                self._ray.cancel(task.stream, force=True)

    def _hear(self, task: Task) -> Message:
        """Its next line, which is there. Whatever Ray raises means that there will be no more."""
        try:
            return Message.from_json(self._ray.get(next(task.stream), timeout=GET_S))
        except StopIteration:
            return Message("lost", "its task ended before its work")
        except self._ray.exceptions.RayTaskError as error:
            return Message("lost", f"its task failed on its node ({_last_line(error)})")
        except self._ray.exceptions.RayError as error:
            return Message("lost", f"its node or its worker was lost ({type(error).__name__}: {_first_line(error)})")

    def _extend(self, heard: Task, tasks: list[Task]) -> None:
        """Tasks that wait for a device are as patient as those that have one are alive."""
        heard.begun = True
        for task in tasks:
            if task is heard or not task.begun:
                task.deadline = time.monotonic() + self._silence_s

    def _given_up(self, tasks: list[Task]) -> list[tuple[Task, Message]]:
        """Tasks that nothing will come of."""
        now, offered = time.monotonic(), self.share
        found = []
        for task in tasks:
            if not task.begun and not offered:
                found.append((task, Message("lost", f"no node of the cluster offers {self._resource} any more")))
            elif now > task.deadline:
                found.append((task, Message("lost", "nothing was heard from it within its deadline")))
        for task, _ in found:
            self._ray.cancel(task.stream, force=True)
        return found


def judge(charge: str, unit: str) -> Iterator[str]:
    """The task itself, on a node: an owner for one unit, and its lines. Without a unit it only looks at the device."""
    # Ray hides every GPU from a task that asked for none; ours asked for a resource that Ray does not know to be one.
    env = {name: value for name, value in os.environ.items() if (name, value) != ("CUDA_VISIBLE_DEVICES", "")}
    try:
        with closing(OwnerProcess(Charge.from_json(charge), env=env)) as owner:
            yield Message("ready", f"node {_node()}", owner.ready()).to_json()
            if unit:
                owner.order("judge", Unit.from_json(unit))
            for message in owner.messages() if unit else [Message("done")]:
                yield message.to_json()
                if message.kind == "done":
                    return
    except InternalError as error:
        yield Message("lost", str(error)).to_json()


def _node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _imported() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InternalError(f"--executor ray needs Ray ({error}): pip install 'kernelmill[ray]'") from error
    return ray


def _join(ray: Any, address: str | None) -> bool:
    """Whether this call joined the cluster; False where the caller had."""
    if ray.is_initialized():
        return False
    chosen = address or os.environ.get("RAY_ADDRESS") or "auto"
    if chosen.startswith("ray://"):
        raise InternalError(f"{chosen} is Ray's client, which streams nothing; run on a node of the cluster instead")
    host, _, port = chosen.rpartition(":")
    try:
        if port.isdigit():
            socket.create_connection((host, int(port)), CONNECT_S).close()  # ray.init alone tries for minutes
        ray.init(address=chosen, log_to_driver=False)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise InternalError(
            f"no Ray cluster is reached at {chosen} ({_first_line(error)}); "
            "start one with: ray start --head, or name it with --ray-address"
        ) from error
    return True


def _offered(resources: dict[str, float], wanted: str) -> str:
    """The resource to ask for."""
    ours = sorted(name for name in resources if name.startswith(PREFIX))
    if wanted == "auto" and len(ours) == 1:
        return ours[0]
    if PREFIX + wanted in ours:
        return PREFIX + wanted
    names = ", ".join(name.removeprefix(PREFIX) for name in ours) or "no device"
    name = "cpu" if wanted == "auto" else wanted
    raise InternalError(
        f"--device {wanted}: the nodes of the Ray cluster offer {names}; choose one of them, "
        f"or start a node with: ray start --address=… --resources='{{\"{PREFIX}{name}\": 1}}'"
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:300]
