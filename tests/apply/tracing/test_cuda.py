"""On a GPU nothing waits for a copy, and a graph that is captured stays as it would be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelmill.apply import apply, enable_tracing
from kernelmill.apply.tracing.choose import NOTHING_KEPT
from kernelmill.dataset import Dataset
from kernelmill.trace_schema import SafetensorsInput
from tests.apply.kernels import NORM, norm
from tests.apply.tracing.calls import PAGED, call_paged, faults, paged, source, weights, workloads

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELMILL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KERNELMILL_DATASET", str(source(tmp_path / "source")))
    return tmp_path / "out"


def on_device(*lengths: int) -> tuple[object, ...]:
    *tensors, scale = paged(*lengths)
    return *(tensor.cuda() for tensor in tensors), scale


def test_indices_are_those_of_the_call(out: Path) -> None:
    args = on_device(2, 3)
    with enable_tracing(out):
        call_paged(args)
        assert isinstance(args[3], torch.Tensor)
        args[3].fill_(63)
    (found,) = workloads(out, PAGED)
    spec = found.inputs["kv_indices"]
    assert isinstance(spec, SafetensorsInput)
    assert Dataset.open(out).load_tensor(spec).tolist() == [0, 1, 2, 3, 4]


def test_a_captured_graph_replays_and_its_shapes_are_recorded(out: Path) -> None:
    x, weight, args = torch.randn(3, 8).cuda(), torch.rand(8).cuda(), on_device(2, 3)
    norm(x, weight)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with enable_tracing(out) as tracing, torch.no_grad():
        with torch.cuda.graph(graph):
            result = apply(NORM.name, args=(x, weight), fallback=norm)
            call_paged(args)
        x.fill_(2.0)
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(result, norm(x, weight))
    assert weights(out, NORM) == 1
    assert tracing.report()[PAGED.name] == {"calls": 0, "unfit": {NOTHING_KEPT: 1}}
    assert faults(out) == []
