"""`kernelmill profile` and `kernelmill sanitize`: stand-ins say what NVIDIA's tools say, where no GPU is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from typer.testing import CliRunner, Result

from kernelmill.cli import app
from kernelmill.dataset import Dataset
from kernelmill.evaluator import devices
from kernelmill.evaluator.builders import nvcc
from kernelmill.evaluator.case import make_case
from kernelmill.evaluator.cost import Work
from kernelmill.evaluator.devices.base import Kind
from kernelmill.evaluator.devices.cpu import Cpu
from kernelmill.evaluator.protocol import Load
from kernelmill.evaluator.sandbox import probe
from kernelmill.evaluator.tools import play, stage, tool
from kernelmill.evaluator.tools.play import Order, Piece
from kernelmill.evaluator.tools.tool import Tool
from kernelmill.trace_schema import Definition, Solution, Workload
from tests.builders import raw_definition, raw_solution, raw_workload
from tests.evaluator import tool_outputs as said

needs_sandbox = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
GPU = torch.cuda.is_available()
UUID = raw_workload()["uuid"]
TELLTALE = """\
def run(x, w, out):
    assert x.dtype.is_floating_point and x.shape == (4, 8) and w.shape == (8,)
    print("called", float(x[0, 0]), out.data_ptr() != x.data_ptr())
    out.copy_(x)
"""
RUN = 'while [ $# -gt 0 ]; do case "$1" in */python*) break;; esac; shift; done\n'
"""What a stand-in begins with: skip the tool's own options, so that what is left is the program."""
PLAYED = '"$@" || exit 9\n'


class Pretender(Cpu):
    """The CPU under the name of a GPU: 4 TB/s and 800 TFLOP/s."""

    kind: Kind = "cuda"

    def roofline_s(self, work: Work) -> float:
        return max(work.bytes / 4e12, work.flops / 8e14)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the PATH for stand-ins, a host that seems to have a GPU, and no toolkit of its own."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(tool, "STANDARD", tmp_path / "nowhere")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(devices, "open_device", lambda _: Pretender())
    return folder


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    root = tmp_path / "dataset"
    add(root / "definitions/rmsnorm/rmsnorm_h8.json", raw_definition())
    line = {"definition": "rmsnorm_h8", "solution": None, "evaluation": None, "workload": raw_workload()}
    add(root / "workloads/rmsnorm/rmsnorm_h8.jsonl", line)
    add(root / "solutions/alice/rmsnorm/rmsnorm_h8/rmsnorm_torch.json", raw_solution())
    return root


def add(file: Path, record: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record) + "\n")


def fake(folder: Path, name: str, output: str, code: int = 0, program: str = "") -> None:
    """A stand-in that says `output` and ends with `code`; `PLAYED` as `program` runs what it is given, too."""
    script = folder / name
    script.write_text(f"#!/bin/sh\n{RUN}{program}cat <<'END'\n{output}\nEND\nexit {code}\n")
    script.chmod(0o755)


def kernelmill(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def profile(dataset: Path, *more: str, named: str = "rmsnorm_torch") -> Result:
    return kernelmill("profile", named, "-w", UUID, "--dataset", str(dataset), *more)


def sanitize(dataset: Path, *more: str, named: str = "rmsnorm_torch") -> Result:
    return kernelmill("sanitize", named, "-w", UUID, "--dataset", str(dataset), *more)


def case_of(**over: Any) -> Any:
    definition = Definition.model_validate(raw_definition(**over))
    return make_case(definition, Workload.model_validate(raw_workload()), None)


# The player


def order(folder: Path, source: str, inputs: tuple[Any, ...], **over: Any) -> Order:
    (folder / "main.py").write_text(source)
    load = Load(0, "python", str(folder), "main.py", "run", over.pop("passing", True), "declared")
    output = Piece(0, (2,), "float32", True)
    return Order(load, "cpu", str(folder / "inputs.bin"), inputs, (output,), over.pop("warmups", 1), 2)


def test_an_order_survives_the_way_into_the_sandbox(tmp_path: Path) -> None:
    made = order(tmp_path, "", (Piece(256, (2, 3), "bfloat16", False), 1.5, None, True))
    assert play.decode(play.encode(made)) == made


def test_every_call_finds_updated_inputs_as_they_were(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inputs.bin").write_bytes(torch.tensor([1.0, 2.0]).numpy().tobytes())
    source = "def run(x, scale, out):\n    print(x.tolist(), scale)\n    x.mul_(scale)\n"
    play.play(order(tmp_path, source, (Piece(0, (2,), "float32", True), 3)))
    assert capfd.readouterr().out == "[1.0, 2.0] 3\n" * 3
    assert torch.frombuffer(bytearray((tmp_path / "inputs.bin").read_bytes()), dtype=torch.float32).tolist() == [1, 2]


def test_a_returned_value_is_checked_as_the_worker_does(tmp_path: Path) -> None:
    (tmp_path / "inputs.bin").write_bytes(b"")
    with pytest.raises(Exception, match=r"shape \[3\]"):
        play.play(order(tmp_path, "import torch\ndef run():\n    return torch.ones(3)\n", (), passing=False))


@needs_sandbox
@pytest.mark.parametrize("kind", ["bwrap", "none"])
def test_the_player_plays_in_the_sandbox(kind: Literal["bwrap", "none"]) -> None:
    solution = Solution.model_validate(raw_solution(source=TELLTALE))
    with stage.set_stage(solution, case_of(), Cpu(), sandbox=kind, timeout_s=60) as made:
        file = made.file
        done = made.play(Tool(Path("/usr/bin/env"), ()), (), warmups=1, calls=2, env={"KEPT": "1"})
    assert done.returncode == 0, done.output
    lines = done.output.splitlines()
    assert len(lines) == 3
    assert len(set(lines)) == 1
    assert lines[0].startswith("called") and lines[0].endswith("True")
    assert not file.exists()


@needs_sandbox
def test_foreign_words_cannot_steer_the_terminal() -> None:
    solution = Solution.model_validate(raw_solution(source="def run(x, w, out):\n    print('\\x1b[2Jgone')\n"))
    with stage.set_stage(solution, case_of(), Cpu(), sandbox="bwrap", timeout_s=60) as made:
        done = made.play(Tool(Path("/usr/bin/env"), ()), (), warmups=0, calls=1, env={})
    assert done.output == "\\x1b[2Jgone\n"


# profile


@needs_sandbox
def test_a_profile_shows_kernels_and_a_verdict_and_writes_no_trace(tools: Path, dataset: Path) -> None:
    fake(tools, "ncu", said.NCU, program=PLAYED)
    shown = profile(dataset)
    assert shown.exit_code == 0, shown.stderr
    assert "rmsnorm_kernel" in shown.stdout
    assert "memory-bound: it moves 134.22 MB in 42.0 us, 80% of the measured bandwidth" in shown.stdout.replace(
        "\n", " "
    )
    assert not (dataset / "traces").exists()
    assert list(Dataset.open(dataset).traces()) == []


@needs_sandbox
def test_a_profile_as_json_lines(tools: Path, dataset: Path) -> None:
    fake(tools, "ncu", said.NCU)
    *kernels, verdict = map(json.loads, profile(dataset, "--json").stdout.splitlines())
    assert [kernel["type"] for kernel in kernels] == ["kernel", "kernel"]
    first, second = kernels
    assert (first["seconds"], first["read_bytes"], first["registers"]) == (pytest.approx(40e-6), 67.11e6, 40)
    assert (first["grid"], first["bound"], second["bound"]) == ("(8192, 1, 1)", "memory-bound", "latency-bound")
    assert second["l2_hit_pct"] is None
    assert (verdict["type"], verdict["bound"], verdict["kernels"]) == ("verdict", "memory-bound", 2)


@needs_sandbox
def test_a_solution_that_raises_is_told_in_its_own_words(tools: Path, dataset: Path, tmp_path: Path) -> None:
    fake(tools, "ncu", "==ERROR== The application returned an error code (1).", 1, program='"$@"\n')
    mine = tmp_path / "mine.json"
    add(mine, raw_solution(source="def run(x, w, out):\n    raise ValueError('no such shape')\n"))
    shown = profile(dataset, named=str(mine))
    assert shown.exit_code == 1
    assert "did not play to its end under ncu: ValueError: no such shape" in shown.stderr


@needs_sandbox
def test_a_table_of_a_program_that_failed_afterwards_is_none(tools: Path, dataset: Path) -> None:
    fake(tools, "ncu", f"{said.NCU}\nRuntimeError: late", 1)
    assert (shown := profile(dataset)).exit_code == 1
    assert "RuntimeError: late" in shown.stderr


@needs_sandbox
@pytest.mark.parametrize(("output", "remedy"), said.REFUSALS, ids=lambda text: text[:30])
def test_unreadable_counters_are_explained(tools: Path, dataset: Path, output: str, remedy: str) -> None:
    fake(tools, "ncu", output, 1)
    shown = profile(dataset)
    assert shown.exit_code == 1
    assert shown.stdout == ""
    assert remedy in shown.stderr


def test_a_missing_tool_names_what_to_install(tools: Path, dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tools))
    shown = profile(dataset), sanitize(dataset)
    assert [result.exit_code for result in shown] == [1, 1]
    assert "ncu was not found" in shown[0].stderr and "install NVIDIA Nsight Compute" in shown[0].stderr
    assert "compute-sanitizer was not found" in shown[1].stderr


@pytest.mark.skipif(GPU, reason="this host has a GPU")
@pytest.mark.parametrize("command", ["profile", "sanitize"])
def test_without_a_gpu_there_is_nothing_to_look_into(dataset: Path, command: str) -> None:
    for device, words in (("cuda:0", "torch sees none here"), ("cpu", "--device cpu has nothing to show")):
        shown = kernelmill(command, "rmsnorm_torch", "--dataset", str(dataset), "--device", device)
        assert shown.exit_code == 1
        assert words in shown.stderr


def test_what_is_named_wrongly_is_a_usage_error(tools: Path, dataset: Path) -> None:
    fake(tools, "ncu", said.NCU)
    nobody = profile(dataset, named="rmsnorm_torhc")
    assert (nobody.exit_code, "did you mean rmsnorm_torch" in nobody.stderr) == (2, True)
    nowhere = kernelmill("profile", "rmsnorm_torch", "-w", "nope", "--dataset", str(dataset))
    assert (nowhere.exit_code, f"such as {UUID}" in nowhere.stderr) == (2, True)


@needs_sandbox
def test_a_solution_that_does_not_build_is_told(tools: Path, dataset: Path, tmp_path: Path) -> None:
    fake(tools, "ncu", said.NCU)
    mine = tmp_path / "mine.json"
    add(mine, raw_solution(source="def run(:\n"))
    shown = profile(dataset, named=str(mine))
    assert shown.exit_code == 1
    assert "does not build" in shown.stderr


# sanitize


@needs_sandbox
def test_a_clean_solution_is_clean_by_all_four(tools: Path, dataset: Path) -> None:
    fake(tools, "compute-sanitizer", said.CLEAN, program=PLAYED)
    shown = sanitize(dataset)
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.split("\n")[:4] == [f"{c}: clean" for c in ("memcheck", "racecheck", "initcheck", "synccheck")]
    assert not (dataset / "traces").exists()


@needs_sandbox
def test_findings_are_told_with_kernel_and_place(tools: Path, dataset: Path) -> None:
    fake(tools, "compute-sanitizer", said.MEMCHECK, 86)
    shown = sanitize(dataset, "--tool", "memcheck")
    assert shown.exit_code == 2
    assert "memcheck: error: Invalid __global__ write of size 4 bytes, 2 times" in shown.stdout
    assert "in scale_kernel(float *, int) at scale.cu:14" in shown.stdout
    found, report = map(json.loads, sanitize(dataset, "--tool", "memcheck", "--json").stdout.splitlines())
    assert (found["type"], found["checker"], found["times"]) == ("finding", "memcheck", 2)
    assert report == {"type": "report", "checker": "memcheck", "findings": 1, "problem": None}


@needs_sandbox
@pytest.mark.parametrize(("output", "remedy"), said.SANITIZER_REFUSALS, ids=lambda text: text[-40:])
def test_a_checker_that_cannot_look_says_why(tools: Path, dataset: Path, output: str, remedy: str) -> None:
    fake(tools, "compute-sanitizer", output, 255)
    shown = sanitize(dataset, "--tool", "racecheck")
    assert shown.exit_code == 1
    assert remedy in shown.stderr


@needs_sandbox
def test_a_deadline_ends_a_checker(tools: Path, dataset: Path) -> None:
    fake(tools, "compute-sanitizer", said.CLEAN, program="sleep 60\n")
    shown = sanitize(dataset, "--tool", "racecheck", "--timeout-s", "1")
    assert shown.exit_code == 1
    assert "did not end within 1 s" in shown.stderr


# On a GPU

SCALE = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

__global__ void scale_kernel(const float* x, float* out, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n + {beyond}) out[i] = x[i < n ? i : 0];
}}

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView out) {{
  int n = static_cast<int>(x.numel());
  const float* from = static_cast<const float*>(x.data_ptr());
  scale_kernel<<<(n + 1279) / 256, 256>>>(from, static_cast<float*>(out.data_ptr()), n);
}}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""


def cuda_solution(file: Path, beyond: int) -> str:
    spec = {"language": "cuda", "target_hardware": ["cuda"], "entry_point": "main.cu::run"}
    raw = raw_solution(spec=spec, sources=[{"path": "main.cu", "content": SCALE.format(beyond=beyond)}])
    add(file, raw)
    return str(file)


@pytest.fixture
def gpu() -> Iterator[None]:
    if not GPU:
        pytest.skip("no NVIDIA GPU here")
    if nvcc.missing():
        pytest.skip(f"no CUDA compiler here: {nvcc.missing()}")
    yield


@pytest.mark.gpu
@needs_sandbox
@pytest.mark.usefixtures("gpu")
def test_a_write_beyond_the_end_is_found_on_a_gpu(dataset: Path, tmp_path: Path) -> None:
    wrong = sanitize(dataset, "--tool", "memcheck", "--json", named=cuda_solution(tmp_path / "wrong.json", 8))
    if wrong.exit_code == 1:
        pytest.skip(f"compute-sanitizer does not work here: {wrong.stderr}")
    found = json.loads(wrong.stdout.splitlines()[0])
    assert (wrong.exit_code, found["kind"]) == (2, "Invalid __global__ write of size 4 bytes")
    assert "scale_kernel" in found["kernel"]
    right = sanitize(dataset, named=cuda_solution(tmp_path / "right.json", 0))
    assert right.exit_code == 0, right.stdout + right.stderr


@pytest.mark.gpu
@needs_sandbox
@pytest.mark.usefixtures("gpu")
def test_counters_are_read_on_a_gpu(dataset: Path, tmp_path: Path) -> None:
    shown = profile(dataset, "--json", named=cuda_solution(tmp_path / "right.json", 0))
    if shown.exit_code == 1:
        pytest.skip(f"counters cannot be read here: {shown.stderr}")
    kernel, verdict = map(json.loads, shown.stdout.splitlines())
    assert "scale_kernel" in kernel["name"]
    assert 0 < kernel["seconds"] < 1e-3
    assert verdict["bound"] == "latency-bound"
