"""From trace files to a dataset's workloads, as `kernelmill derive` makes them, for every kind of definition."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

from kernelmill.cli import app
from kernelmill.dataset import Dataset, paths
from kernelmill.dataset.derive.choose import COUNT, COUNT_FINE, COUNT_HIDDEN
from kernelmill.dataset.derive.states import compact
from kernelmill.dataset.validate import CHECKS, validate
from kernelmill.trace_schema import Definition, RandomInput, SafetensorsInput, Workload
from tests.dataset.derive.definitions import DEFINITIONS, define, gqa_decode
from tests.dataset.derive.traffic import write_traces

NAMES = [definition.name for definition in DEFINITIONS]
FEW = ("fused_add_rmsnorm_h512", "gqa_paged_decode_h4_kv1_d128_ps16", "gqa_ragged_prefill_causal_h4_kv1_d128")
"""Stand for all where each derivation is one more replay of all the traffic."""


def write_definitions(root: Path, definitions: tuple[Definition, ...] = DEFINITIONS) -> Path:
    for definition in definitions:
        file = root / paths.definition_file(definition.op_type, definition.name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(definition.model_dump_json(exclude_unset=True))
    return root


def derive(*arguments: object) -> str:
    """What the command tells; it must end well."""
    result = CliRunner().invoke(app, ["derive", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stderr


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["derive", *map(str, arguments)])
    assert result.exit_code == 2, result.output
    return result.stderr


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_traces(tmp_path_factory.mktemp("traces"))


@pytest.fixture(scope="module")
def derived(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_definitions(tmp_path_factory.mktemp("public"))
    derive("--requests", traces, "--dataset", root)
    return root


@pytest.fixture(scope="module")
def dataset(derived: Path) -> Dataset:
    return Dataset.open(derived)


def tensor(dataset: Dataset, workload: Workload, name: str) -> Any:
    spec = workload.inputs[name]
    assert isinstance(spec, SafetensorsInput)
    return load_file(dataset.root / spec.path)[spec.tensor_key]


def content(root: Path) -> dict[str, bytes]:
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_definition_gets_weighted_workloads_with_their_provenance(dataset: Dataset, name: str) -> None:
    definition = dataset.definitions[name]
    found = list(dataset.workloads(name))
    assert 6 <= len(found) <= (COUNT_FINE if name.endswith("_ps1") else COUNT)
    assert len({workload.hash() for workload in found}) == len(found)
    for workload in found:
        assert set(workload.inputs) == set(definition.inputs)
        assert set(workload.axes) == set(definition.var_axes)
        assert workload.weight and workload.seed is not None and workload.split == "public"
        assert workload.provenance and workload.provenance.kind == "request_trace"


def test_nothing_is_wrong_with_what_is_derived(dataset: Dataset) -> None:
    names = [name for name in CHECKS if name not in ("definition", "baseline")]
    found = [str(finding) for finding in validate(dataset, names, strict=True)]
    assert not [line for line in found if "-1" not in line or "padding" not in line]


def test_the_same_traffic_gives_the_same_bytes(derived: Path, traces: Path, tmp_path: Path) -> None:
    again = write_definitions(tmp_path)
    derive("--requests", traces, "--dataset", again)
    assert content(again) == content(derived)
    derive("--requests", traces, "--dataset", again, "--definition", NAMES[0])
    assert content(again) == content(derived), "one definition alone leaves the others as they are"


def test_index_tensors_are_named_by_their_content_and_shared(dataset: Dataset) -> None:
    users = defaultdict(set)
    for name in NAMES:
        for workload in dataset.workloads(name):
            for spec in workload.inputs.values():
                if isinstance(spec, SafetensorsInput):
                    users[spec.path].add(name)
                    assert hashlib.sha256((dataset.root / spec.path).read_bytes()).hexdigest() == spec.sha256
    assert {path.relative_to(dataset.root).as_posix() for path in dataset.root.rglob("*.safetensors")} == set(users)
    assert any(len(names) > 1 for names in users.values())


def test_definitions_with_equal_traffic_and_page_size_share_all_their_files(traces: Path, tmp_path: Path) -> None:
    one, other = gqa_decode(16), gqa_decode(16, heads=2)
    root = write_definitions(tmp_path, (one, other))
    derive("--requests", traces, "--dataset", root)
    opened = Dataset.open(root)
    files = [
        [
            spec.path
            for workload in opened.workloads(each.name)
            for spec in workload.inputs.values()
            if isinstance(spec, SafetensorsInput)
        ]
        for each in (one, other)
    ]
    assert files[0] == files[1]


@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_page_tables_hold_each_sequence_once(dataset: Dataset, page_size: int) -> None:
    for workload in dataset.workloads(f"gqa_paged_decode_h4_kv1_d128_ps{page_size}"):
        indptr, indices = tensor(dataset, workload, "kv_indptr"), tensor(dataset, workload, "kv_indices")
        assert len(indptr) == workload.axes["batch_size"] + 1 and indptr[-1] == len(indices)
        assert indices.min() >= 0 and indices.max() < workload.axes["num_pages"]
        assert workload.axes["num_pages"] <= 1.2 * len(np.unique(indices)) + 3
        for start, stop in pairwise(indptr):
            assert len(np.unique(indices[start:stop])) == stop - start
        if page_size > 1:
            last = tensor(dataset, workload, "kv_last_page_len")
            assert (last >= 1).all() and (last <= page_size).all()


def test_sessions_with_a_common_prefix_share_pages(dataset: Dataset) -> None:
    found = dataset.workloads("gqa_paged_decode_h4_kv1_d128_ps16")
    tables = [tensor(dataset, workload, "kv_indices") for workload in found]
    assert any(len(np.unique(table)) < len(table) for table in tables)


def test_prefill_attends_to_what_was_computed_before(dataset: Dataset) -> None:
    longer = 0
    for workload in dataset.workloads("gqa_paged_prefill_causal_h4_kv1_d128_ps16"):
        queries = np.diff(tensor(dataset, workload, "qo_indptr"))
        pages = np.diff(tensor(dataset, workload, "kv_indptr"))
        seen = (pages - 1) * 16 + tensor(dataset, workload, "kv_last_page_len")
        assert (queries > 1).all() and (queries <= seen).all()
        assert queries.sum() == workload.axes["total_q"] <= 8192
        longer += int((queries < seen).any())
    assert longer


def test_sparse_queries_choose_distinct_tokens_of_their_own(dataset: Dataset) -> None:
    for workload in dataset.workloads("dsa_sparse_attention_h16_ckv512_kpe64_topk256_ps64"):
        for row in tensor(dataset, workload, "sparse_indices"):
            real = row[row >= 0]
            assert len(np.unique(real)) == len(real) and (row[len(real) :] == -1).all()
            assert real.max() < workload.axes["num_pages"] * 64


def test_block_tables_cover_their_sequences(dataset: Dataset) -> None:
    for workload in dataset.workloads("dsa_topk_indexer_fp8_h64_d128_topk256_ps64"):
        table, lengths = tensor(dataset, workload, "block_table"), tensor(dataset, workload, "seq_lens")
        assert table.shape == (workload.axes["batch_size"], workload.axes["max_num_pages"])
        assert max(-(-lengths.max() // 64), 256 // 64) == table.shape[1] and table.max() < workload.axes["num_pages"]


def test_positions_are_those_of_the_new_tokens(dataset: Dataset) -> None:
    for workload in dataset.workloads("rope_with_cos_sin_cache_neox_style_d64_rd64"):
        positions = tensor(dataset, workload, "positions")
        assert positions.dtype == np.int64 and len(positions) == workload.axes["num_tokens"]
        assert positions.min() >= 0 and positions.max() < workload.axes["max_seq_len"]


def test_few_experts_get_most_tokens_where_the_choice_is_stored(dataset: Dataset) -> None:
    largest = max(dataset.workloads("moe_bf16_topk8_e64"), key=lambda one: one.axes["num_tokens"])
    chosen = tensor(dataset, largest, "topk_ids")
    loads = np.sort(np.bincount(chosen.reshape(-1), minlength=64))
    assert loads[-8:].sum() > 1.5 * 8 / 64 * loads.sum() and all(len(set(row)) == 8 for row in chosen.tolist())


def kinds(dataset: Dataset, name: str) -> dict[str, Any]:
    workload = next(iter(dataset.workloads(name)))
    return {
        key: spec.distribution.model_dump(exclude_unset=True) if isinstance(spec, RandomInput) else spec.value  # type: ignore[union-attr]
        for key, spec in workload.inputs.items()
        if not isinstance(spec, SafetensorsInput)
    }


def test_values_fit_what_their_tensor_means(dataset: Dataset) -> None:
    norm = kinds(dataset, "fused_add_rmsnorm_h512")
    assert (norm["weight"]["low"] + norm["weight"]["high"]) / 2 == 1
    gemm = kinds(dataset, "gemm_fp8_n64_k128")
    assert gemm["A_scale"]["kind"] == gemm["B_scale"]["kind"] == "lognormal", "scales are positive"
    assert gemm["B_scale"]["mean"] < gemm["A_scale"]["mean"]
    sampling = kinds(dataset, "top_k_top_p_sampling_from_probs_v512")
    assert sampling["probs"] == {"kind": "softmax", "temperature": 0.25}
    assert 0 < sampling["top_p"]["low"] < sampling["top_p"]["high"] <= 1
    assert 1 <= sampling["top_k"]["low"] < sampling["top_k"]["high"] <= 512
    assert kinds(dataset, "gqa_paged_decode_h4_kv1_d128_ps16")["sm_scale"] == 1 / math.sqrt(128)
    assert kinds(dataset, "mla_paged_decode_h16_ckv512_kpe64_ps64")["sm_scale"] == 1 / math.sqrt(192)
    assert kinds(dataset, "mamba_ssu_decode_h8_d64_s128_ng4")["A"]["high"] < 0, "states decay"
    assert kinds(dataset, "embedding_v512_h128")["input_ids"] == {"kind": "randint", "low": 0, "high": 512}


def test_a_norm_over_heads_has_a_row_for_each_head(dataset: Dataset) -> None:
    rows = [workload.axes["batch_size"] for workload in dataset.workloads("rmsnorm_h128")]
    assert all(row % 32 == 0 for row in rows) and min(rows) == 32


def weights(dataset: Dataset, name: str) -> float:
    return sum(workload.weight or 0 for workload in dataset.workloads(name))


def test_weights_of_all_that_sees_every_step_are_equal_and_those_of_phases_are_parts(dataset: Dataset) -> None:
    steps = weights(dataset, "fused_add_rmsnorm_h512")
    assert (
        steps == weights(dataset, "silu_and_mul_i64") == weights(dataset, "rope_with_cos_sin_cache_neox_style_d64_rd64")
    )
    assert weights(dataset, "gqa_paged_decode_h4_kv1_d128_ps16") < steps
    assert weights(dataset, "gqa_ragged_prefill_causal_h4_kv1_d128") < steps


@pytest.fixture(scope="module")
def few(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_definitions(tmp_path_factory.mktemp("few"), tuple(one for one in DEFINITIONS if one.name in FEW))
    derive("--requests", traces, "--dataset", root)
    return root


def hidden(root: Path, out: Path, traces: Path, seed: str) -> list[tuple[str, Workload]]:
    derive("--requests", traces, "--dataset", root, "--split", "hidden", "--seed", seed, "--out", out)
    opened = Dataset.open(out)
    return [(name, one) for name in opened.definitions for one in opened.workloads(name) if one.split == "hidden"]


def test_hidden_workloads_are_other_calls_and_depend_on_the_secret(few: Path, traces: Path, tmp_path: Path) -> None:
    before = content(few)
    first, _, other = (
        hidden(few, tmp_path / folder, traces, seed) for folder, seed in (("a", "one"), ("b", "one"), ("c", "two"))
    )
    assert content(few) == before, "the public dataset stays as it is"
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert {workload.uuid for _, workload in first} != {workload.uuid for _, workload in other}
    opened = Dataset.open(few)
    public = {(name, workload.hash()) for name in FEW for workload in opened.workloads(name)}
    assert not public & {(name, workload.hash()) for name, workload in first}
    counts = [sum(name == one for one, _ in first) for name in FEW]
    assert all(1 <= count <= COUNT_HIDDEN for count in counts), counts


def test_the_hidden_dataset_has_all_that_a_service_syncs(few: Path, traces: Path, tmp_path: Path) -> None:
    hidden(few, tmp_path / "service", traces, "secret")
    opened, shipped = Dataset.open(tmp_path / "service"), Dataset.open(few)
    assert set(opened.definitions) == set(shipped.definitions) and opened.problems() == []
    for name in FEW:
        public = [one for one in opened.workloads(name) if one.split == "public"]
        assert [one.hash() for one in public] == [one.hash() for one in shipped.workloads(name)]
    derive("--requests", traces, "--dataset", tmp_path / "service", "--definition", FEW[0])
    kept = [one for one in Dataset.open(tmp_path / "service").workloads(FEW[0]) if one.split == "hidden"]
    assert kept, "a new public split leaves the hidden one"


def test_hidden_workloads_never_enter_a_repository(derived: Path, traces: Path, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    told = refused(
        "--requests",
        traces,
        "--dataset",
        derived,
        "--split",
        "hidden",
        "--seed",
        "x",
        "--out",
        tmp_path / "deep" / "er",
    )
    assert "is in the repository" in told and not (tmp_path / "deep").exists()
    assert "secret --seed" in refused("--requests", traces, "--dataset", derived, "--split", "hidden")


def test_a_secret_may_come_from_the_environment(
    few: Path, traces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("--requests", traces / "AzureLLMInferenceTrace_conv.csv", "--dataset", few, "--split", "hidden")
    derive(*asked, "--out", tmp_path / "a", "--seed", "one")
    monkeypatch.setenv("KERNELMILL_HIDDEN_SEED", "one")
    derive(*asked, "--out", tmp_path / "b")
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_an_op_type_without_a_recipe_is_named(traces: Path, tmp_path: Path) -> None:
    odd = define("allreduce_h8", "allreduce", "num_tokens", {"x": ("num_tokens", "bfloat16")}, "num_tokens")
    root = write_definitions(tmp_path, (odd,))
    told = refused("--requests", traces, "--dataset", root)
    assert "allreduce_h8: no recipe says how the op type 'allreduce' is called" in told and "rmsnorm" in told


@pytest.mark.parametrize(
    ("sizes", "inputs", "message"),
    [
        ("num_tokens width", {"x": ("num_tokens,width", "bfloat16")}, "no rule sizes the axis 'width'"),
        ("num_tokens", {"x": ("num_tokens", "int32")}, "no rule gives the index tensor 'x'"),
        ("num_tokens", {"x": ("num_tokens", "bfloat16"), "alpha": ("-", "float32")}, "gives the number 'alpha'"),
    ],
)
def test_what_no_rule_knows_is_named(
    sizes: str, inputs: dict[str, tuple[str, str]], message: str, traces: Path, tmp_path: Path
) -> None:
    root = write_definitions(tmp_path, (define("odd", "activation", sizes, inputs, "num_tokens"),))
    assert message in refused("--requests", traces / "AzureLLMInferenceTrace_conv.csv", "--dataset", root)


def test_an_unknown_definition_is_named(derived: Path, traces: Path) -> None:
    assert "no definition is called nothing here" in refused(
        "--requests", traces, "--dataset", derived, "-d", "nothing"
    )


def test_the_demo_slice_follows_its_workloads(traces: Path, tmp_path: Path) -> None:
    root = write_definitions(tmp_path, DEFINITIONS[:2])
    (root / "demo.json").write_text(json.dumps({NAMES[0]: ["old"]}))
    derive("--requests", traces, "--dataset", root)
    demo = json.loads((root / "demo.json").read_text())
    found = {workload.uuid: workload for workload in Dataset.open(root).workloads(NAMES[0])}
    assert list(demo) == [NAMES[0]] and len(demo[NAMES[0]]) == 3 and set(demo[NAMES[0]]) <= set(found)
    assert max(found[uuid].axes["batch_size"] for uuid in demo[NAMES[0]]) <= 128


def test_compacting_keeps_order_and_sharing() -> None:
    tables, pages = compact([np.array([900, 17, 5000]), np.array([17, 2])])
    assert tables[0][1] == tables[1][0]
    ranks = [2, 1, 3, 1, 0]
    flat = np.concatenate(tables)
    assert np.argsort(np.argsort(np.unique(flat)))[np.searchsorted(np.unique(flat), flat)].tolist() == ranks
    assert flat.max() < pages <= 4 + 1 + 2
