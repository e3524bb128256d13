"""What a solution's traces say of how far they can be trusted, and of the sittings that they come from. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median

from kernelmill.evaluator.report import wording
from kernelmill.evaluator.statistics import MIN_SESSIONS
from kernelmill.trace_schema import Evaluation, Trace, Verdict

ACCUSED = (Verdict.CHEAT_DETECTED, Verdict.SUSPECT, Verdict.RULE_VIOLATION)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that holds or not; None where the traces do not tell."""

    name: str
    holds: bool | None
    found: str


@dataclass(frozen=True, slots=True)
class Sitting:
    """Traces that shared workers, inputs and the baseline's runs."""

    session: str | None
    begun: str
    judge: str | None
    sandbox: str | None
    clock: str | None
    verdicts: Mapping[str, int]
    ratio: float | None
    """The middle one of its workloads."""


def checks(traces: Sequence[Trace], verdicts: Mapping[str, int]) -> list[Check]:
    """Of one device's traces; `verdicts` counts those of every device."""
    judged = [trace.evaluation for trace in traces if trace.evaluation]
    return [_accusations(verdicts), _sandbox(judged), _clock(judged), _outputs(judged), _floor(judged), _fresh(judged)]


def _accusations(verdicts: Mapping[str, int]) -> Check:
    accused = {str(each): verdicts[each] for each in ACCUSED if verdicts.get(each)}
    said = wording.counts(accused) if accused else f"none of its {wording.some(sum(verdicts.values()), 'verdict')}"
    return Check("Not caught: cheating, impossible times, broken rules", not accused if verdicts else None, said)


def _sandbox(judged: Sequence[Evaluation]) -> Check:
    kinds = sorted({each.environment.sandbox or "none" for each in judged})
    return Check("Kept apart from the judge", "none" not in kinds if kinds else None, ", ".join(kinds) or "not known")


def _clock(judged: Sequence[Evaluation]) -> Check:
    clocks = sorted({each.evidence.clock for each in judged if each.evidence and each.evidence.clock})
    holds = all(clock.startswith("judge") for clock in clocks) if clocks else None
    return Check("Timed by a clock that it cannot touch", holds, "; ".join(clocks) or "not known")


def _outputs(judged: Sequence[Evaluation]) -> Check:
    """Of what was timed, each call's outputs may be looked at: which ones, nobody knows before."""
    calls = [each.evidence.verified_calls for each in judged if each.evidence and each.evidence.verified_calls]
    if not calls:
        return Check("Outputs checked of calls with fresh inputs", None, "not known")
    return Check("Outputs checked of calls with fresh inputs", True, f"{sum(calls)}, {min(calls)} or more a workload")


def _floor(judged: Sequence[Evaluation]) -> Check:
    name = "Slower than the device's physical limit"
    above = [
        each.statistics.median_ms / each.evidence.floor_ms
        for each in judged
        if each.statistics and each.statistics.median_ms and each.evidence and each.evidence.floor_ms
    ]
    if not above:
        return Check(name, None, "not known")
    return Check(name, min(above) >= 1, f"the nearest median takes {min(above):.3g} times the least time")


def _fresh(judged: Sequence[Evaluation]) -> Check:
    sessions = [each.statistics.sessions for each in judged if each.statistics and each.statistics.sessions]
    name = f"{MIN_SESSIONS} sessions or more with fresh processes"
    if not sessions:
        return Check(name, None, "not known")
    span = f"{min(sessions)} to {max(sessions)}" if min(sessions) < max(sessions) else f"{min(sessions)}"
    return Check(name, min(sessions) >= MIN_SESSIONS, f"{span} for each workload")


def sittings(traces: Sequence[Trace]) -> list[Sitting]:
    """The latest first."""
    groups: dict[str | None, list[Evaluation]] = {}
    for each in (trace.evaluation for trace in traces if trace.evaluation):
        groups.setdefault(each.subject.session if each.subject else None, []).append(each)
    found = [_sitting(session, judged) for session, judged in groups.items()]
    return sorted(found, key=lambda sitting: sitting.begun, reverse=True)


def ordered(traces: Sequence[Trace]) -> list[Trace]:
    """Sittings stay in their order, and each of them goes from small workloads to large ones."""
    places: dict[str | None, int] = {}
    for trace in traces:
        places.setdefault(_session(trace), len(places))
    return sorted(traces, key=lambda trace: (places[_session(trace)], tuple(trace.workload.axes.values())))


def _session(trace: Trace) -> str | None:
    subject = trace.evaluation.subject if trace.evaluation else None
    return subject.session if subject else None


def _sitting(session: str | None, judged: Sequence[Evaluation]) -> Sitting:
    first = min(judged, key=lambda each: each.timestamp)
    ratios = [each.statistics.ratio for each in judged if each.statistics and each.statistics.ratio]
    known = [ratio for ratio in ratios if isfinite(ratio)]
    return Sitting(
        session=session,
        begun=first.timestamp,
        judge=first.subject.judge_version if first.subject else None,
        sandbox=first.environment.sandbox,
        clock=first.evidence.clock if first.evidence else None,
        verdicts=Counter(str(each.effective_verdict) for each in judged),
        ratio=median(known) if known else None,
    )
