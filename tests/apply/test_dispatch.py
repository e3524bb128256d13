"""Which kernel a call gets: by sizes, types and layout; in every form of call; on and off again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from kernelmill.apply import NoFallback, apply, disable_apply
from kernelmill.apply.errors import ApplyError
from kernelmill.apply.grid import Box
from kernelmill.apply.state import current, force
from tests import builders
from tests.apply.kernels import HIDDEN, INPLACE, NORM, Counted, add_norm, inputs, norm, norm_into, runtime

Arguments = tuple[torch.Tensor, ...]


def test_a_covered_call_runs_the_kernel_and_not_the_fallback() -> None:
    kernel, own = Counted(norm_into), Counted(norm)
    x, weight = inputs()
    with force(runtime(kernel)):
        got = apply(NORM.name, args=(x, weight), fallback=own)
    assert (kernel.calls, own.calls) == (1, 0)
    torch.testing.assert_close(got, norm(x, weight))


def test_given_outputs_are_written_and_nothing_is_returned() -> None:
    x, weight = inputs()
    output = torch.full_like(x, torch.nan)
    with force(runtime()):
        assert apply(NORM.name, args=(x, weight, output), fallback=norm_into) is None
    torch.testing.assert_close(output, norm(x, weight))


def test_a_value_returning_kernel_serves_both_forms_too() -> None:
    x, weight = inputs()
    output = torch.empty_like(x)
    with force(runtime(norm, destination_passing=False)):
        returned = apply(NORM.name, args=(x, weight), fallback=norm)
        apply(NORM.name, args=(x, weight, output), fallback=norm_into)
    assert torch.equal(returned, output)


def test_keyword_arguments_find_their_places_and_reach_the_fallback_as_they_came() -> None:
    kernel, (x, weight) = Counted(norm_into), inputs()
    seen: list[dict[str, torch.Tensor]] = []

    def own(**kwargs: torch.Tensor) -> torch.Tensor:
        seen.append(kwargs)
        return norm(**kwargs)

    with force(runtime(kernel)):
        got = apply(NORM.name, kwargs={"weight": weight, "hidden_states": x}, fallback=own)
        mixed = apply(NORM.name, args=(x,), kwargs={"weight": weight}, fallback=own)
        apply(NORM.name, kwargs={"weight": weight, "hidden_states": x.double()}, fallback=lambda **kw: seen.append(kw))
    assert kernel.calls == 2
    assert torch.equal(got, mixed)
    assert [list(one) for one in seen] == [["weight", "hidden_states"]]


def test_a_decorated_function_is_served_by_name_or_by_resolver() -> None:
    kernel, (x, weight) = Counted(norm_into), inputs()

    @apply(NORM.name)
    def named(hidden_states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return norm(hidden_states, weight)

    @apply(lambda hidden_states, weight: f"rmsnorm_h{weight.numel()}")
    def resolved(hidden_states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return norm(hidden_states, weight)

    before = named(x, weight)
    assert named.__name__ == "named"
    with force(runtime(kernel)):
        torch.testing.assert_close(named(x, weight), before)
        torch.testing.assert_close(named(x, weight=weight), before)
        torch.testing.assert_close(resolved(x, weight=weight), before)
    assert kernel.calls == 3


UNFIT: dict[str, Callable[[torch.Tensor, torch.Tensor], Arguments]] = {
    "more rows than any range": lambda x, w: (x.repeat(5, 1), w),
    "no rows": lambda x, w: (x[:0], w),
    "another dtype": lambda x, w: (x.double(), w.double()),
    "one input of another dtype": lambda x, w: (x, w.half()),
    "another constant axis": lambda x, w: (x.repeat(1, 2), w.repeat(2)),
    "inputs that disagree": lambda x, w: (x, w.repeat(2)),
    "another rank": lambda x, w: (x[0], w),
    "a higher rank": lambda x, w: (x[None], w),
    "columns of a wider tensor": lambda x, w: (torch.randn(4, 2 * HIDDEN)[:, :HIDDEN], w),
    "a transposed tensor": lambda x, w: (torch.randn(HIDDEN, 4).t(), w),
    "every second weight": lambda x, w: (x, torch.rand(2 * HIDDEN)[::2]),
    "an output of another dtype": lambda x, w: (x, w, torch.empty_like(x, dtype=torch.float64)),
    "an output of another shape": lambda x, w: (x, w, torch.empty(5, HIDDEN)),
    "an output in the input's memory": lambda x, w: (x, w, x),
    "an output that begins inside the input": lambda x, w: (
        (whole := torch.randn(5, HIDDEN))[:4],
        w,
        whole[1:],
    ),
    "a gradient is wanted": lambda x, w: (x.requires_grad_(), w),
    "a tensor on another device": lambda x, w: (x.to("meta"), w),
    "a sparse tensor": lambda x, w: (x.to_sparse(), w),
    "too many arguments": lambda x, w: (x, w, torch.empty_like(x), x, x),
    "too few arguments": lambda x, w: (x,),
}


@pytest.mark.parametrize("case", UNFIT)
def test_what_does_not_fit_goes_to_the_fallback_untouched(case: str) -> None:
    kernel, own = Counted(norm_into), Counted(lambda *args: args)
    arguments = UNFIT[case](*inputs())
    with force(runtime(kernel)):
        got = apply(NORM.name, args=arguments, fallback=own)
    assert (kernel.calls, own.calls) == (0, 1)
    assert all(mine is theirs for mine, theirs in zip(got, arguments, strict=True))


def test_things_that_are_no_tensors_go_to_the_fallback() -> None:
    with force(runtime()):
        for arguments in ((None, None), ("x", 3), ([1.0], (2.0,))):
            assert apply(NORM.name, args=arguments, fallback=lambda *args: args) == arguments


def test_subclasses_of_tensor_go_to_the_fallback() -> None:
    class Tracked(torch.Tensor):
        pass

    kernel, (x, weight) = Counted(norm_into), inputs()
    with force(runtime(kernel)):
        apply(NORM.name, args=(x.as_subclass(Tracked), weight), fallback=lambda *args: None)
        apply(NORM.name, args=(x, torch.nn.Parameter(weight, requires_grad=False)), fallback=norm)
    assert kernel.calls == 1


def test_a_gradient_that_nobody_wants_is_no_obstacle() -> None:
    kernel, (x, weight) = Counted(norm_into), inputs()
    with force(runtime(kernel)), torch.no_grad():
        apply(NORM.name, args=(x.requires_grad_(), weight), fallback=norm)
    assert kernel.calls == 1


def test_an_in_place_kernel_updates_the_callers_tensor() -> None:
    def kernel(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, output: torch.Tensor) -> None:
        output.copy_(add_norm(x, residual, weight))

    (x, weight), residual = inputs(), torch.randn(4, HIDDEN)
    expected = residual.clone()
    output = add_norm(x, expected, weight)
    with force(runtime(kernel, definition=INPLACE)):
        got, updated = apply(INPLACE.name, args=(x, residual, weight), fallback=add_norm)
    assert updated is residual
    assert torch.equal(residual, expected)
    assert torch.equal(got, output)


def test_without_a_fallback_a_miss_says_why() -> None:
    x, weight = inputs(17)
    with force(runtime()), pytest.raises(NoFallback, match="no kernel covers these sizes"):
        apply(NORM.name, args=(x, weight))
    with pytest.raises(NoFallback, match="no kernel is in force"):
        apply(NORM.name, args=(x, weight))


def test_the_faster_of_two_kernels_serves_where_both_may() -> None:
    from kernelmill.apply.features import features_of
    from kernelmill.apply.guard.events import Events
    from kernelmill.apply.runtime import Candidate, Looks, Runtime

    first, second = Counted(norm_into), Counted(norm_into)
    made = Runtime("cpu", Looks(0.0, 0), Events(None))
    boxes = [Box((4,), (8,), 0), Box((1,), (16,), 1)]
    candidates = [Candidate("first", "1", first), Candidate("second", "2", second)]
    made.serve(NORM, features_of(NORM), boxes, candidates)
    with force(made):
        for rows in range(1, 17):
            apply(NORM.name, args=inputs(rows), fallback=norm)
    assert (first.calls, second.calls) == (5, 11)


def test_switches_nest_and_bring_back_what_was_in_force() -> None:
    outer, inner = runtime(), runtime()
    assert current() is None
    with force(outer):
        with force(inner):
            assert current() is inner
            with disable_apply():
                assert current() is None
            assert current() is inner
        assert current() is outer
    assert current() is None


def test_a_switch_that_lies_below_another_changes_nothing_when_undone() -> None:
    lower = force(runtime())
    upper = force(runtime())
    lower.undo()
    assert current() is upper.runtime
    upper.undo()
    lower.undo()
    assert current() is None


def test_off_means_the_callers_own_results_bit_for_bit() -> None:
    x, weight = inputs()
    before = apply(NORM.name, args=(x, weight), fallback=norm)
    with force(runtime(lambda x, w, o: o.fill_(7.0))):
        assert torch.equal(apply(NORM.name, args=(x, weight), fallback=norm), torch.full_like(x, 7.0))
    assert torch.equal(apply(NORM.name, args=(x, weight), fallback=norm), before)


def test_an_argument_that_would_be_code_is_refused() -> None:
    evil = "x):\n    import os\ndef f(y"
    definition = builders.definition(
        inputs={evil: {"shape": ["batch_size", "hidden_size"], "dtype": "float32"}},
        reference="def run(x):\n    return x\n",
    )
    with pytest.raises(ApplyError, match="cannot be an argument's name"):
        runtime(definition=definition)
