"""The reference as a worker of its own: sandboxed, timed and bounded like any other, and never beside a solution.

It runs twice on each input set: as declared, and in float64, which is what answers are measured against. When it fails
the dataset is at fault, never an author.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from kernelmill.evaluator.builders import Artifact
from kernelmill.evaluator.case import Case, Tensor
from kernelmill.evaluator.client import RequestFailed, WorkerLost, WorkerProcess
from kernelmill.evaluator.compare.base import Truth
from kernelmill.evaluator.inputs import Content, Inputs
from kernelmill.evaluator.layout import InputMemory, OutputMemory, bind_request
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.protocol import Load
from kernelmill.evaluator.sandbox import Sandbox
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


class Reference:
    """A definition's reference, ready to answer for one workload after another."""

    def __init__(self, definition: Definition, artifact: Artifact, sandbox: Sandbox, options: JudgeOptions) -> None:
        self._definition = definition
        self._options = options
        self._memory: dict[Precision, OutputMemory] = {}
        self._cases: dict[Precision, Case] = {}
        self._inputs: InputMemory | None = None
        self._worker = WorkerProcess(
            sandbox, artifact.directory, env={}, limits=options.limits, start_s=options.start_timeout_s
        )
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

    def prepare(self, case: Case, inputs: Inputs) -> None:
        """Lend memory for one workload; static and captured inputs are written once."""
        self.release()
        plain = [replace(tensor, role="dynamic") for tensor in inputs.dynamic]
        fixed = [tensor for tensor in case.tensors if tensor.name in inputs.fixed]
        self._inputs = InputMemory(fixed, plain, 1)
        for tensor in fixed:
            self._inputs.fixed_tensor(tensor).copy_(inputs.fixed[tensor.name])
        for precision in TARGETS:
            self._cases[precision] = _as_reference(case, precision)
            self._memory[precision] = OutputMemory(self._cases[precision].outputs, [], 1)
            self._bind(precision, TARGETS[precision])
        self._bind("declared", NULL_TARGET)

    def _bind(self, precision: Precision, target: int) -> None:
        assert self._inputs is not None
        case, memory = self._cases[precision], self._memory[precision]
        request, fds = bind_request(target, case, self._inputs, memory, passed=True)
        try:
            self._worker.bind(request, fds)
        except (RequestFailed, WorkerLost) as error:
            raise self._fault("cannot take its inputs", str(error)) from error

    def answer(self, inputs: Inputs, content: Content, *, exact: bool = True) -> Truth:
        """Run on this content. Raises DatasetError if the declared run fails; a failing float64 run is left out.

        `exact`: whether the float64 run is wanted at all.
        """
        assert self._inputs is not None
        for tensor in inputs.dynamic:
            inputs.write(content, tensor.name, self._inputs.dynamic_tensor(0, tensor))
        declared, seconds = self._run("declared")
        try:
            wide = self._run("float64")[0] if exact else None
        except DatasetError:
            wide = None
        return Truth(declared, wide, seconds)

    def _run(self, precision: Precision) -> tuple[Mapping[str, torch.Tensor], float]:
        memory, case = self._memory[precision], self._cases[precision]
        memory.poison(0)
        try:
            answer = self._worker.call(TARGETS[precision], 0, self._options.timeout_s, lambda: None)
        except WorkerLost as error:
            raise self._fault(f"was lost in its {precision} run", f"{error}; {error.log[-500:]}") from error
        if answer.failure is not None:
            raise self._fault(f"fails in its {precision} run", answer.failure.message)
        return {output.name: memory.tensor(0, output).clone() for output in case.outputs}, answer.seconds

    def null_seconds(self, calls: int = 20) -> float:
        """The median time of judging a call that does nothing."""
        times = sorted(
            self._worker.call(NULL_TARGET, 0, self._options.timeout_s, lambda: None).seconds for _ in range(calls)
        )
        return times[len(times) // 2]

    def _fault(self, what: str, detail: str) -> DatasetError:
        return DatasetError(f"the reference of {self._definition.name} {what}: {detail.strip()}")

    def release(self) -> None:
        """Scrub and give back the memory of the last workload."""
        for memory in self._memory.values():
            memory.buffer.bytes[:] = 0
            memory.close()
        if self._inputs is not None:
            self._inputs.close()
        self._memory, self._cases, self._inputs = {}, {}, None

    def close(self) -> None:
        self.release()
        self._worker.close()


def _as_reference(case: Case, precision: Precision) -> Case:
    """References return every output and update nothing in place."""
    inputs = [replace(a, role="dynamic") if isinstance(a, Tensor) and a.role == "inout" else a for a in case.inputs]
    outputs = [_wide(output) if precision == "float64" else output for output in case.outputs]
    return replace(case, inputs=tuple(inputs), outputs=tuple(outputs), inout={})


def _wide(output: Tensor) -> Tensor:
    return replace(output, dtype="float64") if "float" in output.dtype else output
