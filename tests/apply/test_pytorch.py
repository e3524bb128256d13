"""torch's own functions, replaced while a runtime is in force: where they mean the same, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelmill.apply.calls import apply
from kernelmill.apply.engines import pytorch
from kernelmill.apply.engines.meaning import does
from kernelmill.apply.features import features_of
from kernelmill.apply.grid import Box
from kernelmill.apply.guard.events import Events
from kernelmill.apply.runtime import Candidate, Looks, Runtime
from kernelmill.apply.state import disable_apply, force
from kernelmill.dataset.catalogue import entries
from tests import builders
from tests.apply.kernels import NORM, Counted, norm_into

GEMM = builders.definition(
    name="gemm_n6_k8",
    op_type="gemm",
    axes={"M": {"type": "var"}, "N": {"type": "const", "value": 6}, "K": {"type": "const", "value": 8}},
    inputs={"A": {"shape": ["M", "K"], "dtype": "float32"}, "B": {"shape": ["N", "K"], "dtype": "float32"}},
    outputs={"C": {"shape": ["M", "N"], "dtype": "float32"}},
    reference="def run(A, B):\n    return A @ B.T\n",
)
RMS_NORM, LINEAR = F.rms_norm, F.linear


class Kernels:
    def __init__(self) -> None:
        self.norm = Counted(norm_into)
        self.gemm = Counted(lambda a, b, c: torch.mm(a, b.t(), out=c))


@pytest.fixture
def kernels() -> Iterator[Kernels]:
    made = Kernels()
    runtime = Runtime("cpu", Looks(0.0, 0), Events(None))
    for definition, kernel in ((NORM, made.norm), (GEMM, made.gemm)):
        runtime.serve(definition, features_of(definition), [Box((1,), (16,), 0)], [Candidate("k", "0", kernel)])
    pytorch.follow()
    with force(runtime), torch.no_grad():
        yield made


def test_rms_norm_and_linear_are_served_whatever_the_leading_axes(kernels: Kernels) -> None:
    x, weight, wide = torch.randn(2, 3, 8), torch.rand(8), torch.randn(6, 8)
    torch.testing.assert_close(F.rms_norm(x, (8,), weight, 1e-5), RMS_NORM(x, (8,), weight, 1e-5))
    torch.testing.assert_close(F.linear(x, wide), LINEAR(x, wide))
    torch.testing.assert_close(torch.nn.Linear(8, 6, bias=False)(x[0]).shape, torch.Size([3, 6]))
    assert (kernels.norm.calls, kernels.gemm.calls) == (1, 2)


def test_an_original_that_calls_torch_is_not_compared_with_the_kernel_itself() -> None:
    made = Runtime("cpu", Looks(1.0, 0), Events(None))
    wrong = Counted(lambda x, weight, out: out.zero_())
    made.serve(NORM, features_of(NORM), [Box((1,), (16,), 0)], [Candidate("k", "0", wrong)])
    pytorch.follow()
    x, weight = torch.randn(3, 8), torch.rand(8)
    with force(made), torch.no_grad():
        got = apply(NORM.name, (x, weight), None, lambda x, weight: F.rms_norm(x, (8,), weight, 1e-5))
    torch.testing.assert_close(got, RMS_NORM(x, (8,), weight, 1e-5))
    assert wrong.calls == 1


ASIDE: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "another epsilon": lambda x, w: F.rms_norm(x, (8,), w, 1e-6),
    "no epsilon": lambda x, w: F.rms_norm(x, (8,), w),
    "no weight": lambda x, w: F.rms_norm(x, (8,), None, 1e-5),
    "two normed axes": lambda x, w: F.rms_norm(x, (3, 8), w.expand(3, 8), 1e-5),
    "another width": lambda x, w: F.rms_norm(x[..., :4], (4,), w[:4], 1e-5),
    "another type": lambda x, w: F.rms_norm(x.double(), (8,), w.double(), 1e-5),
    "rows that are not contiguous": lambda x, w: F.rms_norm(x.transpose(0, 1), (8,), w, 1e-5),
    "more rows than are covered": lambda x, w: F.rms_norm(x.repeat(9, 1, 1), (8,), w, 1e-5),
    "a bias": lambda x, w: F.linear(x, torch.ones(6, 8), torch.ones(6)),
    "another weight's shape": lambda x, w: F.linear(x, torch.ones(8, 8)),
    "an input of another width": lambda x, w: F.linear(x.reshape(-1), torch.ones(6, 48)),
}


@pytest.mark.parametrize("case", ASIDE)
def test_what_differs_from_the_definition_is_the_originals(case: str, kernels: Kernels) -> None:
    x, weight = torch.randn(2, 3, 8), torch.rand(8)
    got = ASIDE[case](x, weight)
    with disable_apply():
        assert torch.equal(got, ASIDE[case](x, weight))
    assert (kernels.norm.calls, kernels.gemm.calls) == (0, 0)


def test_autocast_transforms_modes_and_tracers_are_left_alone(kernels: Kernels) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    x, wide = torch.randn(3, 8), torch.randn(6, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert F.linear(x, wide).dtype is torch.bfloat16
    torch.testing.assert_close(torch.vmap(lambda row: F.linear(row, wide))(x), LINEAR(x, wide))
    with FlopCounterMode(display=False) as counter:
        F.linear(x, wide)
    assert counter.get_total_flops() == 2 * 3 * 8 * 6
    with torch.enable_grad():
        x.requires_grad_()
        F.linear(x, wide).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert kernels.gemm.calls == 0


def test_off_restores_the_very_same_callables() -> None:
    pytorch.follow()
    runtime = Runtime("cpu", Looks(), Events(None))
    runtime.serve(NORM, features_of(NORM), [Box((1,), (4,), 0)], [Candidate("k", "0", norm_into)])
    assert F.rms_norm is RMS_NORM
    with force(runtime):
        assert F.rms_norm is not RMS_NORM
        with disable_apply():
            assert F.rms_norm is RMS_NORM
        assert F.rms_norm is not RMS_NORM
    assert F.rms_norm is RMS_NORM
    assert F.linear is LINEAR


def test_a_patch_that_somebody_put_over_ours_is_left_alone() -> None:
    from kernelmill.apply.engines.patches import Patches

    def one() -> int:
        return 1

    def two() -> int:
        return 2

    owner, patches = SimpleNamespace(call=one), Patches()
    patches.put(owner, "call", two)
    owner.call = three = lambda: 3
    patches.undo()
    assert owner.call is three
    patches.put(owner, "call", two)
    patches.undo()
    assert owner.call is three


def test_no_shipped_norm_is_taken_for_another() -> None:
    """Gemma's has the shapes and the epsilon of the plain one."""
    norms = [one.definition for one in entries().values() if one.definition.op_type == "rmsnorm"]
    plain, gemma = ({one.name for one in norms if does(one, f"{kind}rmsnorm")} for kind in ("", "gemma_"))
    assert plain and gemma
    assert not plain & gemma
    assert all("gemma" not in name for name in plain)
