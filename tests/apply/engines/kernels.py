"""float32 kernels in C++ for a tiny model, some of them wrong on purpose from a size on, as an operator's folder."""

from __future__ import annotations

from pathlib import Path

from kernelmill.apply.approval.approve import approve
from kernelmill.apply.approval.keys import make_keys
from kernelmill.apply.features import features_of
from kernelmill.apply.host import this_host
from kernelmill.apply.table import TABLE, VERIFIED, Entry, Range, Table, Verifications, Verified, write
from kernelmill.dataset import Dataset
from kernelmill.trace_schema import Definition, Solution
from tests import builders

WIDTH, INNER, HEAD_SIZE = 256, 512, 64
HEADERS = ("tvm/ffi/container/tensor.h", "tvm/ffi/error.h", "tvm/ffi/function.h", "cmath")
HEAD = "".join(f"#include <{name}>\n" for name in HEADERS)
VIEW = "tvm::ffi::TensorView"
NORM = """
  const int64_t rows = x.size(0), columns = x.size(1);
  const float *a = (const float*)x.data_ptr(), *w = (const float*)weight.data_ptr();
  float* o = (float*)out.data_ptr();
  for (int64_t r = 0; r < rows; ++r) {
    float squares = 0.0f;
    for (int64_t i = r * columns; i < (r + 1) * columns; ++i) { float v = VALUE; squares += v * v; }
    const float scale = 1.0f / std::sqrt(squares / columns + 1e-5f);
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t at = r * columns + i;
      const float v = VALUE_AT;
      o[at] = v * scale * w[i];
    }
  }
"""
PLAIN = NORM.replace("VALUE_AT", "a[at]").replace("VALUE", "a[i]")
ADDED = "  const float* b = (const float*)residual.data_ptr();" + NORM.replace("VALUE_AT", "a[at] + b[at]").replace(
    "VALUE", "a[i] + b[i]"
)
GATE = """
  const int64_t rows = x.size(0), half = x.size(1) / 2;
  const float* a = (const float*)x.data_ptr();
  float* o = (float*)out.data_ptr();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < half; ++i) {
      const float g = a[r * 2 * half + i], u = a[r * 2 * half + half + i];
      o[r * half + i] = g / (1.0f + std::exp(-g)) * u;
    }
"""
GEMM = """
  const int64_t rows = x.size(0), inner = x.size(1), columns = weight.size(0);
  const float *a = (const float*)x.data_ptr(), *w = (const float*)weight.data_ptr();
  float* o = (float*)out.data_ptr();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      float sum = 0.0f;
      for (int64_t i = 0; i < inner; ++i) sum += a[r * inner + i] * w[c * inner + i];
      o[r * columns + c] = sum;
    }
"""
CALM_ROWS, MOST_ROWS = 20, 64
"""Up to the first all kernels are right; between them some are not; beyond the second they serve nothing."""
FAULTS = {
    "rmsnorm_f32": 'TVM_FFI_THROW(RuntimeError) << "on purpose";',
    "silu_and_mul_f32": "((float*)out.data_ptr())[0] = NAN;",
    "gemm_f32_n256_k256": "((float*)out.data_ptr())[0] += 3.0f;",
}
CAUSES = {"rmsnorm_f32": "exception", "silu_and_mul_f32": "non_finite", "gemm_f32_n256_k256": "mismatch"}


REFERENCES = {
    "rmsnorm": "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * weight",
    "fused_add_rmsnorm": "(s := x + residual) * torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + EPSILON) * weight",
    "silu_and_mul": "torch.nn.functional.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]",
    "gemm": "x @ weight.T",
}


def _definition(name: str, op_type: str, axes: dict[str, int], inputs: dict[str, str], output: str) -> Definition:
    """`inputs` and `output` give axis names with commas; rows are variable."""
    result = REFERENCES[name.partition("_f32")[0]]
    declared = {"rows": {"type": "var"}} | {axis: {"type": "const", "value": size} for axis, size in axes.items()}
    return builders.definition(
        name=name,
        op_type=op_type,
        axes=declared,
        inputs={key: {"shape": shape.split(), "dtype": "float32"} for key, shape in inputs.items()},
        outputs={"out": {"shape": output.split(), "dtype": "float32"}},
        reference=f"import torch\n\nEPSILON = 1e-5\n\n\ndef run({', '.join(inputs)}):\n    return {result}\n",
    )


def kernels() -> list[tuple[Definition, str]]:
    """Each definition with its C++ body."""
    width, half = {"h": WIDTH}, {"wide": 2 * INNER, "half": INNER}
    made = [
        (_definition("rmsnorm_f32", "rmsnorm", width, {"x": "rows h", "weight": "h"}, "rows h"), PLAIN),
        (_definition("rmsnorm_f32_head", "rmsnorm", {"h": HEAD_SIZE}, {"x": "rows h", "weight": "h"}, "rows h"), PLAIN),
        (
            _definition(
                "fused_add_rmsnorm_f32",
                "rmsnorm",
                width,
                {"x": "rows h", "residual": "rows h", "weight": "h"},
                "rows h",
            ),
            ADDED,
        ),
        (_definition("silu_and_mul_f32", "activation", half, {"x": "rows wide"}, "rows half"), GATE),
    ]
    for n, k in ((WIDTH, WIDTH), (WIDTH, INNER)):
        axes = {"N": n, "K": k}
        name = f"gemm_f32_n{n}_k{k}"
        made.append((_definition(name, "gemm", axes, {"x": "rows K", "weight": "N K"}, "rows N"), GEMM))
    return made


def operators_folder(root: Path) -> Path:
    """All kernels approved and in force for two ranges of rows, the calm one and the one with faults."""
    host, entries, verified = this_host("cpu"), list[Entry](), list[Verified]()
    make_keys(root)
    for definition, body in kernels():
        fault = f"  if (rows > {CALM_ROWS}) {{ {FAULTS[definition.name]} }}\n" if definition.name in FAULTS else ""
        solution = _solution(definition, body + fault)
        write(root / "definitions" / f"{definition.name}.json", definition)
        write(root / "solutions" / f"{solution.hash()}.json", solution)
        ranges = tuple(_range(solution, ends) for ends in ((1, CALM_ROWS), (CALM_ROWS + 1, MOST_ROWS)))
        entries.append(
            Entry(
                definition=definition.name,
                definition_hash=definition.hash(),
                op_type=definition.op_type,
                features=tuple(map(str, features_of(definition))),
                incumbent="native",
                ranges=ranges,
            )
        )
        verified += [
            Verified(
                solution_hash=solution.hash(),
                definition_hash=definition.hash(),
                lo=found.lo,
                hi=found.hi,
                sizes=(1,),
                device_model=host.model,
                fingerprint=host.fingerprint,
                at="2026-01-01",
            )
            for found in ranges
        ]
    table = Table(
        made_at="2026-01-01",
        source="tests",
        device_model=host.model,
        arch=host.arch,
        libs="any",
        fingerprint=host.fingerprint,
        margin=1.0,
        entries=tuple(entries),
    )
    write(root / TABLE, table)
    write(root / VERIFIED, Verifications(ranges=tuple(verified)))
    for entry in entries:
        approve(root, entry.ranges[0].solution_hash)
    return root


def dataset_folder(root: Path) -> Path:
    """The definitions, each with its right kernel for a baseline."""
    root.mkdir(parents=True)
    made = Dataset.open(root)
    for definition, body in kernels():
        made.add_definition(definition)
        made.add_solution(_solution(definition, body).model_copy(update={"author": "baseline"}))
    return root


def _range(solution: Solution, ends: tuple[int, int]) -> Range:
    lo, hi = ends
    return Range(
        solution=solution.name,
        solution_hash=solution.hash(),
        lo=(lo,),
        hi=(hi,),
        points=((lo,), (hi,)),
        lower=1.1,
        speedup=1.2,
    )


def _solution(definition: Definition, body: str) -> Solution:
    arguments = ", ".join(f"{VIEW} {name}" for name in (*definition.inputs, "out"))
    source = f"{HEAD}void run({arguments}) {{{body}}}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n"
    return builders.solution(
        name=f"cpp_{definition.name}",
        definition=definition.name,
        spec={"language": "cpp", "entry_point": "main.cpp::run", "binding": "tvm-ffi"},
        sources=[{"path": "main.cpp", "content": source}],
    )
