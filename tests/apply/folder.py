"""A dataset folder with judged kernels, as if this machine had measured them, and an operator's folder made of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kernelmill.apply.approval.keys import make_keys
from kernelmill.apply.build import Made, Wish, build
from kernelmill.apply.host import Host, this_host
from kernelmill.dataset import Dataset
from kernelmill.trace_schema import Definition, Solution, Trace, Workload
from tests import builders
from tests.apply.kernels import HIDDEN, NORM
from tests.evaluator.records import a_trace

SOURCE = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
#include <cmath>

static int64_t ticks = 0;

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView out) {
  ++ticks;
  const int64_t rows = x.size(0), columns = x.size(1);
  const float* in = static_cast<const float*>(x.data_ptr());
  const float* scales = static_cast<const float*>(weight.data_ptr());
  float* to = static_cast<float*>(out.data_ptr());
  for (int64_t row = 0; row < rows; ++row, in += columns, to += columns) {
    float squares = 0.0f;
    for (int64_t i = 0; i < columns; ++i) squares += in[i] * in[i];
    const float scale = 1.0f / std::sqrt(squares / columns + 1e-5f);
    for (int64_t i = 0; i < columns; ++i) to[i] = in[i] * scale * scales[i];
  }
}

int64_t count() { return ticks; }

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(count, count);
"""
BASELINE = builders.solution(name="torch_norm", author="baseline")
MEASURED = (1, 2, 4, 8, 16)


def cpp(name: str = "cpp_norm", source: str = SOURCE, definition: Definition = NORM, **over: Any) -> Solution:
    spec = {"language": "cpp", "entry_point": "main.cpp::run", "binding": "tvm-ffi"}
    sources = [{"path": "main.cpp", "content": source}]
    return builders.solution(name=name, definition=definition.name, spec=spec, sources=sources, **over)


@cache
def host() -> Host:
    return this_host("cpu")


def workload(rows: int) -> Workload:
    uuid = f"00000000-0000-4000-8000-{rows:012}"
    return builders.workload(uuid=uuid, axes={"batch_size": rows})


def judged(
    solution: Solution, rows: int, ratio: float | None, environment: Mapping[str, Any] | None = None, **over: Any
) -> Trace:
    """A trace with this machine's own names and versions, unless `environment` says otherwise."""
    trace = a_trace(solution, workload(rows), ratio, definition=NORM, baseline=BASELINE, device=host().model, **over)
    raw = builders.plain(trace)
    raw["evaluation"]["environment"] |= {
        "libs": dict(host().libs),
        "device": {"name": host().model, "arch": host().arch, "count": 1},
        **(environment or {}),
    }
    return Trace.model_validate(raw)


def dataset(root: Path, *solutions: Solution, traces: list[Trace] | None = None) -> Dataset:
    """NORM with workloads of MEASURED rows; without `traces` each solution is twice as fast everywhere."""
    root.mkdir(parents=True, exist_ok=True)
    made = Dataset.open(root, cache_dir=root.parent / f"{root.name}-cache")
    made.add_definition(NORM)
    for rows in MEASURED:
        made.append(Trace(definition=NORM.name, workload=workload(rows)))
    for solution in (BASELINE, *solutions):
        made.add_solution(solution)
    for trace in traces if traces is not None else [judged(s, rows, 2.0) for s in solutions for rows in MEASURED]:
        made.append(trace)
    return made


def built(root: Path, *solutions: Solution, wish: Wish | None = None, traces: list[Trace] | None = None) -> Made:
    return build(dataset(root, *solutions, traces=traces), host(), wish or Wish())


def operators_folder(root: Path, *solutions: Solution, traces: list[Trace] | None = None) -> Path:
    """Table and keys; nothing is approved yet."""
    made = built(root / "dataset", *solutions, traces=traces)
    home = root / "home"
    made.write(home)
    make_keys(home)
    return home


__all__ = ["BASELINE", "HIDDEN", "MEASURED", "NORM", "built", "cpp", "dataset", "host", "judged", "operators_folder"]
