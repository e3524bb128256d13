"""Our schema beside the public package's own (flashinfer-bench, run in a child process).

What we accept and write, it accepts; what it accepts, we accept; and both write the same values in the fields that both
know. Where we differ on purpose is listed in STRICTER, with the fault of the public schema that is the reason.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from kernelmill.trace_schema import Definition, Model, Solution, Trace, Workload
from tests import builders
from tests.trace_schema import public_package, strategies
from tests.trace_schema.test_round_trip import same

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Rule:
    """What we refuse and the public package takes: a pattern of our complaint, why, and an example."""

    complaint: str
    why: str
    model: str
    example: dict[str, Any]


def _workload(**change: Any) -> dict[str, Any]:
    return builders.raw_workload(**change)


def _files(*paths: str, entry: str = "main.py::run") -> dict[str, Any]:
    sources = [{"path": path, "content": "x"} for path in ("main.py", *paths)]
    return builders.raw_solution(sources=sources, spec={"entry_point": entry})


_COERCION = "lax coercion: another value is written back than was read"
_UNION = "an undiscriminated union takes a misspelt input or axis for a random one or a variable one"
_ESCAPE = "a source path that may leave its directory, or can't be written everywhere"
_OURS = "a field of ours, unknown there"
STRICTER = [
    Rule("a whole number is needed, not (true|false)", _COERCION, "Workload", _workload(axes={"n": True})),
    Rule("a whole number is needed, not the text", _COERCION, "Workload", _workload(axes={"n": "3"})),
    Rule("a number .*is needed, not", _COERCION, "Workload", _workload(inputs={"x": {"type": "scalar", "value": "3"}})),
    Rule("valid boolean", _COERCION, "Solution", builders.raw_solution(spec={"destination_passing_style": 1})),
    Rule(r"\.safetensors\.", _UNION, "Workload", _workload(inputs={"x": {"path": "a", "tensorkey": "b"}})),
    Rule(r"\.scalar\.", _UNION, "Workload", _workload(inputs={"x": {"value": None}})),
    Rule(
        r"\.const\.",
        _UNION,
        "Definition",
        builders.raw_definition(axes={"batch_size": {}, "hidden_size": {"value": -1}}),
    ),
    Rule("control character", _ESCAPE, "Solution", _files("a\x00.py")),
    Rule("Windows path", _ESCAPE, "Solution", _files("C:/windows/a.py")),
    Rule("Windows path", _ESCAPE, "Solution", _files("..\\a.py")),
    Rule("empty component", _ESCAPE, "Solution", _files("a//b.py")),
    Rule("names no file", _ESCAPE, "Solution", _files("a/.")),
    Rule("longer than 255 bytes", _ESCAPE, "Solution", _files("a" * 256)),
    Rule("duplicate source path", _ESCAPE, "Solution", _files("./main.py")),
    Rule("duplicate source path", _ESCAPE, "Solution", _files("MAIN.py")),
    Rule("is a file and also the directory of", _ESCAPE, "Solution", _files("main.py/a.py")),
    Rule('is not "<file>::<function>"', "an entry point without a function", "Solution", _files(entry="main.py::")),
    Rule("comparator", _OURS, "Definition", builders.raw_definition(comparator=3)),
    Rule("needs status", _OURS, "Trace", builders.raw_trace(evaluation={"verdict": "SUSPECT"})),
]


def as_error(value: Any) -> Any:
    """Errors are doubles there, non-finite ones texts."""
    return value if isinstance(value, str) else float(value)


def as_scalar(value: Any) -> Any:
    """A non-finite number that isn't an error is written as null there, which can't be read back."""
    return None if value in ("NaN", "Infinity", "-Infinity") else value


def as_time(value: Any) -> Any:
    """Times are doubles there, and null where infinite."""
    return None if as_scalar(value) is None else float(value)


# Fields of the public schema and how it writes them; {"*": ...} is a map, [...] a list.
TENSOR = {"shape": None, "dtype": None, "description": None}
INPUT: dict[str, Any] = {"type": None, "path": None, "tensor_key": None, "value": as_scalar}
WORKLOAD = {"uuid": None, "axes": None, "inputs": {"*": INPUT}}
SOLUTION_SPEC = dict.fromkeys(
    ["language", "target_hardware", "entry_point", "dependencies", "destination_passing_style", "binding"]
)
EVALUATION: dict[str, Any] = {
    "status": None,
    "environment": {"hardware": None, "libs": None},
    "timestamp": None,
    "log": None,
    "correctness": {"max_relative_error": as_error, "max_absolute_error": as_error, "extra": None},
    "performance": {"latency_ms": as_time, "reference_latency_ms": as_time, "speedup_factor": as_time},
}
PUBLIC: dict[str, dict[str, Any]] = {
    "Definition": {
        **dict.fromkeys(["name", "op_type", "reference", "tags", "description", "constraints"]),
        "axes": {"*": {"type": None, "value": None, "description": None}},
        "inputs": {"*": TENSOR},
        "outputs": {"*": TENSOR},
    },
    "Workload": WORKLOAD,
    "Solution": {
        **dict.fromkeys(["name", "definition", "author", "description"]),
        "spec": SOLUTION_SPEC,
        "sources": [{"path": None, "content": None}],
    },
    "Trace": {"definition": None, "solution": None, "workload": WORKLOAD, "evaluation": EVALUATION},
}
MODELS: dict[str, tuple[type[Model], st.SearchStrategy[dict[str, Any]]]] = {
    "Definition": (Definition, strategies.definitions()),
    "Workload": (Workload, strategies.workloads()),
    "Solution": (Solution, strategies.solutions()),
    "Trace": (Trace, strategies.traces()),
}


class PublicPackage:
    """The child process."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", public_package.__file__]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **question: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def public() -> Iterator[PublicPackage]:
    if importlib.util.find_spec(public_package.NAME) is None:
        pytest.skip("flashinfer-bench is not installed: pip install --no-deps flashinfer-bench")
    package = PublicPackage()
    yield package
    package.close()


def restrict(raw: Any, spec: Any) -> Any:
    """`raw` as the public package would write it back: without what it doesn't know."""
    if raw is None or spec is None:
        return raw
    if callable(spec):
        return spec(raw)
    if isinstance(spec, list):
        return [restrict(item, spec[0]) for item in raw]
    if "*" in spec:
        return {key: restrict(item, spec["*"]) for key, item in raw.items()}
    return {key: restrict(raw[key], inner) for key, inner in spec.items() if key in raw}


@pytest.mark.parametrize("name", MODELS)
def test_what_we_accept_and_write_is_accepted_there(public: PublicPackage, name: str) -> None:
    model, raws = MODELS[name]

    @settings(max_examples=250)
    @given(raws)
    def compare(raw: dict[str, Any]) -> None:
        written = model.model_validate(raw).model_dump_json(exclude_unset=True)
        answer = public.ask(model=name, text=written)
        assert answer["accepted"], answer
        theirs = json.loads(answer["written"])
        assert same(theirs, restrict(json.loads(written), PUBLIC[name]))
        if '"value":null' not in answer["written"]:
            assert same(builders.plain(model.model_validate_json(answer["written"])), theirs)

    compare()


ODD: list[Any] = [None, True, False, 0, 1, -1, 2.5, 2.0, 2**53 + 1, "2", "true", "", " ", [], {}, [1], {"a": 1}]
ODD += ["NaN", "-Infinity", float("inf"), float("nan"), -0.0, "C:x", "a/../b", "/a", "a//b", "a\\b", "./main.py", "::"]
ODD += [
    {"type": "random"},
    {"value": 1},
    {"path": "a"},
    {"path": "a", "tensor_key": "b"},
    {"type": "var"},
    "var",
    "scalar",
]


def places(raw: Any, spec: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of the public fields of a record, nested ones included."""
    if path:
        yield path
    if isinstance(raw, dict):
        for key, item in raw.items():
            if spec is None or "*" in spec or key in spec:
                yield from places(item, None if spec is None else spec.get("*", spec.get(key)), (*path, key))
    elif isinstance(raw, list):
        for index, item in enumerate(raw):
            yield from places(item, spec[0] if isinstance(spec, list) else None, (*path, index))


def broken(raw: dict[str, Any], spec: Any, draw: st.DataObject) -> dict[str, Any]:
    """`raw` with one public field removed or replaced by something odd."""
    changed: dict[str, Any] = json.loads(json.dumps(raw))
    *path, last = draw.draw(st.sampled_from(list(places(changed, spec))))
    parent: Any = changed
    for key in path:
        parent = parent[key]
    if draw.draw(st.integers(0, 4)) == 0:
        del parent[last]
    else:
        parent[last] = draw.draw(st.sampled_from(ODD))
    return changed


def read_here(model: type[Model], text: str) -> tuple[Model | None, list[str]]:
    """The record, or what we refuse in it, each with its place."""
    try:
        return model.model_validate_json(text), []
    except ValidationError as error:
        return None, [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]


@pytest.mark.parametrize("name", MODELS)
def test_both_accept_the_same_but_for_the_rules(public: PublicPackage, name: str) -> None:
    model, raws = MODELS[name]

    @settings(max_examples=350)
    @given(raws, st.data())
    def compare(raw: dict[str, Any], data: st.DataObject) -> None:
        text = json.dumps(broken(raw, PUBLIC[name], data))
        answer = public.ask(model=name, text=text)
        record, complaints = read_here(model, text)
        if not answer["accepted"]:
            assert record is None, (answer["error"], text)
        elif record is None:
            assert all(any(re.search(rule.complaint, each) for rule in STRICTER) for each in complaints), text
        else:
            assert same(json.loads(answer["written"]), restrict(builders.plain(record), PUBLIC[name]))

    compare()


@pytest.mark.parametrize("rule", STRICTER, ids=lambda rule: rule.complaint)
def test_each_rule_is_a_difference(public: PublicPackage, rule: Rule) -> None:
    text = json.dumps(rule.example)
    assert public.ask(model=rule.model, text=text)["accepted"], rule.why
    record, complaints = read_here(MODELS[rule.model][0], text)
    assert record is None
    assert all(re.search(rule.complaint, each) for each in complaints), complaints


def write(root: Path, place: str, *records: Model) -> None:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(each.model_dump_json(exclude_unset=True) for each in records) + "\n", encoding="utf-8")


def make_dataset(root: Path) -> None:
    """A definition, a baseline, a fast solution, a failed one and one judged without times, as we write them."""
    definition = builders.definition(
        comparator={"kind": "elementwise"},
        cost={"bytes": "8 * batch_size"},
        inputs={
            **builders.raw_definition()["inputs"],
            "weight": {"shape": ["hidden_size"], "dtype": "float32", "role": "static"},
        },
    )
    write(root, "definitions/rmsnorm/rmsnorm_h8.json", definition)
    workload = {"weight": 12.5, "seed": 2**53 + 1, "split": "public", "provenance": {"kind": "engine"}}
    write(root, "workloads/rmsnorm/rmsnorm_h8.jsonl", builders.trace(workload=workload, evaluation=None))
    judged: dict[str, dict[str, Any]] = {
        "baseline": {"performance": {"latency_ms": 2.0, "reference_latency_ms": 4.0, "speedup_factor": 2.0}},
        "alice": {},
        "bob": {
            "status": "RUNTIME_ERROR",
            "verdict": "CHEAT_DETECTED",
            "reason": "cached",
            "subject": {"session": "s"},
        },
        "carol": {"performance": {}, "statistics": None, "evidence": {"clock": "none (triton interpreter)"}},
    }
    for author, evaluation in judged.items():
        solution = builders.solution(name=f"by_{author}", author=author, license="MIT", derived_from="by_baseline")
        write(root, f"solutions/{author}/rmsnorm/rmsnorm_h8/by_{author}.json", solution)
        trace = builders.trace(workload=workload, solution=f"by_{author}", evaluation=evaluation)
        write(root, f"traces/{author}/rmsnorm/rmsnorm_h8.jsonl", trace)


def read(root: Path, folder: str, model: type[Model]) -> list[Model]:
    lines = [
        line for path in (root / folder).rglob("*.jsonl") for line in path.read_text(encoding="utf-8").splitlines()
    ]
    whole = [path.read_text(encoding="utf-8") for path in (root / folder).rglob("*.json")]
    return [model.model_validate_json(text) for text in (*lines, *whole)]


def test_a_dataset_that_we_wrote_is_loaded_ranked_and_saved_there(public: PublicPackage, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    make_dataset(ours)
    answer = public.ask(dataset=str(ours), resaved=str(theirs))
    assert answer["counts"] == {"definitions": 1, "solutions": 4, "workloads": 1, "traces": 4}
    assert answer["best"] == {"rmsnorm_h8": "by_alice"}
    assert answer["summary"]["passed"] == 3
    for folder, model in (
        ("definitions", Definition),
        ("solutions", Solution),
        ("workloads", Trace),
        ("traces", Trace),
    ):
        name = model.__name__
        before = [restrict(builders.plain(each), PUBLIC[name]) for each in read(ours, folder, model)]
        after = [restrict(builders.plain(each), PUBLIC[name]) for each in read(theirs, folder, model)]
        assert len(before) == len(after)
        for record in before:
            assert any(contains(each, record) for each in after), record


def contains(whole: Any, part: Any) -> bool:
    """Whether `whole`, which may hold defaults written out, says all that `part` says."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(key in whole and contains(whole[key], item) for key, item in part.items())
    return same(whole, part)
