"""`enable_tracing`: what a program calls becomes a dataset that holds up, and the program does not notice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelmill.apply import ApplyError, apply, calls, disable_apply, enable_tracing, state
from kernelmill.apply.engines import pytorch
from kernelmill.apply.state import current, force
from kernelmill.dataset import Dataset
from kernelmill.trace_schema import RandomInput, SafetensorsInput, ScalarInput, Trace
from tests.apply.kernels import NORM, Counted, norm, norm_into, runtime
from tests.apply.tracing.calls import PAGED, call_norm, call_paged, faults, paged, source, weights, workloads

LENGTHS = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return source(tmp_path_factory.mktemp("source") / "dataset")


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, definitions: Path) -> Path:
    monkeypatch.setenv("KERNELMILL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("KERNELMILL_DATASET", str(definitions))
    return tmp_path / "out"


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LENGTHS, st.integers(1, 6), st.integers(1, 8))
def test_weights_are_the_calls_and_the_dataset_is_valid(
    out: Path, monkeypatch: pytest.MonkeyPatch, batches: Sequence[Sequence[int]], most: int, keys: int
) -> None:
    monkeypatch.setenv("KERNELMILL_TRACING_WORKLOADS", str(most))
    monkeypatch.setenv("KERNELMILL_TRACING_KEYS", str(keys))
    before = weights(out, PAGED) if out.exists() else 0
    with enable_tracing(out) as tracing:
        for lengths in batches:
            call_paged(paged(*lengths))
        assert tracing.report() == {PAGED.name: {"calls": len(batches), "unfit": {}}}
    assert weights(out, PAGED) == before + len(batches)
    assert faults(out) == []


def test_indices_are_stored_as_they_were_scalars_exactly_and_floats_are_random(out: Path) -> None:
    args = paged(2, 3, scale=0.1 + 0.2)
    wanted = [tensor.clone() for tensor in args[2:4]]
    with enable_tracing(out):
        call_paged(args)
        args[3].fill_(63)
    (found,) = workloads(out, PAGED)
    assert found.axes == {"batch_size": 2, "num_pages": 64, "len_indptr": 3, "num_kv_indices": 5}
    stored = [found.inputs[name] for name in ("kv_indptr", "kv_indices")]
    for spec, tensor in zip(stored, wanted, strict=True):
        assert isinstance(spec, SafetensorsInput)
        assert torch.equal(Dataset.open(out).load_tensor(spec, "torch"), tensor)
    assert found.inputs["sm_scale"] == ScalarInput(type="scalar", value=0.1 + 0.2)
    assert isinstance(found.inputs["q"], RandomInput)
    assert found.provenance is not None
    assert found.provenance.kind == "engine"


def test_a_named_float_is_stored(out: Path) -> None:
    with enable_tracing(out, by_value=["q"]):
        call_paged(paged(1))
    (found,) = workloads(out, PAGED)
    spec = found.inputs["q"]
    assert isinstance(spec, SafetensorsInput)
    assert torch.equal(Dataset.open(out).load_tensor(spec, "torch"), torch.ones(1, 4))
    assert isinstance(found.inputs["cache"], RandomInput)


def test_calls_that_do_not_fit_are_counted_told_and_harmless(out: Path) -> None:
    wrong = paged(2, 3)
    with enable_tracing(out) as tracing:
        assert apply(NORM.name, args=(torch.ones(2, 8).double(), torch.ones(8)), fallback=lambda *_: "own") == "own"
        assert apply(NORM.name, args=(torch.ones(2, 9), torch.ones(8)), fallback=lambda *_: "own") == "own"
        assert apply(NORM.name, args=(torch.ones(0, 8), torch.ones(8)), fallback=lambda *_: "own") == "own"
        assert apply(NORM.name, args=("x",), fallback=lambda *_: "own") == "own"
        assert apply(NORM.name, kwargs={"y": 1}, fallback=lambda **_: "own") == "own"
        call_paged((*wrong[:3], torch.zeros(7, dtype=torch.int32), 0.5))
        call_paged((*wrong[:3], wrong[3] + 60, 0.5))
    told = tracing.report()
    assert told[NORM.name] == {
        "calls": 0,
        "unfit": {
            "hidden_states is float64, not float32": 1,
            "hidden_states has 9 as hidden_size, not 8": 1,
            "an axis has size 0": 1,
            "hidden_states is a str, not a tensor": 1,
            "hidden_states is missing": 1,
        },
    }
    reasons = " ".join(told[PAGED.name]["unfit"])
    assert "kv_indptr[-1].item()' of paged_sum_d4 does not hold" in reasons
    assert "kv_indices: 1 of 5 values are not in [0, 64)" in reasons
    assert (told[PAGED.name]["calls"], sum(told[PAGED.name]["unfit"].values())) == (0, 2)
    assert json.loads((out / "tracing.jsonl").read_text())["definitions"] == told


def test_stored_tensors_stay_within_the_memory_and_calls_beyond_it_still_count(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 64 << 10
    monkeypatch.setenv("KERNELMILL_TRACING_MIB", str(limit / (1 << 20)))
    most = 0
    with enable_tracing(out) as tracing:
        for length in range(256, 456):
            call_paged(paged(length, pages=512))
            most = max(most, tracing.tracer.memory.held)
        call_paged(paged(600, pages=700))  # larger than one call may be
    assert 0.9 * limit < most <= limit
    assert weights(out, PAGED) == 201
    assert 600 not in {workload.axes["num_kv_indices"] for workload in workloads(out, PAGED)}
    assert faults(out) == []


def test_writing_again_replaces_the_own_share_and_drops_its_files(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELMILL_TRACING_WORKLOADS", "1")
    with enable_tracing(out) as tracing:
        for rounds in range(1, 8):
            for length in range(1, 9):
                call_paged(paged(length * rounds, pages=80))
            assert tracing.tracer.writer.write()
            assert weights(out, PAGED) == rounds * 8
    named = {spec.path for one in workloads(out, PAGED) for spec in one.inputs.values() if spec.type == "safetensors"}
    assert named == {str(path.relative_to(out)) for path in (out / "blob").rglob("*.safetensors")}
    assert faults(out) == []


def test_what_two_have_seen_alike_is_one_line_and_other_peoples_lines_stay(out: Path, definitions: Path) -> None:
    with enable_tracing(out):
        call_norm(2)
    file = out / "workloads" / NORM.op_type / f"{NORM.name}.jsonl"
    strangers = (
        b'{"definition": "rmsnorm_h8",  "workload": {"uuid": "theirs", "axes": {"batch_size": 5}, "inputs": {}}}\n'
    )
    file.write_bytes(file.read_bytes() + strangers)
    with enable_tracing(out), enable_tracing(out):
        call_norm(2)
        call_norm(3)
    lines = file.read_bytes().splitlines(keepends=True)
    assert strangers in lines
    found = {workload.axes["batch_size"]: workload.weight for workload in workloads(out, NORM)}
    assert found == {2: 2.0, 3: 1.0, 5: None}


def test_a_workload_that_the_dataset_has_from_elsewhere_is_not_counted_twice(out: Path) -> None:
    with enable_tracing(out):
        call_norm(2)
    (mine,) = workloads(out, NORM)
    theirs = mine.model_copy(update={"provenance": None, "weight": 7.0})
    file = out / "workloads" / NORM.op_type / f"{NORM.name}.jsonl"
    file.write_text(Trace(definition=NORM.name, workload=theirs).model_dump_json(exclude_unset=True) + "\n")
    before = file.read_bytes()
    with enable_tracing(out) as tracing:
        call_norm(2)
    assert file.read_bytes() == before
    assert tracing.report()[NORM.name]["unfit"] == {"the dataset has this workload from elsewhere": 1}


def test_served_calls_are_traced_whichever_is_turned_on_first(out: Path) -> None:
    kernel = Counted(norm_into)
    made = runtime(kernel)
    with enable_tracing(out) as tracing, force(made):
        call_norm(2)
        with disable_apply():
            call_norm(2)
    with force(made), enable_tracing(out):
        call_norm(3)
    assert kernel.calls == 2
    assert tracing.report()[NORM.name]["calls"] == 2
    assert weights(out, NORM) == 3
    assert current() is None


def test_a_call_whose_fallback_comes_back_to_us_is_one_call(out: Path) -> None:
    """Its own kernel calls torch's function, which is looked at, too."""
    pytorch.follow()
    for served in (runtime(), runtime(boxes=[])):
        with torch.no_grad(), force(served), enable_tracing(out) as tracing:
            for rows in (2, 99):
                apply(NORM.name, args=(torch.ones(rows, 8), torch.ones(8)), fallback=norm)
                norm(torch.ones(rows, 8), torch.ones(8))
            assert tracing.report() == {NORM.name: {"calls": 4, "unfit": {}}}


def test_off_nothing_is_left_in_the_way(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "watchers", [])  # other tests are not to follow
    monkeypatch.setattr(pytorch, "_is_followed", False)
    pytorch.follow()
    before = F.rms_norm, F.linear
    with enable_tracing(out), torch.no_grad():
        assert F.rms_norm is not before[0]
        F.rms_norm(torch.ones(2, 3, 8), (8,), torch.ones(8), 1e-5)
    assert (F.rms_norm, F.linear) == before
    assert calls.live == {}
    call_norm(4)
    assert weights(out, NORM) == 1
    assert workloads(out, NORM)[0].axes == {"batch_size": 6}


def test_the_baseline_comes_along_and_a_program_without_calls_writes_nothing(out: Path) -> None:
    with enable_tracing(out):
        pass
    assert not out.exists()
    with enable_tracing(out, only=["rms*"]) as tracing:
        call_norm(1)
        call_paged(paged(1))
    assert list(tracing.report()) == [NORM.name]
    assert [solution.name for solution in Dataset.open(out).solutions()] == ["torch_norm"]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("KERNELMILL_TRACING_MIB", "lots", "is no number from 0"),
        ("KERNELMILL_TRACING_KEYS", "0", "is no number from 1"),
        ("KERNELMILL_DATASET", "", "nothing says where to write"),
    ],
)
def test_settings_that_make_no_sense_are_told(
    name: str, value: str, reason: str, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.delenv("FIB_DATASET_PATH", raising=False)
    with pytest.raises(ApplyError, match=reason):
        enable_tracing(None if name == "KERNELMILL_DATASET" else out)
