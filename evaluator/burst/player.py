"""The worker's side of bursts: capture the calls in graphs, wait at the shared page, play. Runs beside foreign code."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence

from kernelmill.evaluator.protocol import ARMED, DONE_WORD, FAILED, GO_WORD, OK, STATUS_BYTE, WORD

EMPTY = bytes(WORD)
Once = Callable[[], None]
"""One call, its arguments bound."""


class Player:
    """The bursts of one target. `captured` says whether they are graphs."""

    def __init__(self, calls: Sequence[Once], lengths: Sequence[int], page: mmap.mmap, device: str) -> None:
        self._page = page
        self._on_gpu = device != "cpu"
        self.captured = False
        calls[0]()  # whatever is compiled or tuned at the first call is, before anything is captured
        self._synchronize()
        bursts = _graphs(calls, lengths) if self._on_gpu else None
        self.captured = bursts is not None
        for burst in bursts or ():  # a graph's first replay takes longer: it is not the judge who waits for it
            burst()
        self._synchronize()
        self._bursts = bursts or [_eager(calls[:length]) for length in lengths]

    def _synchronize(self) -> None:
        if self._on_gpu:
            import torch

            torch.cuda.synchronize()

    def play(self, request_id: bytes, length: int) -> Exception | None:
        """Say that we wait, wait for the word, run, say done. What the calls raised is given back."""
        page, burst, synchronize = self._page, self._bursts[length], self._synchronize
        page[ARMED : ARMED + WORD] = request_id
        while page[GO_WORD : GO_WORD + WORD] == EMPTY:
            continue
        raised = None
        try:
            burst()
            synchronize()
        except Exception as error:  # the boundary to foreign code
            raised = error
        page[STATUS_BYTE] = FAILED if raised else OK
        page[DONE_WORD : DONE_WORD + WORD] = page[GO_WORD : GO_WORD + WORD]
        return raised


def _eager(calls: Sequence[Once]) -> Once:
    def burst() -> None:
        for call in calls:
            call()

    return burst


def _graphs(calls: Sequence[Once], lengths: Sequence[int]) -> list[Once] | None:
    """None where the calls cannot be captured: they synchronise, or look at values on the host."""
    import torch

    graphs: list[Once] = []
    try:
        for length in lengths:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for call in calls[:length]:
                    call()
            graphs.append(graph.replay)
    except Exception:  # the boundary to foreign code; the eager burst will say what is really wrong
        torch.cuda.synchronize()
        return None
    return graphs
