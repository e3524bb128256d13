"""A looked-at call: kernel and original both run, the original's result is the one that counts.

The kernel gets copies of every input that changes from call to call, and fresh outputs: whatever it does to them, the
model sees nothing of it. The original runs with nothing substituted in torch below it: one that calls what we have
patched would else be compared with the kernel itself. Afterwards the outputs are compared by the definition's
comparator, and the copies with what they were copied from. The original is no exact truth, so a difference counts from
twice the bound that a judge allows: of two right answers each may be off by the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelmill.apply.dispatcher import names_of
from kernelmill.apply.guard.breaker import Breaker, Cause
from kernelmill.apply.guard.memory import resident_bytes
from kernelmill.apply.inside import inside
from kernelmill.apply.missed import Fallback
from kernelmill.trace_schema import Definition, Workload

if TYPE_CHECKING:
    import torch

STRAIN = 2.0
"""How many times a judge's bound two right answers may lie apart."""
MEMORY_BYTES = 256 << 20
"""A kernel whose looked-at calls leave this much more resident memory behind, all together, leaks."""


class Trial:
    """One kernel's looked-at calls."""

    def __init__(self, definition: Definition, kernel: Callable[..., Any], breaker: Breaker) -> None:
        """`kernel` returns the outputs, one alone or several as a tuple."""
        self._definition = definition
        self._kernel = kernel
        self._breaker = breaker
        self._inputs, self._outputs = names_of(definition)
        self._grown = 0
        self.compared = 0
        self.incomparable = ""
        """Why a call could not be compared, the first time: the kernel stays then; counters and events say so."""

    def run(self, args: Sequence[Any], kwargs: Mapping[str, Any], fallback: Fallback) -> Any:
        if _is_capturing(args):
            return fallback(*args, **kwargs)
        given = dict(zip((*self._inputs, *self._outputs), args, strict=False)) | dict(kwargs)
        copies = {name: self._copy(name, given.get(name)) for name in self._inputs}
        before = resident_bytes()
        answer, error = guarded(inside, self._kernel, *copies.values())
        if error is not None:
            self._breaker.trip("exception", error)
            return fallback(*args, **kwargs)
        fault = self._leak(resident_bytes() - before, answer)
        changed, _ = guarded(self._wrote, copies, given)
        result = inside(fallback, *args, **kwargs)
        different, error = guarded(self._compare, answer, result, given)
        if error is not None and not self.incomparable:
            self.incomparable = error
            self._breaker.note("incomparable", error)
        if found := changed or different or fault:
            self._breaker.trip(*found)
        return result

    def _copy(self, name: str, value: Any) -> Any:
        """Weights are passed as they are: they are large, and in the memory of every other call anyway."""
        is_static = self._definition.inputs[name].role == "static"
        return value if is_static or not hasattr(value, "clone") else value.clone()

    def _wrote(self, copies: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[Cause, str] | None:
        import torch

        updated = {spec.inout for spec in self._definition.outputs.values()}
        for name, copy in copies.items():
            is_own = name not in updated and isinstance(copy, torch.Tensor) and copy is not given[name]
            if is_own and not torch.equal(_bits(copy), _bits(given[name])):
                return "wrote_input", f"the kernel changed its input {name!r}"
        return None

    def _expected(self, result: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """The original's outputs by name, where the caller's kernel gives them the way the definition does."""
        if self._outputs and given.get(self._outputs[0]) is not None:
            returned = [given[name] for name in self._outputs]
        else:
            parts = list(result) if isinstance(result, tuple | list) else [result]
            names = list(self._definition.outputs)
            returned = (
                parts
                if len(parts) == len(self._outputs)
                else [part for name, part in zip(names, parts, strict=False) if name in self._outputs]
            )
        found = dict(zip(self._outputs, returned, strict=False))
        found |= {out: given[spec.inout] for out, spec in self._definition.outputs.items() if spec.inout}
        return found

    def _compare(self, answer: Any, result: Any, given: Mapping[str, Any]) -> tuple[Cause, str] | None:
        import torch

        expected = self._expected(result, given)
        parts = answer if isinstance(answer, tuple) else (answer,)
        outputs = dict(zip(self._definition.outputs, parts, strict=False))
        for name in self._definition.outputs:
            mine, right = outputs.get(name), expected.get(name)
            if not isinstance(right, torch.Tensor):
                raise TypeError(f"the caller's kernel gave no tensor for output {name!r}")
            if not isinstance(mine, torch.Tensor) or (mine.shape, mine.dtype) != (right.shape, right.dtype):
                return "form", f"output {name!r} is not a {right.dtype} tensor of shape {list(right.shape)}"
            if right.is_floating_point() and bool(right.isfinite().all()) and not bool(mine.isfinite().all()):
                return "non_finite", f"output {name!r} is not finite where the original's is"
        self.compared += 1
        return self._judge(outputs, expected, given)

    def _judge(
        self, outputs: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], given: Mapping[str, Any]
    ) -> tuple[Cause, str] | None:
        import torch

        from kernelmill.evaluator.case import make_case
        from kernelmill.evaluator.compare import comparator_for
        from kernelmill.evaluator.compare.base import Truth

        inputs = {name: given.get(name) for name in self._inputs}
        tensors = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
        case = make_case(self._definition, workload_of(self._definition, inputs), None)
        expectation = comparator_for(self._definition).prepare(case, tensors, Truth(expected, None, 0.0))
        finding = expectation.judge(outputs)
        if finding.verdict is None or finding.strain <= STRAIN:
            return None
        return "mismatch", finding.reason

    def _leak(self, grown: int, answer: Any) -> tuple[Cause, str] | None:
        """`grown`: bytes that the call has left resident; its outputs are meant to be."""
        outputs = answer if isinstance(answer, tuple) else (answer,)
        self._grown += max(0, grown - sum(getattr(value, "nbytes", 0) for value in outputs))
        if self._grown < MEMORY_BYTES:
            return None
        return "memory", f"looked-at calls left {self._grown >> 20} MiB of resident memory behind"


def guarded(function: Callable[..., Any], *args: Any) -> tuple[Any, str | None]:
    """What it returns, or what it raised, as text: neither a kernel nor our own look at it may fail a call."""
    try:
        return function(*args), None
    except Exception as error:  # the boundary to foreign code
        return None, f"{type(error).__name__}: {error}"


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """As bytes: a NaN equals itself there."""
    import torch

    return tensor.reshape(-1).view(torch.uint8)


def _is_capturing(args: Sequence[Any]) -> bool:
    """Whether a CUDA graph is captured now: nothing may be waited for then, so nothing can be compared."""
    import torch

    on_gpu = any(getattr(value, "is_cuda", False) for value in args)
    return on_gpu and torch.cuda.is_current_stream_capturing()


def workload_of(definition: Definition, inputs: Mapping[str, Any]) -> Workload:
    """A workload with the sizes and scalars of a call."""
    axes: dict[str, int] = {}
    given: dict[str, dict[str, Any]] = {}
    for name, spec in definition.inputs.items():
        value = inputs.get(name)
        if spec.shape is None:
            given[name] = {"type": "scalar", "value": value}
        elif value is not None:
            axes |= {axis: int(size) for axis, size in zip(spec.shape, value.shape, strict=True)}
            given[name] = {"type": "random"}
    known = {axis: size for axis, size in axes.items() if axis in definition.var_axes}
    return Workload.model_validate({"uuid": "call", "axes": known, "inputs": given})
