"""The reference as a worker of its own: sandboxed, timed and bounded like any other, and never beside a solution.

It runs twice on each input set: as declared, and in float64, which is what answers are measured against. When it fails
the dataset is at fault, never an author.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kernelmill.evaluator.builders import Artifact
from kernelmill.evaluator.case import Case, Tensor
from kernelmill.evaluator.client import RequestFailed, WorkerLost, WorkerProcess
from kernelmill.evaluator.compare.base import Truth
from kernelmill.evaluator.devices import Device
from kernelmill.evaluator.devices.cpu import Cpu
from kernelmill.evaluator.layout import Scratch
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.protocol import Bind, Load
from kernelmill.evaluator.sandbox import Sandbox
from kernelmill.evaluator.worker import AS_DEFAULT, DEVICE
from kernelmill.trace_schema import BuildSpec, Definition, Language, Solution, SourceFile
from kernelmill.trace_schema.errors import DatasetError

if TYPE_CHECKING:
    import torch

Precision = Literal["declared", "float64"]
TARGETS: dict[Precision, int] = {"declared": 0, "float64": 1}
NULL_TARGET = 2


def reference_solution(definition: Definition) -> Solution:
    """The definition's reference in the form of a solution."""
    return Solution(
        name=f"{definition.name}__reference",
        definition=definition.name,
        author="reference",
        spec=BuildSpec(
            language=Language.PYTHON,
            target_hardware=["cpu"],
            entry_point="main.py::run",
            destination_passing_style=False,
        ),
        sources=[SourceFile(path="main.py", content=definition.reference)],
    )


class Draws(Protocol):
    """Inputs of one workload, on the device."""

    @property
    def fixed(self) -> Mapping[str, torch.Tensor]: ...

    @property
    def dynamic(self) -> list[Tensor]: ...

    def write(self, content: Any, name: str, into: torch.Tensor) -> None: ...


class Reference:
    """A definition's reference, ready to answer for one workload after another."""

    def __init__(
        self,
        definition: Definition,
        artifact: Artifact,
        sandbox: Sandbox,
        options: JudgeOptions,
        device: Device | None = None,
    ) -> None:
        self._definition = definition
        self._options = options
        self._device = device or Cpu()
        self._memory: dict[Precision, Scratch] = {}
        self._cases: dict[Precision, Case] = {}
        self._inputs: Scratch | None = None
        self._old: list[Scratch] = []
        """Memory that the worker is still bound to."""
        env = {DEVICE: self._device.name, AS_DEFAULT: "1"} if self._device.kind == "cuda" else {}
        self._worker = WorkerProcess(
            sandbox, artifact.directory, env=env, limits=options.limits, start_s=options.start_timeout_s
        )
        self._artifact = artifact
        self._is_loaded = False

    def _load(self) -> None:
        """At the first workload, so that all of a sitting's workers start side by side."""
        if self._is_loaded:
            return
        artifact, self._is_loaded = self._artifact, True
        try:
            for precision, target in TARGETS.items():
                load = Load(
                    target, artifact.kind, self._worker.artifact, artifact.entry, artifact.symbol, False, precision
                )
                self._worker.load(load)
            self._worker.load(Load(NULL_TARGET, "null", "", "", "", True, "declared"))
        except (RequestFailed, WorkerLost) as error:
            self.close()
            raise self._fault("does not load", str(error)) from error

    def prepare(self, case: Case, inputs: Draws) -> None:
        """Lend memory for one workload; static and captured inputs are written once."""
        self._load()
        self.release()
        plain = [replace(tensor, role="dynamic") for tensor in inputs.dynamic]
        fixed = [tensor for tensor in case.tensors if tensor.name in inputs.fixed]
        self._inputs = Scratch([*fixed, *plain], self._device, writable=False)
        for tensor in fixed:
            self._inputs.tensor(tensor).copy_(inputs.fixed[tensor.name])
        for precision in TARGETS:
            self._cases[precision] = _as_reference(case, precision)
            self._memory[precision] = Scratch(self._cases[precision].outputs, self._device, writable=True)
            self._bind(precision, TARGETS[precision])
        self._bind("declared", NULL_TARGET)
        self._let_go()

    def _bind(self, precision: Precision, target: int) -> None:
        assert self._inputs is not None
        inputs, case, memory = self._inputs, self._cases[precision], self._memory[precision]
        buffers = (inputs.buffer, memory.buffer)
        request = Bind(
            target,
            tuple(buffer.size for buffer in buffers),
            tuple(buffer.writable for buffer in buffers),
            tuple(buffer.handle for buffer in buffers),
            (tuple(inputs.slot(a, 0) if isinstance(a, Tensor) else a for a in case.inputs),),
            (tuple(memory.slot(output, 1) for output in case.outputs),),
        )
        try:
            self._device.synchronize()
            self._worker.bind(request, [buffer.fd for buffer in buffers if buffer.fd >= 0])
        except (RequestFailed, WorkerLost) as error:
            raise self._fault("cannot take its inputs", str(error)) from error

    def answer(self, inputs: Draws, content: Any, *, exact: bool = True) -> Truth:
        """Run on this content. Raises DatasetError if the declared run fails; a failing float64 run is left out.

        `exact`: whether the float64 run is wanted at all.
        """
        assert self._inputs is not None
        for tensor in inputs.dynamic:
            inputs.write(content, tensor.name, self._inputs.tensor(tensor))
        self._device.synchronize()
        declared, seconds = self._run("declared")
        try:
            wide = self._run("float64")[0] if exact else None
        except DatasetError:
            wide = None
        return Truth(declared, wide, seconds)

    def _run(self, precision: Precision) -> tuple[Mapping[str, torch.Tensor], float]:
        memory, case = self._memory[precision], self._cases[precision]
        try:
            answer = self._worker.call(TARGETS[precision], 0, self._options.timeout_s, lambda: None)
        except WorkerLost as error:
            raise self._fault(f"was lost in its {precision} run", f"{error}; {error.log[-500:]}") from error
        if answer.failure is not None:
            raise self._fault(f"fails in its {precision} run", answer.failure.message)
        return {output.name: memory.tensor(output).clone() for output in case.outputs}, answer.seconds

    def null_seconds(self, calls: int = 20) -> float:
        """The median time of judging a call that does nothing."""
        times = sorted(
            self._worker.call(NULL_TARGET, 0, self._options.timeout_s, lambda: None).seconds for _ in range(calls)
        )
        return times[len(times) // 2]

    def _fault(self, what: str, detail: str) -> DatasetError:
        return DatasetError(f"the reference of {self._definition.name} {what}: {detail.strip()}")

    def release(self) -> None:
        """Scrub the memory of the last workload. It is given back when the worker is bound to other memory, or gone."""
        for memory in self._memory.values():
            memory.scrub()
        self._old += [*self._memory.values(), *([self._inputs] if self._inputs else [])]
        self._memory, self._cases, self._inputs = {}, {}, None

    def _let_go(self) -> None:
        for memory in self._old:
            memory.buffer.close()
        self._old = []

    def close(self) -> None:
        self.release()
        self._worker.close()
        self._let_go()


def _as_reference(case: Case, precision: Precision) -> Case:
    """References return every output and update nothing in place."""
    inputs = [replace(a, role="dynamic") if isinstance(a, Tensor) and a.role == "inout" else a for a in case.inputs]
    outputs = [_wide(output) if precision == "float64" else output for output in case.outputs]
    return replace(case, inputs=tuple(inputs), outputs=tuple(outputs), inout={})


def _wide(output: Tensor) -> Tensor:
    return replace(output, dtype="float64") if "float" in output.dtype else output
