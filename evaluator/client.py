"""The judge's side of one worker: start, load, lend, call, freeze, kill. Every wait has a deadline.

Between calls the worker's whole tree is frozen. A call is: request queued while frozen, clock started, thaw, wait for
"done", clock stopped, freeze. The clock therefore covers every instant in which foreign code can run.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelmill.evaluator import protocol
from kernelmill.evaluator.memory import F_ADD_SEALS, SEAL_GROW, SEAL_SEAL, SEAL_SHRINK
from kernelmill.evaluator.protocol import Bind, Burst, Failure, Load
from kernelmill.evaluator.sandbox import Limits, Mount, Sandbox, plain
from kernelmill.evaluator.worker import CHANNEL
from kernelmill.trace_schema.errors import InternalError, KernelMillError

POLL_S = 0.05
LOOK_S = 0.02
"""How often a wait at the shared page looks whether the worker still lives."""


class WorkerLost(KernelMillError):
    """The worker died, hung, flooded or broke the protocol. `kind` says which; `log` is its output."""

    def __init__(self, kind: str, reason: str, log: str) -> None:
        super().__init__(reason)
        self.kind = kind
        """timeout, exited, protocol, memory, pids, log, unfreezable"""
        self.log = log


class RequestFailed(KernelMillError):
    """The worker answered that a load or bind failed."""

    def __init__(self, failure: Failure, log: str) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.log = log


class Answer(NamedTuple):
    """One timed call. `seconds` is the judge's: thaw to done."""

    seconds: float
    failure: Failure | None


class WorkerProcess:
    """One sandboxed worker."""

    def __init__(
        self, sandbox: Sandbox, artifact: Path | None, *, env: Mapping[str, str], limits: Limits, start_s: float
    ) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mounts = [Mount(artifact, "/artifact")] if artifact else []
        self.artifact = sandbox.inside(mounts[0]) if mounts else ""
        self.channel = ours
        self._start_s = start_s
        self._settled = False
        with theirs:
            self.process = sandbox.spawn(
                sandbox.python("kernelmill.evaluator.worker"),
                mounts=mounts,
                env={**env, CHANNEL: str(theirs.fileno())},
                limits=limits,
                fds=[theirs.fileno()],
            )
        self._page: mmap.mmap | None = None
        self._armed = b""
        self.went_at = 0.0
        self._poll = select.poll()
        self._poll.register(self.channel, select.POLLIN)
        self._poll.register(self.process.stdout, select.POLLIN)

    def settle(self) -> None:
        """Wait until it has started, and freeze it. Several may start at once; each is waited for in turn."""
        if not self._settled:
            self._settled = True
            try:
                self._expect(self._receive(time.monotonic() + self._start_s))
            except WorkerLost as error:  # nothing foreign is in it yet
                raise InternalError(f"a worker does not start: {error}; {error.log[-500:].strip()}") from error

    def load(self, request: Load) -> None:
        """Raises RequestFailed with the worker's words, or WorkerLost."""
        self._ask(protocol.encode(request), (), self._start_s)

    def bind(self, request: Bind, fds: Sequence[int]) -> None:
        self._ask(protocol.encode(request), fds, self._start_s)

    def bind_bursts(self, request: Burst, fds: Sequence[int]) -> bool:
        """Lend memory for bursts; whether their calls were captured in graphs. `fds` are the buffers' own."""
        page = os.memfd_create("page", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        try:
            os.ftruncate(page, protocol.PAGE_BYTES)
            fcntl.fcntl(page, F_ADD_SEALS, SEAL_SHRINK | SEAL_GROW | SEAL_SEAL)
            self._page = mmap.mmap(page, protocol.PAGE_BYTES)
            answer = self._ask(protocol.encode(request), [page, *fds], self._start_s)
        finally:
            os.close(page)
        return answer == protocol.READY

    def _ask(self, packet: bytes, fds: Sequence[int], timeout_s: float) -> bytes:
        self.settle()
        self.thaw()
        self._send(packet, fds)
        return self._expect(self._receive(time.monotonic() + timeout_s))

    def _send(self, packet: bytes, fds: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self.channel, [packet], list(fds))
        except ConnectionError:  # it died since it last spoke
            self._lose_speaker()
        except OSError as error:  # such as too many descriptors on their way, which is not this worker's fault
            raise InternalError(f"a worker can't be sent a request: {error}; see the limits: ulimit -a") from error

    def _expect(self, answer: bytes) -> bytes:
        self.freeze()
        if answer not in (protocol.READY, protocol.EAGER):
            raise RequestFailed(self._failure(answer), self.log)
        return answer

    def call(self, target: int, slot: int, timeout_s: float, at_done: Callable[[], None]) -> Answer:
        """Time one call. `at_done` runs the moment the answer is here, before the freeze."""
        request_id = os.urandom(8)
        self._send(protocol.GO.pack(b"G", request_id, target, slot))
        deadline = time.monotonic() + timeout_s
        start = time.perf_counter_ns()
        self.thaw()
        packet = self._receive(deadline)
        seconds = (time.perf_counter_ns() - start) / 1e9
        at_done()
        if packet[:9] != b"D" + request_id or len(packet) != protocol.DONE.size:
            self._lose("protocol", f"an answer that belongs to no request: {packet[:40]!r}")
        failure = None
        if packet[9] != protocol.OK:
            failure = self._failure(self._receive(deadline))
        self.freeze()
        return Answer(seconds, failure)

    def arm(self, target: int, length: int) -> None:
        """Wake the worker, and tell it to wait at the page for the word to play burst number `length`."""
        assert self._page is not None
        self._page[:] = bytes(protocol.PAGE_BYTES)
        self._armed = os.urandom(protocol.WORD)
        self._send(protocol.PLAY.pack(b"P", self._armed, target, length))
        self.thaw()

    def release(self, timeout_s: float) -> Callable[[], Failure | None]:
        """Wait until the worker waits, say go, return when it has said done. The result tells how it went, once called.

        The caller's clock runs from just before the word: read `went_at`.
        """
        assert self._page is not None
        page, deadline = self._page, time.monotonic() + timeout_s
        self._await(protocol.ARMED, self._armed, deadline)
        secret = os.urandom(protocol.WORD)
        self.went_at = time.perf_counter()
        page[protocol.GO_WORD : protocol.GO_WORD + protocol.WORD] = secret
        self._await(protocol.DONE_WORD, secret, deadline)
        if page[protocol.STATUS_BYTE] == protocol.OK:
            return lambda: None
        return lambda: self._failure(self._receive(deadline))

    def _await(self, place: int, word: bytes, deadline: float) -> None:
        """Spin until the worker has written `word`; look now and then whether it lives, writes too much, or hangs."""
        assert self._page is not None
        page, end, look_at = self._page, place + protocol.WORD, time.monotonic() + LOOK_S
        while page[place:end] != word:
            now = time.monotonic()
            if now < look_at:
                continue
            look_at = now + LOOK_S
            self._look(deadline - now)

    def _look(self, left_s: float) -> None:
        self.process.drain()
        if left_s <= 0:
            self._lose("timeout", "no answer within the deadline")
        if self.process.flooded:
            self._lose("log", "exceeded its log limit")
        if self.process.popen.poll() is not None or self._poll_channel():
            self._lose_speaker()

    def _poll_channel(self) -> bool:
        return any(fd == self.channel.fileno() for fd, _ in self._poll.poll(0))

    def _lose_speaker(self) -> None:
        """It spoke where it had to be silent, or is gone."""
        packet = self._packet()
        self._lose("protocol", f"an answer that belongs to no request: {packet[:40]!r}")

    def _failure(self, packet: bytes) -> Failure:
        try:
            failure = protocol.decode_failure(packet)
        except protocol.ProtocolError as error:
            self._lose("protocol", str(error))
            raise AssertionError from error
        return failure._replace(message=plain(failure.message))

    def _receive(self, deadline: float) -> bytes:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                self._lose("timeout", "no answer within the deadline")
            for fd, _ in self._poll.poll(1000 * min(left, POLL_S)):
                if fd == self.channel.fileno():
                    return self._packet()
                self.process.drain()
            limit = self.process.limit_hit() if self.process.flooded or left < POLL_S else None
            if limit:
                self._lose(limit, f"exceeded its {limit} limit")
            if self.process.popen.poll() is not None:
                return self._packet()

    def _packet(self) -> bytes:
        try:
            packet = self.channel.recv(protocol.MAX_BYTES, socket.MSG_DONTWAIT)
        except OSError:
            packet = b""
        if packet:
            return packet
        code = self.process.exit_code()
        limit = self.process.limit_hit()
        if limit:
            self._lose(limit, f"exceeded its {limit} limit")
        self._lose("exited", _describe_exit(code))
        raise AssertionError

    def _lose(self, kind: str, reason: str) -> None:
        if kind == "timeout":
            kind = self.process.limit_hit() or kind
            reason = reason if kind == "timeout" else f"exceeded its {kind} limit"
        self.close()
        raise WorkerLost(kind, reason, self.log)

    def freeze(self) -> None:
        try:
            self.process.tree.freeze()
        except KernelMillError as error:
            self._lose("unfreezable", str(error))

    def thaw(self) -> None:
        self.process.tree.thaw()

    def breathe(self, seconds: float) -> None:
        """Let the tree run without a request, to see whether it still does something."""
        self.thaw()
        time.sleep(seconds)
        self.freeze()

    @property
    def log(self) -> str:
        return self.process.log

    def limit_hit(self) -> str | None:
        self.process.drain()
        return self.process.limit_hit()

    def close(self) -> None:
        self.process.close()
        self.channel.close()


def _describe_exit(code: int) -> str:
    """bwrap reports a signal as 128 + its number."""
    number = -code if code < 0 else code - 128 if code > 128 else None
    if number is None:
        return f"the worker exited with code {code} during a request"
    return f"the worker was killed by signal {number}"
