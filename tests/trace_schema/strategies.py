"""Hypothesis strategies for raw records: valid, with hostile text, huge integers, NaN texts and unknown fields."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kernelmill.trace_schema import (
    AxisConst,
    AxisVar,
    Binding,
    BuildSpec,
    Comparator,
    Correctness,
    Cost,
    Definition,
    Device,
    Distribution,
    DType,
    Environment,
    Evaluation,
    Evidence,
    Language,
    Model,
    Performance,
    Provenance,
    RandomInput,
    SafetensorsInput,
    ScalarInput,
    Solution,
    SourceFile,
    Statistics,
    Status,
    Subject,
    TensorSpec,
    Trace,
    Verdict,
    Workload,
)

HOSTILE_TEXT = (
    "NaN",
    "null",
    "true",
    "-0",
    "__class__",
    "e\u0301 \u00e9",
    "\u202egnp.exe",
    "\ufeffbom",
    "line\u2028separator",
    "\x00\x1f",
    '"},{"',
    "\U0001d4b3",
    "../../etc/passwd",
    "\\u0000",
)
NUMBERS = (0, 1, 2**53 + 1, 2**64 + 1, 10**40, -(2**53) - 1, 0.1, 1e308, 5e-324)
METHOD_NAMES = ("hash", "model_dump", "model_fields", "copy", "__dict__", "__class__", "__pydantic_extra__", "self")

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.sampled_from(HOSTILE_TEXT)
maybe_empty = text | st.just("")
counts = st.integers(0, 2**70) | st.sampled_from([0, 2**53 + 1, 7.0])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(NUMBERS) | text,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(maybe_empty, children, max_size=3),
    max_leaves=6,
)
non_finite = st.sampled_from(["NaN", "Infinity"])
durations = st.floats(0, 1e6) | st.integers(0, 2**60) | st.just(2**53 + 1)
magnitudes = durations | non_finite


def extras(*known: str) -> st.SearchStrategy[dict[str, Any]]:
    """Unknown fields, some named like methods of a model; none of `known`."""
    names = (maybe_empty | st.sampled_from(METHOD_NAMES)).filter(lambda name: name not in known)
    return st.just({}) | st.dictionaries(names, json_values, max_size=2)


@st.composite
def record(
    draw: st.DrawFn,
    model: type[Model],
    required: dict[str, st.SearchStrategy[Any]],
    optional: dict[str, st.SearchStrategy[Any]] | None = None,
) -> dict[str, Any]:
    """A dict with the required fields, any of the optional ones (null is up to them) and unknown ones."""
    known = (*model.model_fields, "path", "tensor_key", "value", "distribution")
    unknown = draw(extras(*known))
    return {**draw(st.fixed_dictionaries(required, optional=optional or {})), **unknown}


def nullable(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The strategy, or null."""
    return st.none() | strategy


def enum(values: Any) -> st.SearchStrategy[str]:
    """The text of one of an enum's members."""
    return st.sampled_from([member.value for member in values])


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, Any]:
    """Definitions whose shapes use their axes, with and without our fields."""
    described = {"description": nullable(maybe_empty)}
    const = record(AxisConst, {"value": counts}, {"type": st.just("const"), **described})
    var = record(AxisVar, {}, {"type": st.just("var"), **described})
    axes = draw(st.dictionaries(text, const | var, max_size=4))
    shapes = st.lists(st.sampled_from(sorted(axes)), max_size=3) if axes else st.just([])
    tensor = record(
        TensorSpec,
        {"shape": nullable(shapes), "dtype": enum(DType)},
        {
            **described,
            "role": st.sampled_from(["static", "dynamic", None]),
            "layout": nullable(text),
            "optional": nullable(st.booleans()),
        },
    )
    tensors = draw(st.dictionaries(text, tensor, max_size=5))
    inputs = dict(list(tensors.items())[::2])
    constraint = st.sampled_from(["n == 1", "x.shape[0] > 2", "kv[-1].item() <= n and (1, 2)", "é < 2**53"])
    return draw(
        record(
            Definition,
            {
                "name": text,
                "op_type": text,
                "axes": st.just(axes),
                "inputs": st.just(inputs),
                "outputs": st.just({name: spec for name, spec in tensors.items() if name not in inputs}),
                "reference": st.sampled_from(["def run():\n    return 1", "import x\n\ndef run(é):\n  '''\u2028'''\n"]),
            },
            {
                "tags": st.lists(text, max_size=2),
                "description": nullable(maybe_empty),
                "constraints": st.lists(constraint, max_size=2),
                "comparator": nullable(
                    record(Comparator, {"kind": text}, {"params": st.dictionaries(text, json_values, max_size=2)})
                ),
                "cost": nullable(record(Cost, {}, {"bytes": nullable(st.just("2 * n")), "flops": st.just("n ** 2")})),
            },
        )
    )


def _distribution(kind: str, **params: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return record(Distribution, {"kind": st.just(kind)}, params)


_finite = st.floats(-1e6, 1e6) | st.integers(-(2**60), 2**60)
distributions = (
    _distribution("normal", mean=nullable(_finite), std=durations, column_std=durations)
    | _distribution("lognormal", mean=_finite)
    | _distribution("uniform", low=st.floats(-9, 0), high=st.floats(1, 9))
    | _distribution("softmax", temperature=st.floats(0.1, 9))
    | st.just({"kind": "randint", "low": -(2**53) - 1, "high": 2**53 + 1})
    | st.fixed_dictionaries({"kind": st.just("constant"), "value": _finite | non_finite | st.just("-Infinity")})
)


@st.composite
def workloads(draw: st.DrawFn) -> dict[str, Any]:
    """Workloads with every kind of input; `type` is often left out."""
    scalars = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | non_finite
    inputs = (
        record(RandomInput, {}, {"type": st.just("random"), "distribution": nullable(distributions)})
        | record(
            SafetensorsInput,
            {"path": text, "tensor_key": text},
            {"type": st.just("safetensors"), "sha256": nullable(text)},
        )
        | record(ScalarInput, {"value": scalars}, {"type": st.just("scalar")})
    )
    provenance = st.sampled_from(["request_trace", "engine", "region", "phase", "synthetic"])
    return draw(
        record(
            Workload,
            {
                "uuid": text,
                "axes": st.dictionaries(maybe_empty, counts, max_size=3),
                "inputs": st.dictionaries(maybe_empty, inputs, max_size=4),
            },
            {
                "weight": nullable(durations),
                "seed": nullable(st.integers()),
                "split": nullable(text),
                "provenance": nullable(record(Provenance, {"kind": provenance})),
            },
        )
    )


_file_names = st.text(
    st.characters(exclude_characters='/\\:"', exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6
)


@st.composite
def solutions(draw: st.DrawFn) -> dict[str, Any]:
    """Solutions of one to three files; numbered names keep them distinct on every file system."""
    names = draw(st.lists(_file_names, min_size=1, max_size=3))
    folders = ("", "./", "src/", "./a/./b/")
    paths = [f"{draw(st.sampled_from(folders))}{number}{name}.py" for number, name in enumerate(names)]
    sources = [draw(record(SourceFile, {"path": st.just(path), "content": text})) for path in paths]
    symbol = text.filter(lambda name: "::" not in f":{name}" and name.strip() != "")
    return draw(
        record(
            Solution,
            {
                "name": text,
                "definition": text,
                "author": text,
                "spec": record(
                    BuildSpec,
                    {
                        "language": enum(Language),
                        "target_hardware": st.lists(maybe_empty, min_size=1, max_size=2),
                        "entry_point": symbol.map(lambda name: f"{paths[-1]}::{name}"),
                    },
                    {
                        "dependencies": st.lists(text, max_size=2),
                        "destination_passing_style": st.booleans(),
                        "binding": nullable(enum(Binding)),
                    },
                ),
                "sources": st.just(sources),
            },
            {"description": nullable(maybe_empty), "license": nullable(text), "derived_from": nullable(text)},
        )
    )


def _measured() -> dict[str, st.SearchStrategy[Any]]:
    """Strategies for our own fields of an evaluation."""
    times = dict.fromkeys(["median_ms", "p10_ms", "p90_ms", "baseline_median_ms", "ratio"], nullable(durations))
    interval = nullable(st.sampled_from([[0, 1.5], [1, "Infinity"], [2**53, 2**53 + 1]]))
    statistics = {**times, "n": counts, "sessions": counts, "baseline": text, "ratio_ci95": interval}
    evidence = {"clock": text, "roofline_ms": durations, "verified_calls": counts}
    return {
        "reason": nullable(maybe_empty),
        "subject": nullable(record(Subject, {}, dict.fromkeys(Subject.model_fields, text))),
        "statistics": nullable(record(Statistics, {}, statistics)),
        "evidence": nullable(record(Evidence, {}, evidence)),
    }


def _environments() -> st.SearchStrategy[dict[str, Any]]:
    optional = {
        "libs": st.dictionaries(maybe_empty, maybe_empty, max_size=2),
        "device": nullable(record(Device, {}, {"name": text, "arch": text, "count": counts})),
        "clocks": nullable(st.dictionaries(text, json_values, max_size=2)),
        "sandbox": nullable(text),
    }
    return record(Environment, {"hardware": text}, optional)


@st.composite
def evaluations(draw: st.DrawFn) -> dict[str, Any]:
    """Evaluations that keep the presence rule, with and without our fields."""
    verdict = draw(st.sampled_from([each for each in Verdict if each is not Verdict.HARNESS_ERROR]))
    status = verdict.status
    required = {"status": st.just(status.value), "environment": _environments(), "timestamp": text}
    if status in (Status.PASSED, Status.INCORRECT_NUMERICAL):
        extra = nullable(st.dictionaries(maybe_empty, json_values | non_finite, max_size=2))
        errors = {"max_relative_error": magnitudes, "max_absolute_error": magnitudes, "extra": extra}
        required["correctness"] = record(Correctness, {}, errors)
    if status is Status.PASSED:
        times = dict.fromkeys(["latency_ms", "reference_latency_ms", "speedup_factor"], durations)
        required["performance"] = record(Performance, {}, times)
    verdicts = [verdict.value] if verdict != status.value else [verdict.value, None]
    return draw(record(Evaluation, required, {"log": maybe_empty, "verdict": st.sampled_from(verdicts), **_measured()}))


def traces() -> st.SearchStrategy[dict[str, Any]]:
    """Workload traces and evaluated ones."""
    return record(
        Trace,
        {"definition": text, "workload": workloads()},
        {"solution": nullable(maybe_empty), "evaluation": nullable(evaluations())},
    )
