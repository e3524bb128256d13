"""Near-clones: what a copy can't hide behind, and who is not called one."""

from __future__ import annotations

import re
import time
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelmill.dataset.catalogue.pack import SHARED, solutions
from kernelmill.leaderboard.likeness import LEAST, NEAR, fingerprint, likeness
from kernelmill.trace_schema import Solution
from tests.builders import solution
from tests.dataset.folder import run_python
from tests.leaderboard.disguises import DISGUISES, FILLER, changed

SHIPPED = {one.name: one for one in solutions()}
PRINTS = {name: fingerprint(one) for name, one in SHIPPED.items()}
LONG = [name for name, found in PRINTS.items() if len(found) >= LEAST]

MADE_FROM = {
    # torch.compile for many rows, and for few the very function that torch_eager is.
    ("torch_compile_rmsnorm_h4096", "torch_eager_rmsnorm_h4096"),
    ("torch_compile_fused_add_rmsnorm_h4096", "torch_eager_fused_add_rmsnorm_h4096"),
    # The function for many rows alone.
    ("inductor_fused_add_rmsnorm_h4096", "torch_compile_fused_add_rmsnorm_h4096"),
    # The same two passes over a vocabulary that thirty-two divides, and over any.
    ("triton_log_softmax_v128256", "triton_split_log_softmax_v128256"),
}
"""Shipped solutions of one definition of which one really is a part of the other."""

TOTAL = """
float total(const float* row, int count) {
  float sum = 0.0f;
  for (int at = 0; at < count; ++at) {
    sum += SQUARE(row[at]);
  }
  return sum;
}
"""
SCALE = """
void scale(float* row, int count, float by) {
  for (int at = 0; at < count; ++at) row[at] = row[at] * by + row[at] / (by + 1.0f);
  if (count > 7 && row[0] != row[count - 1]) row[count / 2] -= by;
}
"""
RUN = """
void run(const float* x, float* y, int rows, int count) {
  for (int row = 0; row < rows; ++row) {
    const float mean = total(x + row * count, count) / count;
    scale(y + row * count, count, 1.0f / std::sqrt(mean + 1e-5f));
  }
}
"""
HEAD = "#include <cmath>\n#define SQUARE(x) ((x) * (x))\n"
NATIVE = f"{HEAD}\nnamespace {{\n{TOTAL}{SCALE}\n}}  // namespace\n{RUN}"
PYTHON = '''\
import torch

EPSILON = 1e-5


def mean_of_squares(rows, count):
    """One number a row."""
    total = rows.new_zeros(rows.shape[0])
    for at in range(count):
        total += rows[:, at] * rows[:, at]  # in place
    return total / count


@torch.no_grad()
@torch.compile
def run(x, weight, y):
    scale = 1.0 / torch.sqrt(mean_of_squares(x, x.shape[1]) + EPSILON)
    text = "a text" if x.shape[0] > 3 else "another"
    y[:] = x * scale[:, None] * weight
    return {"scale": scale, "text": [text, f"{scale} and {text}"]}
'''


NATIVE_PINNED = (51, -9198917877720763597, 3501969293537153385)
PYTHON_PINNED = (39, -8949335154113801219, 2126358866330169641)


def native(content: str, path: str = "kernel.cpp", **over: object) -> Solution:
    spec = {"language": "cpp", "entry_point": f"{path}::run"}
    return solution(spec=spec, sources=[{"path": path, "content": content}], **over)


def python(content: str) -> Solution:
    return solution(source=content)


def alike(one: Solution, other: Solution) -> float:
    return likeness(fingerprint(one), fingerprint(other))


@pytest.mark.parametrize("name", DISGUISES)
def test_a_disguised_copy_of_any_shipped_solution_is_found(name: str) -> None:
    for original in LONG:
        copy = DISGUISES[name](SHIPPED[original])
        assert copy.hash() != SHIPPED[original].hash() or copy.spec.language.is_native
        assert likeness(PRINTS[original], fingerprint(copy)) >= NEAR, original


def test_shipped_solutions_that_were_written_apart_are_no_clones() -> None:
    pairs = [
        (one, other)
        for one, other in combinations(sorted(SHIPPED), 2)
        if SHIPPED[one].definition == SHIPPED[other].definition
    ]
    assert len(pairs) > 100
    assert {pair for pair in pairs if likeness(PRINTS[pair[0]], PRINTS[pair[1]]) >= NEAR} == MADE_FROM


def test_what_everybody_may_use_is_taken_away_first() -> None:
    """Shipped C++ kernels of unlike definitions share a header that is longer than some of them."""
    one, other = PRINTS["cpp_simd_rmsnorm_h4096"], PRINTS["cpp_simd_log_softmax_v128256"]
    header = fingerprint(native((SHARED / "simd.h").read_text(), path="simd.h"))
    assert likeness(one, other) >= NEAR
    assert likeness(one, other, common=header) < NEAR


def test_definitions_that_are_nearly_one_have_kernels_that_are() -> None:
    """Why solutions are compared within one definition: silu and gelu differ by a formula."""
    gelu, silu = PRINTS["cpp_simd_gelu_tanh_and_mul_i21504"], PRINTS["cpp_simd_silu_and_mul_i14336"]
    assert likeness(gelu, silu) >= NEAR


@pytest.mark.parametrize(
    "copy",
    [
        pytest.param(NATIVE.replace("row", "line").replace("count", "n"), id="other names"),
        pytest.param(NATIVE.replace("1e-5f", "2e-6f").replace("0.0f", "0"), id="other literals"),
        pytest.param(NATIVE.replace("{\n    sum += SQUARE(row[at]);\n  }", "sum += SQUARE(row[at]);"), id="no braces"),
        pytest.param(NATIVE.replace("const ", "").replace("int at", "auto at"), id="other types"),
        pytest.param(NATIVE.replace("namespace {", "").replace("}  // namespace", ""), id="no namespace"),
        pytest.param(NATIVE.replace("namespace {", 'extern "C" {'), id="another namespace"),
        pytest.param(
            NATIVE.replace("#include <cmath>", "#pragma once\n#include <math.h>\n#if 0\nno\n#endif"), id="heads"
        ),
    ],
)
def test_native_code_is_the_same_with(copy: str) -> None:
    assert fingerprint(native(copy)) == fingerprint(native(NATIVE))


@pytest.mark.parametrize(
    "copy",
    [
        pytest.param(
            PYTHON.replace("total", "t").replace("scale", "s").replace("new_zeros", "zeros"), id="other names"
        ),
        pytest.param(PYTHON.replace("1e-5", "2").replace("a text", "b").replace("3", "0x1F"), id="other literals"),
        pytest.param(PYTHON.replace('"""One number a row."""', "'Note.'"), id="another docstring"),
        pytest.param(PYTHON.replace('    """One number a row."""\n', ""), id="no docstring"),
        pytest.param(PYTHON.replace("(x, weight, y)", "(\n    x,\n    weight,\n    y,\n)"), id="a list a line"),
        pytest.param(
            PYTHON.replace("import torch", "import math, os\nfrom torch import nn\nimport torch"), id="imports"
        ),
        pytest.param(PYTHON.replace("count\n\n", "count;\n\n"), id="semicolons"),
    ],
)
def test_python_is_the_same_with(copy: str) -> None:
    assert copy != PYTHON
    assert fingerprint(python(copy)) == fingerprint(python(PYTHON))


def test_the_order_of_functions_and_the_cut_into_files_change_nothing() -> None:
    expected = fingerprint(native(NATIVE))
    assert fingerprint(native(HEAD + RUN + SCALE + TOTAL)) == expected
    files = [{"path": "z.h", "content": HEAD + TOTAL}, {"path": "a.inc", "content": SCALE}]
    spec = {"language": "cuda", "entry_point": "kernel.cu::run"}
    cut = solution(spec=spec, sources=[*files, {"path": "kernel.cu", "content": RUN}])
    assert fingerprint(cut) == expected
    one, other, third = PYTHON.split("\n\n\n")
    assert fingerprint(python("\n".join([third, other, one]))) == fingerprint(python(PYTHON))


def test_a_kernel_that_python_holds_as_a_text_is_read_as_code() -> None:
    def holding(text: str) -> Solution:
        return python(f'SOURCE = r"""{text}"""\n\n\ndef run(x, y):\n    build(SOURCE).run(x, y)\n')

    assert set(fingerprint(native(NATIVE))) <= set(fingerprint(holding(NATIVE)))
    assert not set(fingerprint(native(NATIVE))) & set(fingerprint(holding("\nnothing\n")))


@pytest.mark.parametrize(
    ("before", "after"),
    [("+= SQUARE", "-= SQUARE"), ("if (count", "while (count"), ("total(x", "total(y, x"), ("&& row", "|| row")],
)
def test_what_code_does_is_not_taken_away(before: str, after: str) -> None:
    assert before in NATIVE
    assert fingerprint(native(NATIVE.replace(before, after))) != fingerprint(native(NATIVE))


def test_a_copy_that_was_worked_on_is_less_alike_the_more_was_done() -> None:
    name = "cpp_simd_moe_softmax_routing_e128_topk8"
    lines = SHIPPED[name].files["kernel.cpp"].splitlines()

    def with_every(step: int) -> float:
        text = "\n".join(line + ("\nvoid(0); " if at % step == 0 else "") for at, line in enumerate(lines))
        return likeness(PRINTS[name], fingerprint(changed(SHIPPED[name], lambda _: text)))

    assert with_every(40) > with_every(10) > with_every(2)


def test_a_call_of_one_library_function_is_nobodys() -> None:
    """Everybody who calls it writes the same lines."""
    assert 0 < len(PRINTS["cublas_gemm_bf16_n4096_k4096"]) < LEAST
    assert likeness(PRINTS["cublas_gemm_bf16_n4096_k4096"], PRINTS["cublas_gemm_bf16_n4096_k4096"]) == 0.0
    assert likeness([], []) == 0.0


def test_likeness_is_a_share_of_the_smaller_one() -> None:
    small, large = range(LEAST), range(LEAST // 2, 10 * LEAST)
    assert likeness(small, large) == likeness(large, small) == 0.5
    assert likeness(small, small) == 1.0
    assert likeness(small, large, common=range(2)) == 0.0, "too little is left"


NATIVE_TOKEN = re.compile(r"(\s*)(\d(?:e-|[\w.])*|\w+|[-+*/=!<>&|:]+|[^\s\w])")
NATIVE_GAPS = ["", " ", "\n", "\t\t", "\r\n", "/* a; } */", " // b { (\n", "\n\n \n", "/**\n * c\n */", " \\\n "]
PYTHON_GAPS = ["", " ", "\t", "   ", " \\\n  "]
PYTHON_TOKEN = re.compile(r'(\s*)(f?"[^"]*"|\d[\w.-]*|\w+|[-+*/=!<>:]+|[^\s\w])')
PYTHON_ENDS = ["", "  # a", "  ", "\n\n", "\n# b (", "\n            # c", "\n\t \n", "\r"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_blanks_and_comments_never_change_a_native_fingerprint(data: st.DataObject) -> None:
    code = TOTAL + SCALE + RUN
    gaps = data.draw(st.lists(st.sampled_from(NATIVE_GAPS), min_size=400, max_size=400))
    text = "".join(blank + gap + token for (blank, token), gap in zip(NATIVE_TOKEN.findall(code), gaps, strict=False))
    assert fingerprint(native(text)) == fingerprint(native(code))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_blanks_and_comments_never_change_a_python_fingerprint(data: st.DataObject) -> None:
    code = PYTHON.replace('    """One number a row."""\n', "").replace("  # in place", "")
    gaps = iter(data.draw(st.lists(st.sampled_from(PYTHON_GAPS), min_size=400, max_size=400)))
    text = ""
    for line in code.splitlines():
        text += line[: len(line) - len(line.lstrip())]
        tokens = PYTHON_TOKEN.findall(line.strip())
        text += "".join(blank + (next(gaps) if at else "") + token for at, (blank, token) in enumerate(tokens))
        text += data.draw(st.sampled_from(PYTHON_ENDS)) + "\n"
    assert fingerprint(python(text)) == fingerprint(python(PYTHON))


@pytest.mark.parametrize("seed", ["1", "2"])
def test_every_process_finds_the_same_numbers(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    done = run_python(
        "from tests.leaderboard.test_likeness import NATIVE, PYTHON, fingerprint, native, python;"
        "print([fingerprint(native(NATIVE)), fingerprint(python(PYTHON))])"
    )
    assert done.stdout == f"{[fingerprint(native(NATIVE)), fingerprint(python(PYTHON))]}\n", done.stderr


def test_fingerprints_are_what_they_were_when_they_were_stored() -> None:
    """Where this fails, the normal form has changed: change FORM too, so that what is stored matches nothing."""
    for made, pinned in ((native(NATIVE), NATIVE_PINNED), (python(PYTHON), PYTHON_PINNED)):
        found = fingerprint(made)
        assert found == sorted(set(found))
        assert all(-(2**63) <= each < 2**63 for each in found), "a BIGINT holds them"
        assert (len(found), found[0], found[-1]) == pinned


@pytest.mark.parametrize("language", ["python", "cpp"])
@pytest.mark.parametrize(
    "bit",
    [FILLER, TOTAL, "a ", " \n", "\n", 'R"a(', "a a({", "/*", "'''x\n", "#\n", " #a\n", "\\", "{", "const ", "\t\v\n"],
)
def test_a_megabyte_takes_well_under_a_second(bit: str, language: str) -> None:
    """Whatever it holds: what lexers take quadratic time over is kept from them."""
    path = "main.py" if language == "python" else "kernel.cpp"
    spec = {"language": language, "entry_point": f"{path}::run"}
    large = solution(spec=spec, sources=[{"path": path, "content": bit * ((1 << 20) // len(bit))}])
    start = time.process_time()
    fingerprint(large)
    assert time.process_time() - start < 2.0, "measured: at most half a second"


def test_one_padded_file_does_not_hide_the_others() -> None:
    padding = {"path": "a.h", "content": TOTAL * 50_000}
    spec = {"language": "cpp", "entry_point": "kernel.cpp::run"}
    padded = solution(spec=spec, sources=[padding, {"path": "kernel.cpp", "content": NATIVE}])
    assert set(fingerprint(native(NATIVE))) <= set(fingerprint(padded))
