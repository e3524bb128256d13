"""Every point of a template's space is a whole solution; host code is judged for real, GPU code at least compiled."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest

from kernelmill.agents.templates.families import FAMILIES, LANGUAGES, spaces
from kernelmill.agents.templates.space import GPU, Space, cpu
from kernelmill.evaluator import JudgeOptions, evaluate
from kernelmill.evaluator.sandbox import probe
from kernelmill.trace_schema import Language, Trace, Verdict
from kernelmill.trace_schema.errors import InternalError
from tests.agents.shipped import definitions, shipped

QUICK = JudgeOptions(sessions=1, warmups=1, pairs=4, pairs_min=4, seconds=0.1, verified=2, timeout_s=120)
ONE_EACH = (
    "fused_add_rmsnorm_h4096",
    "silu_and_mul_i14336",
    "gemm_bf16_n4096_k4096",
    "gqa_paged_decode_h32_kv8_d128_ps1",
    "log_softmax_v128256",
    "rope_with_cos_sin_cache_neox_style_d128_rd128",
    "top_p_sampling_from_probs_v128256",
)
no_sandbox = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")


def every(kind: str, language: Language, names: tuple[str, ...] = ()) -> list[Space]:
    found: list[Space] = []
    for definition in shipped().definitions.values():
        if not names or definition.name in names:
            found += [space for space in spaces(definition, kind) if space.language is language]
    return found


SAMPLE = (
    *ONE_EACH,
    "rmsnorm_h4096",
    "rmsnorm_h1536",
    "fused_add_rmsnorm_h7168",
    "gelu_tanh_and_mul_i10752",
    "log_softmax_v262208",
)
"""One of each family, and the sizes that leave the fewest choices."""
ALL = [
    space for kind, languages in LANGUAGES.items() for language in languages for space in every(kind, language, SAMPLE)
]


def titled(space: Space) -> str:
    return f"{space.definition.name}-{space.language.value}"


def judged(space: Space, places: list[int]) -> list[Trace]:
    points = list(space.points())
    dataset = shipped()
    workload = min(dataset.workloads(space.definition), key=lambda one: sum(one.axes.values()))
    solutions = [space.render(points[place]) for place in places]
    return list(evaluate(space.definition, solutions, [workload], dataset=dataset, options=QUICK))


def test_every_family_is_there_in_three_languages() -> None:
    found = {(space.family, space.language) for space in ALL}
    assert found == {(name, language) for name in FAMILIES for language in (*LANGUAGES["cpu"], *LANGUAGES["cuda"])}


@pytest.mark.parametrize("space", ALL, ids=titled)
def test_every_legal_point_renders_to_a_solution_of_its_own(space: Space) -> None:
    solutions = [space.render(params) for params in space.points()]
    assert 1 < len(solutions) <= space.size
    assert len({one.hash() for one in solutions}) == len({one.name for one in solutions}) == len(solutions)


@pytest.mark.parametrize("space", ALL, ids=titled)
def test_estimates_are_positive_and_tell_points_apart(space: Space) -> None:
    hardware = cpu(2) if space.language is Language.CPP else GPU
    sizes = [space.definition.resolve_axes(one.axes) for one in shipped().workloads(space.definition)]
    costs = {sum(space.cost(axes, params, hardware) for axes in sizes) for params in space.points()}
    assert min(costs) > 0 and len(costs) > 1


def test_a_size_that_leaves_no_point_has_no_space() -> None:
    (definition,) = definitions("silu_and_mul_i128")
    assert spaces(definition, "cpu") == []


def test_gemma_s_norm_is_no_row_norm() -> None:
    """Its weight counts from one, and its shapes are those of the plain norm."""
    (definition,) = definitions("gemma_rmsnorm_h5376")
    assert spaces(definition, "cpu") == []


def test_what_is_illegal_is_refused_by_name() -> None:
    (space,) = every("cuda", Language.CUDA, ("rmsnorm_h4096",))
    assert space.refusal({"threads": 1024, "vector": 8, "rows": 1}) == "the row is whole vectors of all threads"
    assert space.refusal({"threads": 100, "vector": 8, "rows": 1}) == "threads is one of 128, 256, 512, 1024"
    assert space.refusal({"threads": 128}) == "parameters are threads, vector, rows"
    with pytest.raises(InternalError, match="not legal"):
        space.render({"threads": 1024, "vector": 8, "rows": 1})


@pytest.mark.parametrize("space", ALL, ids=titled)
def test_neighbours_are_one_legal_step_away(space: Space) -> None:
    for params in list(space.points())[:5]:
        for other in space.neighbours(params):
            assert space.refusal(other) is None
            assert sum(other[name] != params[name] for name in params) == 1


@no_sandbox
@pytest.mark.parametrize("space", every("cpu", Language.CPP, ONE_EACH[1:]), ids=titled)
def test_host_code_is_right(space: Space) -> None:
    found = judged(space, [0, -1])
    told = [(one.evaluation.verdict, one.evaluation.reason) for one in found if one.evaluation]
    assert [verdict for verdict, _ in told] == [Verdict.PASSED] * 2, told


@no_sandbox
@pytest.mark.parametrize("space", every("cuda", Language.TRITON, ("log_softmax_v128256", "rmsnorm_h4096")), ids=titled)
def test_triton_is_right_under_its_interpreter(space: Space) -> None:
    """Products of bfloat16 are beyond the interpreter, so only families without them are judged so."""
    pytest.importorskip("triton", reason="triton is not installed")
    found = judged(space, [len(list(space.points())) // 2])
    assert [one.evaluation.verdict for one in found if one.evaluation] == [Verdict.PASSED]


@pytest.mark.parametrize("space", every("cuda", Language.TRITON, SAMPLE), ids=titled)
def test_triton_has_a_function_with_the_call_s_arguments(space: Space) -> None:
    for params in space.points():
        tree = ast.parse(space.render(params).sources[0].content)
        (run,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run"]
        assert [each.arg for each in run.args.args] == [*space.definition.inputs, *space.definition.outputs]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("space", every("cuda", Language.CUDA, ONE_EACH), ids=titled)
def test_cuda_compiles(space: Space, tmp_path: Path) -> None:
    import tvm_ffi

    (tmp_path / "main.cu").write_text(space.render(list(space.points())[-1]).sources[0].content)
    include = Path(tvm_ffi.__file__).parent / "include"
    flags = ("--ptx", "-std=c++17", "--expt-relaxed-constexpr", "-arch=sm_90", "-isystem", str(include))
    done = subprocess.run(["nvcc", *flags, "main.cu"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
