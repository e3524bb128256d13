"""Input content: drawn right, new at every call, the same for both players of a pair."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from kernelmill.evaluator.case import make_case
from kernelmill.evaluator.inputs import SMALL_ELEMENTS, Inputs, sample
from kernelmill.trace_schema import Definition, Distribution, Workload
from kernelmill.trace_schema.errors import DatasetError
from tests.builders import raw_definition, raw_workload


def inputs_of(rows: int, columns: int = 1024, **spec: Any) -> Inputs:
    definition = Definition.model_validate(
        raw_definition(
            axes={"batch_size": {"type": "var"}, "hidden_size": {"type": "const", "value": columns}},
            inputs={
                "hidden_states": {"shape": ["batch_size", "hidden_size"], "dtype": "float32"},
                "weight": {"shape": ["hidden_size"], "dtype": "float32", "role": "static"},
            },
        )
    )
    random = {"type": "random", **spec}
    workload = Workload.model_validate(
        raw_workload(axes={"batch_size": rows}, inputs={"hidden_states": random, "weight": {"type": "random"}})
    )
    return Inputs(make_case(definition, workload, None), {})


SMALL, LARGE = 4, 2 * SMALL_ELEMENTS // 1024


@pytest.mark.parametrize("rows", [SMALL, LARGE])
def test_no_row_is_ever_shown_twice(rows: int) -> None:
    inputs = inputs_of(rows)
    seen = set()
    for _ in range(20):
        for row in inputs.copy(inputs.draw())["hidden_states"]:
            content = row.numpy().tobytes()
            assert content not in seen
            seen.add(content)


@pytest.mark.parametrize("rows", [SMALL, LARGE])
def test_one_content_fills_any_memory_alike(rows: int) -> None:
    inputs = inputs_of(rows)
    content = inputs.draw()
    one, two = torch.empty(rows, 1024), torch.empty(rows, 1024)
    inputs.write(content, "hidden_states", one)
    inputs.draw()
    inputs.write(content, "hidden_states", two)
    assert torch.equal(one, two)


def test_static_inputs_stay_the_same_all_through_a_sitting() -> None:
    inputs = inputs_of(SMALL)
    weights = [inputs.copy(inputs.draw())["weight"] for _ in range(2)]
    assert torch.equal(*weights)
    assert not torch.equal(weights[0], inputs_of(SMALL).copy(inputs_of(SMALL).draw())["weight"])


def test_probabilities_still_sum_to_one_after_rotation() -> None:
    inputs = inputs_of(LARGE, distribution={"kind": "softmax", "temperature": 0.5})
    rows = inputs.copy(inputs.draw())["hidden_states"]
    torch.testing.assert_close(rows.sum(-1), torch.ones(LARGE))


@pytest.mark.parametrize(
    ("drawn", "mean", "std"),
    [
        (Distribution(kind="normal", mean=3, std=2), 3, 2),
        (Distribution(kind="uniform", low=-1, high=1), 0, 0.577),
        (Distribution(kind="randint", low=0, high=2), 0.5, 0.5),
        (Distribution(kind="lognormal", mean=0, std=0.5), 1.133, 0.604),
        (Distribution(kind="constant", value=7), 7, 0),
    ],
)
def test_distributions_have_their_moments(drawn: Distribution, mean: float, std: float) -> None:
    values = sample(drawn, "float32", (100_000,), torch.Generator().manual_seed(3))
    assert float(values.mean()) == pytest.approx(mean, abs=0.03)
    assert float(values.std()) == pytest.approx(std, abs=0.03)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "int8", "int64", "bool"])
def test_every_type_can_be_drawn(dtype: str) -> None:
    drawn = (
        Distribution(kind="randint", low=0, high=2)
        if dtype in ("int8", "int64", "bool")
        else Distribution(kind="normal")
    )
    values = sample(drawn, dtype, (4, 8), torch.Generator())
    assert str(values.dtype) == f"torch.{dtype}"
    assert not values.float().isnan().any()


@pytest.mark.parametrize(
    ("axes", "inputs", "message"),
    [
        ({}, {}, "batch_size"),
        ({"batch_size": 1}, {"hidden_states": {"type": "scalar", "value": 1}}, "is a tensor"),
        (
            {"batch_size": 1},
            {"hidden_states": {"type": "safetensors", "path": "x.safetensors", "tensor_key": "x"}},
            "pass dataset=",
        ),
    ],
)
def test_a_workload_that_does_not_fit_is_the_datasets_fault(axes: Any, inputs: Any, message: str) -> None:
    definition = Definition.model_validate(raw_definition())
    with pytest.raises(DatasetError, match=message):
        make_case(definition, Workload.model_validate(raw_workload(axes=axes, inputs=inputs)), None)


def test_a_broken_constraint_is_the_datasets_fault() -> None:
    definition = Definition.model_validate(raw_definition(constraints=["batch_size % 3 == 0"]))
    with pytest.raises(DatasetError, match=r"breaks the constraint 'batch_size % 3 == 0'.*batch_size': 4"):
        make_case(definition, Workload.model_validate(raw_workload()), None)


PAGED = {
    "name": "paged",
    "op_type": "test",
    "axes": {"num_pages": {"type": "var"}, "count": {"type": "var"}},
    "inputs": {
        "kv_indices": {"shape": ["count"], "dtype": "int32"},
        "kv_indptr": {"shape": ["count"], "dtype": "int32"},
    },
    "outputs": {"out": {"shape": ["count"], "dtype": "int32"}},
    "reference": "def run(kv_indices, kv_indptr):\n    return kv_indices\n",
}


def test_captured_indices_are_shifted_and_captured_offsets_are_not() -> None:
    definition = Definition.model_validate(PAGED)
    workload = Workload.model_validate({"uuid": "w", "axes": {"num_pages": 100, "count": 5}, "inputs": {}})
    case = make_case(definition, workload, None)
    pages = torch.tensor([7, 8, 9, 99, -1], dtype=torch.int32)
    captured = {"kv_indices": pages, "kv_indptr": torch.arange(5, dtype=torch.int32)}
    inputs = Inputs(dataclasses.replace(case, fixed=captured), {})
    seen = set()
    for _ in range(200):
        found = inputs.copy(inputs.draw())
        assert torch.equal(found["kv_indptr"], captured["kv_indptr"])
        moved = found["kv_indices"]
        assert moved[4] == -1
        assert bool(((moved[:4] >= 0) & (moved[:4] < 100)).all())
        assert torch.equal((moved[:4] - moved[0]).remainder(100), (pages[:4] - pages[0]).remainder(100))
        seen.add(int(moved[0]))
    assert len(seen) > 50


@pytest.mark.parametrize("rows", [SMALL * 8, LARGE])
def test_columns_may_have_a_mean_of_their_own_as_experts_have(rows: int) -> None:
    inputs = inputs_of(rows, distribution={"kind": "normal", "std": 1.0, "column_std": 2.0})
    first, second = (inputs.copy(inputs.draw())["hidden_states"] for _ in range(2))
    assert first.mean(dim=0).std() == pytest.approx(2.0, rel=0.15)
    assert (first - first.mean(dim=0)).std() == pytest.approx(1.0, rel=0.1)
    popular = first.argmax(dim=1).bincount(minlength=1024).sort(descending=True).values
    assert popular[:10].sum() > rows / 4, "a hundredth of the columns wins far more than a hundredth of the rows"
    assert not torch.equal(first.mean(dim=0).argsort()[-10:], second.mean(dim=0).argsort()[-10:])
