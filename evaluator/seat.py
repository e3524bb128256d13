"""A contestant's seat in one session: its worker, its own output memory, and single calls with everything checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kernelmill.evaluator.builders import Artifact
from kernelmill.evaluator.case import Case
from kernelmill.evaluator.client import RequestFailed, WorkerLost, WorkerProcess
from kernelmill.evaluator.inputs import Content, Inputs
from kernelmill.evaluator.layout import InputMemory, OutputMemory, Words, bind_request
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.protocol import Failure, Load
from kernelmill.evaluator.sandbox import Sandbox
from kernelmill.trace_schema import Verdict

if TYPE_CHECKING:
    import torch

BREATH_S = 0.004
"""How long a tree may run without a request when we look for late work."""
FAILURE_VERDICTS = {
    "shape": Verdict.INCORRECT_SHAPE,
    "dtype": Verdict.INCORRECT_DTYPE,
    "lazy": Verdict.CHEAT_DETECTED,
}
LOST_VERDICTS = {
    "timeout": Verdict.TIMEOUT,
    "exited": Verdict.RUNTIME_ERROR,
    "protocol": Verdict.CHEAT_DETECTED,
    "unfreezable": Verdict.SUSPECT,
}


class Rejected(Exception):
    """The solution is at fault: a verdict and why."""

    def __init__(self, verdict: Verdict, reason: str, log: str = "") -> None:
        super().__init__(reason)
        self.verdict = verdict
        self.reason = reason
        self.log = log


class Played(NamedTuple):
    """One call that kept every rule; whether its outputs are right is another question."""

    seconds: float
    outputs: Mapping[str, torch.Tensor]
    """The judge's own copies."""


class WorkerSeat:
    """One worker for one artefact: started when first needed, and replaced at the next workload once it is lost."""

    def __init__(self, artifact: Artifact, sandbox: Sandbox, options: JudgeOptions, env: Mapping[str, str]) -> None:
        """`env` is what the worker gets beside the artefact's own."""
        self._artifact = artifact
        self._sandbox = sandbox
        self._options = options
        self._env = {**artifact.worker_env, **env}
        self._worker: WorkerProcess | None = None
        self._is_loaded = False

    def start(self) -> None:
        """Begin to start a worker, without waiting for it: all of a sitting's workers start side by side."""
        self._worker = WorkerProcess(
            self._sandbox,
            self._artifact.directory,
            env=self._env,
            limits=self._options.limits,
            start_s=self._options.start_timeout_s,
        )

    def settle(self) -> None:
        """Wait until the worker is up, and freeze it, so that it disturbs nobody's clock."""
        if self._worker is not None:
            self._worker.settle()

    def _loaded(self) -> WorkerProcess:
        if self._worker is None:
            self.start()
        assert self._worker is not None
        if not self._is_loaded:
            artifact, directory = self._artifact, self._worker.artifact
            passing = artifact.destination_passing
            self._worker.load(Load(0, artifact.kind, directory, artifact.entry, artifact.symbol, passing, "declared"))
            self._is_loaded = True
        return self._worker

    def _lost(self, error: WorkerLost) -> Rejected:
        self._worker, self._is_loaded = None, False
        verdict = LOST_VERDICTS.get(error.kind, Verdict.RESOURCE_EXCEEDED)
        return Rejected(verdict, str(error), error.log)

    @property
    def log(self) -> str:
        return self._worker.log if self._worker else ""

    def drop(self) -> None:
        """Kill the worker; the next workload gets a fresh one."""
        if self._worker is not None:
            self._worker.close()
        self._worker, self._is_loaded = None, False


class Seat(WorkerSeat):
    """A seat whose worker plays single calls."""

    def __init__(self, artifact: Artifact, sandbox: Sandbox, options: JudgeOptions) -> None:
        super().__init__(artifact, sandbox, options, {})
        self._memory: OutputMemory | None = None

    def prepare(self, case: Case, inputs: Inputs, shared: InputMemory) -> None:
        """Start if need be, and lend this workload's memory. Raises Rejected."""
        self._case, self._inputs, self._shared = case, inputs, shared
        updated = [tensor for tensor in case.tensors if tensor.role == "inout"]
        if self._memory is not None:
            self._memory.close()
        self._memory = OutputMemory(case.passed_outputs, updated, shared.dynamic.slots)
        self._updated = updated
        try:
            worker = self._loaded()
            passed = self._artifact.destination_passing
            worker.bind(*bind_request(0, case, shared, self._memory, passed=passed))
        except RequestFailed as error:
            self.drop()
            raise Rejected(Verdict.RUNTIME_ERROR, f"loading failed: {last_line(error.failure)}", error.log) from error
        except WorkerLost as error:
            raise self._lost(error) from error

    def play(self, slot: int, content: Content, before: Callable[[], None], *, audit: bool) -> Played:
        """One call in `slot`. `before` runs last before the clock starts. `audit`: look again for late work."""
        assert self._worker is not None and self._memory is not None
        worker, memory = self._worker, self._memory
        for tensor in self._updated:
            self._inputs.write(content, tensor.name, memory.tensor(slot, tensor))
        memory.poison(slot)
        peeked: list[list[Words]] = []
        before()
        try:
            answer = worker.call(0, slot, self._options.timeout_s, lambda: peeked.append(memory.peek(slot)))
            if answer.failure is not None:
                verdict = FAILURE_VERDICTS.get(answer.failure.stage, Verdict.RUNTIME_ERROR)
                raise Rejected(verdict, last_line(answer.failure), worker.log)
            outputs = self._copies(slot)
            self._check_memory(slot, peeked[0], outputs, audit)
            limit = worker.limit_hit()
        except WorkerLost as error:
            raise self._lost(error) from error
        if limit is not None:
            raise Rejected(Verdict.RESOURCE_EXCEEDED, f"exceeded its {limit} limit", worker.log)
        return Played(answer.seconds, outputs)

    def _copies(self, slot: int) -> dict[str, torch.Tensor]:
        """Private snapshots of every output; an in-place one lies where its input was."""
        assert self._memory is not None
        places = zip(self._case.outputs, self._case.stored_outputs, strict=True)
        return {output.name: self._memory.tensor(slot, place).clone() for output, place in places}

    def _check_memory(self, slot: int, peeked: list[Words], outputs: Mapping[str, torch.Tensor], audit: bool) -> None:
        assert self._worker is not None and self._memory is not None
        unwritten = self._memory.unwritten(slot)
        if not self._memory.guards_intact(slot):
            raise Rejected(Verdict.CHEAT_DETECTED, "guard_band: wrote outside its outputs", self._worker.log)
        if self._memory.changed_since(slot, peeked):
            raise Rejected(
                Verdict.CHEAT_DETECTED, "async_output: wrote outputs after it had said done", self._worker.log
            )
        if audit or unwritten:
            self._worker.breathe(BREATH_S)
            later = self._copies(slot)
            if any(differ(outputs[name], later[name]) for name in outputs):
                raise Rejected(
                    Verdict.CHEAT_DETECTED, "async_output: outputs changed after it had said done", self._worker.log
                )
        if unwritten:
            raise Rejected(
                Verdict.INCORRECT_NUMERICAL, f"left {8 * unwritten} bytes of its outputs unwritten", self._worker.log
            )

    def close(self) -> None:
        self.drop()
        if self._memory is not None:
            self._memory.close()
            self._memory = None


def differ(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Bitwise: NaN payloads count."""
    import torch

    return not torch.equal(one.reshape(-1).view(torch.uint8), two.reshape(-1).view(torch.uint8))


def last_line(failure: Failure) -> str:
    """The exception line of a traceback: what an author reads first."""
    lines = [line for line in failure.message.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:400] if lines else "failed without a message"
