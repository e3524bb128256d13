"""Mutants: wrong answers are made right (that is, wrong in the way they say), and what lets one pass is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from kernelmill.dataset import Dataset
from kernelmill.dataset.commands import register
from kernelmill.dataset.paths import default_path
from kernelmill.evaluator.mutants import validation
from kernelmill.evaluator.mutants.hunt import Hunter, Outcome, Trial, hunting, survivors
from kernelmill.evaluator.mutants.inputs import newest, oldest_share, rounded, shortened
from kernelmill.evaluator.sandbox import SandboxUnavailable, probe
from kernelmill.trace_schema import Definition, Workload
from tests.builders import raw_definition, raw_workload
from tests.dataset.folder import add_definition, add_workloads

sandboxed = pytest.mark.skipif(probe() is not None, reason=f"no sandbox on this host: {probe()}")
WEAK = {"kind": "lowbit", "params": {"intermediate": "float4_e2m1"}}
"""Lets a float32 norm be as wrong as if float4 lay between."""

DECODE = """\
import math
import torch

def run(q, k, v, seq_lens):
    hidden = torch.arange(k.shape[1]) >= seq_lens.unsqueeze(1)
    logits = (q.to(torch.float32).unsqueeze(1) @ k.to(torch.float32).transpose(1, 2)).squeeze(1) / math.sqrt(q.shape[1])
    logits = logits.masked_fill(hidden, -math.inf)
    output = (logits.softmax(-1).unsqueeze(1) @ v.to(torch.float32)).squeeze(1)
    return output.to(q.dtype), logits.logsumexp(-1) / math.log(2.0)
"""


def decode(length: int) -> tuple[Definition, Workload]:
    """Attention of one query over the first `length` of 256 keys."""
    names = {"q": ["b", "d"], "k": ["b", "n", "d"], "v": ["b", "n", "d"], "output": ["b", "d"]}
    specs: dict[str, Any] = {name: {"shape": axes, "dtype": "bfloat16"} for name, axes in names.items()}
    specs |= {"seq_lens": {"shape": ["b"], "dtype": "int32"}, "lse": {"shape": ["b"], "dtype": "float32"}}
    raw = raw_definition(
        axes={"b": {"type": "var"}, "n": {"type": "const", "value": 256}, "d": {"type": "const", "value": 64}},
        inputs={name: specs[name] for name in ("q", "k", "v", "seq_lens")},
        outputs={name: specs[name] for name in ("output", "lse")},
        reference=DECODE,
    )
    inputs: dict[str, Any] = {name: {"type": "random"} for name in "qkv"}
    inputs["seq_lens"] = {"type": "random", "distribution": {"kind": "constant", "value": length}}
    return Definition.model_validate(raw), Workload.model_validate(raw_workload(axes={"b": 6}, inputs=inputs))


def ended(trials: Iterator[Trial]) -> dict[str, Outcome]:
    return {trial.mutant.name: trial.outcome for trial in trials}


def tried(definition: Definition, workload: Workload, dataset: Dataset | None = None) -> dict[str, Outcome]:
    with hunting(definition, dataset) as hunter:
        return ended(hunter.trials(hunter.scene(workload)))


@sandboxed
def test_every_mutant_of_an_attention_is_caught() -> None:
    outcomes = tried(*decode(200))
    assert {"scaled by 1 % in lse", "stale output", "one precision lower", "5 % of the keys dropped"} < outcomes.keys()
    assert set(outcomes.values()) == {Outcome.CAUGHT}


@sandboxed
def test_a_sequence_too_short_to_lose_a_twentieth_is_no_false_alarm() -> None:
    outcomes = tried(*decode(19))
    assert {name for name, outcome in outcomes.items() if outcome is Outcome.IDLE} == {"5 % of the keys dropped"}


@sandboxed
def test_offsets_and_masks_of_the_shipped_prefill_are_mutated() -> None:
    dataset = Dataset.open(default_path())
    definition = dataset.definitions["gqa_ragged_prefill_causal_h32_kv8_d128"]
    long = [one for one in dataset.workloads(definition) if one.axes["total_kv"] >= 40 * one.axes["len_indptr"]]
    smallest = min(long, key=lambda workload: workload.axes["total_kv"])  # each twentieth of a sequence is a key
    with hunting(definition, dataset) as hunter:
        wanted = ("5 % of the keys dropped", "causal mask shifted by one")
        hunter.mutants = [mutant for mutant in hunter.mutants if mutant.name in wanted]
        assert ended(hunter.trials(hunter.scene(smallest))) == dict.fromkeys(wanted, Outcome.CAUGHT)


@sandboxed
def test_a_survivor_names_the_workload_and_what_to_change() -> None:
    definition = Definition.model_validate(raw_definition(comparator=WEAK))
    workloads = [Workload.model_validate(raw_workload(uuid=uuid, axes={"batch_size": 40})) for uuid in ("one", "two")]
    found = survivors(definition, workloads, None)
    assert [(each.mutant, each.workload.uuid) for each in found] == [
        ("one precision lower", "one"),
        ("one precision lower", "two"),
    ]
    assert found[0].why.startswith("its largest error is 0.")
    assert "stricter comparator" in found[0].advice


SAMPLER = """\
import torch

def run(probs, top_k):
    best, tokens = probs.sort(-1, descending=True)
    best = best * (torch.arange(best.shape[1]) < top_k.unsqueeze(1))
    return tokens.gather(1, torch.multinomial(best, 1)).squeeze(1)
"""


def sampler(temperature: float) -> tuple[Definition, list[Workload]]:
    """Out of 64 tokens by their probabilities, for one row and for 64."""
    raw = raw_definition(
        op_type="sampling",
        axes={"b": {"type": "var"}, "v": {"type": "const", "value": 64}},
        inputs={"probs": {"shape": ["b", "v"], "dtype": "float32"}, "top_k": {"shape": ["b"], "dtype": "int32"}},
        outputs={"samples": {"shape": ["b"], "dtype": "int64"}},
        reference=SAMPLER,
    )
    top_k = {"type": "random", "distribution": {"kind": "randint", "low": 20, "high": 40}}
    probs = {"type": "random", "distribution": {"kind": "softmax", "temperature": temperature}}
    inputs = {"probs": probs, "top_k": top_k}
    workloads = [raw_workload(uuid=f"w{rows}", axes={"b": rows}, inputs=inputs) for rows in (1, 64)]
    return Definition.model_validate(raw), [Workload.model_validate(workload) for workload in workloads]


@sandboxed
def test_one_workload_with_enough_rows_must_tell_a_wrong_distribution() -> None:
    definition, workloads = sampler(1.0)
    assert survivors(definition, workloads, None) == []
    too_small = survivors(definition, workloads[:1], None)
    assert "uniform" in {each.mutant for each in too_small}
    assert all("more rows" in each.advice for each in too_small)


@sandboxed
def test_probabilities_that_are_all_alike_let_a_uniform_sampler_pass() -> None:
    definition, workloads = sampler(1e4)
    assert [each.mutant for each in survivors(definition, workloads, None)] == ["uniform"]


STATE = """\
import torch

def run(state, state_indices, x):
    new_state = state.clone()
    new_state[state_indices.long()] = (new_state[state_indices.long()].to(torch.float32) * 0.5 + x).to(state.dtype)
    return new_state
"""


@sandboxed
def test_a_state_that_is_not_its_own_is_watched() -> None:
    raw = raw_definition(
        axes={name: {"type": "var"} for name in ("slots", "b", "d")},
        inputs={
            "state": {"shape": ["slots", "d"], "dtype": "float32"},
            "state_indices": {"shape": ["b"], "dtype": "int32"},
            "x": {"shape": ["b", "d"], "dtype": "float32"},
        },
        outputs={"new_state": {"shape": ["slots", "d"], "dtype": "float32"}},
        reference=STATE,
    )
    inputs: dict[str, Any] = {name: {"type": "random"} for name in ("state", "x")}
    inputs["state_indices"] = {"type": "random", "distribution": {"kind": "randint", "low": 3, "high": 4}}
    workload = Workload.model_validate(raw_workload(axes={"slots": 5, "b": 1, "d": 16}, inputs=inputs))
    outcomes = tried(Definition.model_validate(raw), workload)
    assert {"a slot of another call changed", "state returned as new_state"} < outcomes.keys()
    assert outcomes.pop("last row skipped in new_state") is Outcome.CAUGHT
    assert set(outcomes.values()) == {Outcome.CAUGHT}


def test_the_oldest_share_or_the_newest_key_of_each_sequence_is_dropped() -> None:
    bounds = torch.tensor([0, 40, 59, 59, 159], dtype=torch.int32)
    fewer, keep = shortened(bounds, oldest_share)
    assert fewer.tolist() == [0, 38, 57, 57, 152]
    assert torch.nonzero(~keep).flatten().tolist() == [0, 1, 59, 60, 61, 62, 63]
    fewer, keep = shortened(bounds, newest)
    assert fewer.tolist() == [0, 39, 57, 57, 156]
    assert torch.nonzero(~keep).flatten().tolist() == [39, 58, 158]


@pytest.mark.parametrize(
    ("dtype", "lower"),
    [(torch.float16, torch.bfloat16), (torch.bfloat16, torch.float8_e4m3fn), (torch.float8_e4m3fn, torch.float8_e5m2)],
)
def test_rounding_is_that_of_the_next_type_down(dtype: torch.dtype, lower: torch.dtype) -> None:
    values = (torch.rand(1000) + 0.5).to(dtype)
    assert torch.equal(rounded(values).float(), values.to(lower).float())
    assert rounded(torch.arange(3)).tolist() == [0, 1, 2]


def validate(root: Path, *arguments: str) -> Result:
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    return CliRunner().invoke(app, ["validate", str(root), "--mutants", "--checks", "mutants", *arguments])


def place(root: Path, *rows: int, **over: Any) -> None:
    add_definition(root, **over)
    add_workloads(root, *({"uuid": f"w{count}", "axes": {"batch_size": count}} for count in rows))


@sandboxed
def test_the_command_refuses_a_definition_that_a_mutant_passes(tmp_path: Path) -> None:
    place(tmp_path, 40, comparator=WEAK)
    ran = validate(tmp_path, "--json")
    assert ran.exit_code == 1
    (found,) = map(json.loads, ran.stdout.splitlines())
    assert (found["severity"], found["file"], found["line"]) == ("error", "workloads/rmsnorm/rmsnorm_h8.jsonl", 1)
    assert "the mutant 'one precision lower' passes rmsnorm_h8 on workload w40" in found["message"]
    assert "stricter comparator" in found["advice"]
    assert "rmsnorm_h8: 9 mutants, 1 workloads" in ran.stderr


@sandboxed
def test_the_command_passes_a_sound_definition_and_says_what_it_could_not_try(tmp_path: Path) -> None:
    place(tmp_path, 1)
    ran = validate(tmp_path)
    assert ran.exit_code == 0
    assert "no workload leaves room for: rows swapped in output" in ran.stdout


@sandboxed
def test_time_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hunter, "trials", lambda self, scene: iter(()))
    monkeypatch.setattr(validation, "SECONDS", -1.0)
    place(tmp_path, 2, 3)
    assert "the mutants were tried on 0 workloads in 0 s; 2 are left" in validate(tmp_path).stdout


@sandboxed
def test_a_reference_that_fails_is_reported_at_its_workload(tmp_path: Path) -> None:
    place(tmp_path, 2, reference="def run(hidden_states, weight):\n    raise ValueError('broken')\n")
    ran = validate(tmp_path)
    assert "no mutant could be tried" in ran.stdout and "broken" in ran.stdout
    assert validate(tmp_path, "--strict").exit_code == 1


def test_without_a_sandbox_nothing_foreign_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise SandboxUnavailable("no namespaces here")

    monkeypatch.setattr(validation, "hunting", refused)
    place(tmp_path, 2)
    ran = validate(tmp_path)
    assert ran.exit_code == 1
    assert "no mutant was tried: no namespaces here" in ran.stdout
