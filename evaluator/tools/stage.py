"""One solution and one workload on stage: built, its inputs in a file, ready to be played under a tool."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

from kernelmill.evaluator.builders import Artifact
from kernelmill.evaluator.burst.contents import Contents
from kernelmill.evaluator.case import Case, Tensor
from kernelmill.evaluator.devices import Device
from kernelmill.evaluator.options import JudgeOptions
from kernelmill.evaluator.protocol import Load
from kernelmill.evaluator.run import Forge
from kernelmill.evaluator.sandbox import Completed, Limits, Mount, Sandbox, open_sandbox
from kernelmill.evaluator.tools.play import Order, Piece, encode
from kernelmill.evaluator.tools.tool import Tool
from kernelmill.trace_schema import Solution
from kernelmill.trace_schema.errors import InternalError

if TYPE_CHECKING:
    import torch

PLAYER = "kernelmill.evaluator.tools.play"
ALIGNMENT = 256
LIMITS = Limits(memory_bytes=64 << 30, processes=4096, scratch_bytes=4 << 30, output_bytes=16 << 20)
"""A tool keeps much of what the program has a second time, and says a lot."""
WORDS = ("==", '"')
"""What lines of the tools begin with; the other lines are the program's."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a tool is run on."""

    case: Case
    device: Device
    artifact: Artifact
    sandbox: Sandbox
    file: Path
    """Holds the inputs' bytes."""
    inputs: tuple[Piece | float | int | bool | None, ...]
    timeout_s: float

    def play(
        self, tool: Tool, arguments: Sequence[str], *, warmups: int, calls: int, env: Mapping[str, str]
    ) -> Completed:
        """Run the tool with these arguments around the player. What comes back may be foreign code's words."""
        source, folder = Mount(self.artifact.directory, "/artifact"), Mount(self.file.parent, "/inputs")
        order = Order(
            self._load(self.sandbox.inside(source)),
            self.device.name,
            f"{self.sandbox.inside(folder)}/{self.file.name}",
            self.inputs,
            self._outputs(),
            warmups,
            calls,
        )
        return self.sandbox.run(
            [str(tool.path), *arguments, *self.sandbox.python(PLAYER)],
            mounts=[source, folder, *tool.mounts],
            env={**self.artifact.worker_env, **env},
            limits=LIMITS,
            timeout_s=self.timeout_s,
            stdin=encode(order),
        )

    def _load(self, directory: str) -> Load:
        built = self.artifact
        return Load(0, built.kind, directory, built.entry, built.symbol, built.destination_passing, "declared")

    def _outputs(self) -> tuple[Piece, ...]:
        """Where a callable that returns its outputs has them copied, or what it is passed."""
        stored = self.case.passed_outputs if self.artifact.destination_passing else self.case.outputs
        return tuple(Piece(0, tensor.shape, tensor.dtype, True) for tensor in stored)


def require_gpu(name: str) -> None:
    """Raises InternalError where there is none to look into."""
    import torch

    if name == "cpu":
        raise InternalError(
            "this tool looks into an NVIDIA GPU, so --device cpu has nothing to show; use --device cuda:0"
        )
    if not torch.cuda.is_available():
        raise InternalError(
            "this tool looks into an NVIDIA GPU, and torch sees none here; run it on a host with one, "
            "or see what is missing: kernelmill doctor"
        )


@contextmanager
def set_stage(
    solution: Solution, case: Case, device: Device, *, sandbox: Literal["bwrap", "none"], timeout_s: float
) -> Iterator[Stage]:
    """Build, and draw inputs into a file that is gone afterwards.

    Raises BuildError, UnsupportedHere, SandboxUnavailable, InternalError.
    """
    built = Forge(JudgeOptions(sandbox=sandbox), device).build(solution).result
    if not isinstance(built, Artifact):
        raise built
    with tempfile.TemporaryDirectory(prefix="kernelmill-") as folder:
        file = Path(folder) / "inputs.bin"
        inputs = _write_inputs(case, device, file)
        yield Stage(case, device, built, open_sandbox(sandbox, device.nodes), file, inputs, timeout_s)


def _write_inputs(case: Case, device: Device, file: Path) -> tuple[Piece | float | int | bool | None, ...]:
    contents = Contents(case, {}, device.name, 1)
    values = contents.copy(contents.one())
    with file.open("wb") as out:
        return tuple(_write(a, values[a.name], out) if isinstance(a, Tensor) else a for a in case.inputs)


def _write(tensor: Tensor, value: torch.Tensor, out: BinaryIO) -> Piece:
    import torch

    out.write(bytes(-out.tell() % ALIGNMENT))
    piece = Piece(out.tell(), tensor.shape, tensor.dtype, tensor.role == "inout")
    out.write(value.contiguous().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return piece


def failure(done: Completed, timeout_s: float) -> str:
    """Why a played program did not end well, in its own last words and the tool's."""
    if done.timed_out:
        return f"it did not end within {timeout_s:g} s; give it more with --timeout-s, or choose a smaller workload"
    if done.limit:
        return f"it exceeded its {done.limit} limit; choose a smaller workload"
    lines = [line.strip() for line in done.output.splitlines() if line.strip("= \t")]
    own = [line for line in lines if not line.startswith(WORDS)]
    errors = [line.strip("= ") for line in lines if line.startswith(WORDS[0]) and "error" in line.lower()]
    said = [words[-1][:400] for words in (own, errors) if words]
    return "; ".join(said) or f"it ended with code {done.returncode} and said nothing"
