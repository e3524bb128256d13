"""A made-up dataset of realistic size and variety, in memory or on disk: `python -m tests.evaluator.fabricated DIR`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import exp
from pathlib import Path
from random import Random

from kernelmill.trace_schema import Definition, Solution, Trace, Workload
from tests.evaluator.records import CPU, a_definition, a_public_trace, a_solution, a_trace

KERNELS = {
    "rmsnorm_h4096": ("rmsnorm", 0.05),
    "fused_add_rmsnorm_h4096": ("rmsnorm", 0.35),
    "gemm_n4096_k4096": ("gemm", -0.25),
    "gemm_n28672_k4096": ("gemm", -0.1),
    "gqa_paged_decode_h32_kv8_d128_ps1": ("gqa_paged", 0.75),
    "gqa_paged_prefill_causal_h32_kv8_d128_ps1": ("gqa_paged", 0.3),
    "gqa_ragged_prefill_causal_h32_kv8_d128": ("gqa_ragged", 0.15),
    "mla_paged_decode_h16_ckv512_kpe64_ps1": ("mla_paged", 0.9),
    "moe_fp8_block_scale_ds_routing_topk8_ng8_kg4_e32_h7168_i2048": ("moe", 1.1),
    "rope_with_cos_sin_cache_neox_style_d128_rd64": ("rope", 0.5),
    "silu_and_mul_h14336": ("activation", 0.2),
    "top_p_sampling_from_probs_v128256": ("sampling", 0.6),
}
WRITERS = {"agent-mill": ("cpp", 0.12), "vector-guild": ("cpp", 0.05), "night-shift": ("triton", -0.1)}
SIZES = (1, 2, 4, 8, 16, 64, 256, 1024, 4096)
FAILURES = {
    ("vector-guild", "gemm_n4096_k4096", 7): (
        "INCORRECT_NUMERICAL",
        "3.1 % of the elements are outside the error bound",
    ),
    ("vector-guild", "gqa_paged_prefill_causal_h32_kv8_d128_ps1", 8): ("TIMEOUT", "no answer within 60 s"),
    ("night-shift", "mla_paged_decode_h16_ckv512_kpe64_ps1", 0): ("RUNTIME_ERROR", "the worker was killed by SIGSEGV"),
    ("night-shift", "top_p_sampling_from_probs_v128256", 4): (
        "CHEAT_DETECTED",
        "the outputs changed after it had answered",
    ),
    ("agent-mill", "silu_and_mul_h14336", 2): ("RESOURCE_EXCEEDED", "more than 2048 MiB of memory"),
}


@dataclass
class Fabricated:
    """Offers what a report reads of a Dataset."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    loads: dict[str, list[Workload]] = field(default_factory=dict)
    solved: dict[str, list[Solution]] = field(default_factory=dict)
    judged: dict[str, list[Trace]] = field(default_factory=dict)

    def workloads(self, definition: Definition) -> Iterator[Workload]:
        return iter(self.loads.get(definition.name, []))

    def solutions(self, definition: Definition) -> Iterator[Solution]:
        return iter(self.solved.get(definition.name, []))

    def traces(self, definition: Definition) -> Iterator[Trace]:
        return iter(self.judged.get(definition.name, []))

    def write(self, root: Path) -> Path:
        """Lays it out as a dataset folder."""
        for name, definition in self.definitions.items():
            _write(
                root / f"definitions/{definition.op_type}/{name}.json", definition.model_dump_json(exclude_unset=True)
            )
            lines = [Trace(definition=name, workload=load) for load in self.loads[name]]
            _write(root / f"workloads/{definition.op_type}/{name}.jsonl", *map(_line, lines))
            for solution in self.solved[name]:
                folder = f"{solution.author}/{definition.op_type}/{name}"
                text = solution.model_dump_json(exclude_unset=True)
                _write(root / f"solutions/{folder}/{solution.name}.json", text)
                own = [trace for trace in self.judged[name] if trace.solution == solution.name]
                if own:
                    _write(root / f"traces/{folder}.jsonl", *map(_line, own))
        return root


def fabricate(device: str = CPU, kernels: Mapping[str, tuple[str, float]] = KERNELS, seed: int = 7) -> Fabricated:
    random, made = Random(seed), Fabricated()
    for name, (op_type, difficulty) in kernels.items():
        definition = a_definition(name, op_type=op_type)
        loads = [_workload(name, size) for size in SIZES]
        baseline = a_solution(f"torch__{name}", author="baseline", definition=name)
        made.definitions[name], made.loads[name] = definition, loads
        made.solved[name], made.judged[name] = [baseline], []
        for day, (author, (language, skill)) in enumerate(WRITERS.items(), 1):
            solution = a_solution(f"{author.split('-')[0]}_{name}", author=author, definition=name, language=language)
            made.solved[name].append(solution)
            made.judged[name] += _traces(random, definition, solution, loads, baseline, difficulty + skill, day, device)
    last = next(reversed(made.definitions))
    made.judged[last].append(a_public_trace(made.solved[last][1], made.loads[last][0]))
    stale = a_trace(
        made.solved[last][1], made.loads[last][0], 3.0, definition=made.definitions[last], solution_hash="0" * 64
    )
    made.judged[last].append(stale)
    return made


def _workload(definition: str, size: int) -> Workload:
    raw = {"uuid": f"{definition}-b{size}", "axes": {"batch": size}, "inputs": {"x": {"type": "random"}}}
    return Workload.model_validate({**raw, "weight": float(max(1, 4096 // size))})


def _traces(  # noqa: PLR0913
    random: Random,
    definition: Definition,
    solution: Solution,
    loads: list[Workload],
    baseline: Solution,
    gain: float,
    day: int,
    device: str,
) -> Iterator[Trace]:
    for at, load in enumerate(loads):
        verdict, reason = FAILURES.get((solution.author, definition.name, at), ("PASSED", None))
        ratio = exp(
            gain + random.gauss(0, 0.12) - 0.06 * at + (0.2 if solution.author == "vector-guild" and at > 5 else 0)
        )
        spread = abs(random.gauss(0.03, 0.02)) + 0.01
        baseline_ms = 0.004 * load.axes["batch"] ** 0.8 * exp(random.gauss(0, 0.01))
        yield a_trace(
            solution,
            load,
            ratio,
            ci=[ratio * exp(-spread), ratio * exp(spread)],
            verdict=verdict,
            reason=reason,
            baseline_ms=baseline_ms,
            roofline_ms=baseline_ms * 0.35 / exp(abs(gain)),
            definition=definition,
            baseline=baseline,
            device=device,
            sessions=1 if (solution.author, at) == ("night-shift", 3) else 3,
            timestamp=f"2026-04-{day:02}T0{at}:12:30+00:00",
            session=f"s{day}",
        )


def _write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def _line(trace: Trace) -> str:
    return trace.model_dump_json(exclude_unset=True)


if __name__ == "__main__":
    print(fabricate().write(Path(sys.argv[1])))
