"""What has happened so far, as JSON and as Prometheus text."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelmill.apply.runtime import Runtime

EVERY_S = 5.0


def snapshot(runtime: Runtime) -> dict[str, Any]:
    """Counts by definition and kernel. They are taken without a lock, so two threads may lose one between them."""
    definitions = {}
    for name, served in runtime.served.items():
        kernels: dict[str, dict[str, Any]] = {}
        for at, breaker in enumerate(served.breakers):
            kernels[breaker.solution] = {
                "solution_hash": breaker.solution_hash,
                "served": sum(calls for own, _, calls in served.calls() if own is breaker),
                "looked_at": served.looked_at[at].count,
                "compared": served.trials[at].compared,
                "incomparable": served.trials[at].incomparable,
                "is_tripped": breaker.is_tripped,
                "cause": breaker.cause,
                "detail": breaker.detail,
            }
        definitions[name] = {
            "kernels": kernels,
            "uncovered": served.dispatcher.uncovered.count,
            "unfit": served.dispatcher.unfit.count,
            "failed": served.failed.count,
            "ranges": [
                {"kernel": breaker.solution, "sizes": served.dispatcher.grid.span(cell), "served": calls}
                for breaker, cell, calls in served.calls()
                if calls
            ],
        }
    shapes = [{"op": op, "shape": list(shape), "calls": calls} for (op, shape), calls in runtime.shapes.items()]
    return {"pid": os.getpid(), "device": runtime.device, "definitions": definitions, "engine_calls": shapes}


def prometheus_text(runtime: Runtime) -> str:
    """The same numbers in the text format that Prometheus scrapes."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

    told = snapshot(runtime)
    calls = CounterMetricFamily("kernelmill_apply_calls", "Calls by what served them", labels=("definition", "by"))
    tripped = GaugeMetricFamily(
        "kernelmill_apply_tripped", "1 where the breaker is open", labels=("definition", "kernel")
    )
    for name, one in told["definitions"].items():
        for kind in ("uncovered", "unfit", "failed"):
            calls.add_metric((name, kind), one[kind])
        for kernel, counts in one["kernels"].items():
            calls.add_metric((name, kernel), counts["served"])
            calls.add_metric((name, f"{kernel} (looked at)"), counts["looked_at"])
            tripped.add_metric((name, kernel), float(counts["is_tripped"]))

    class Collector:
        def collect(self) -> list[Metric]:
            return [calls, tripped]

    registry = CollectorRegistry()
    registry.register(Collector())
    return generate_latest(registry).decode()


def write_metrics(runtime: Runtime, folder: Path) -> None:
    """`<pid>.json` and, where prometheus-client is installed, `<pid>.prom`, each whole or not at all."""
    texts = {"json": json.dumps(snapshot(runtime), indent=1) + "\n"}
    with contextlib.suppress(ImportError):
        texts["prom"] = prometheus_text(runtime)
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, text in texts.items():
        new = folder / f"{os.getpid()}.{suffix}.new"
        new.write_text(text)
        new.replace(folder / f"{os.getpid()}.{suffix}")


def keep_writing(runtime: Runtime, folder: Path) -> None:
    """Every few seconds, from a thread that keeps no process alive, and at the process's end."""

    def write() -> None:
        while not stopped.wait(EVERY_S):
            write_metrics(runtime, folder)

    stopped = threading.Event()
    write_metrics(runtime, folder)
    threading.Thread(target=write, name="kernelmill metrics", daemon=True).start()
    atexit.register(write_metrics, runtime, folder)
