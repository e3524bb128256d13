"""How long a plain stream of so many bytes takes in a burst of a CUDA graph, measured on this device by the judge.

No honest kernel that moves those bytes is much faster: the calls of a burst are separate nodes of one graph, each with
its start and its end. One kernel over all calls of a burst saves those, and is found out by being below.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import Any

import torch

SIZES = tuple(1 << shift for shift in (14, 18, 20, 22, 23, 24, 25, 26, 27, 28))
"""Bytes moved by a call, half of them read and half written."""
TARGET_S = 1.2e-3
BLOCK = 4096
REPEATS = 7


def kernel() -> Any:
    """Copies `count` bytes; compiled at its first launch."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def stream(source, target, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = index < count
        tl.store(target + index, tl.load(source + index, mask=inside), mask=inside)

    return stream


class StreamTimes:
    """Seconds of a call by the bytes it moves: measured sizes, and straight lines between them."""

    def __init__(self, device: str, l2_bytes: int) -> None:
        self._kernel = kernel()
        self._flush = torch.zeros(2 * l2_bytes, dtype=torch.int8, device=device)
        self._device = device
        self._sizes = list(SIZES)
        self._seconds = [self._measure(size) for size in SIZES]

    def seconds(self, size: float) -> float:
        place = bisect_left(self._sizes, size)
        if place == 0:
            return self._seconds[0]
        if place == len(self._sizes):
            return self._seconds[-1] * size / self._sizes[-1]
        low, high = self._sizes[place - 1 : place + 1]
        share = (size - low) / (high - low)
        return self._seconds[place - 1] * (1 - share) + self._seconds[place] * share

    def _measure(self, size: int) -> float:
        half = size // 2
        many = max(8, min(512, int(TARGET_S / (1.5e-6 + size / 4e12))))
        few = many // 4
        source = torch.randint(-100, 100, (many, half), dtype=torch.int8, device=self._device)
        target = torch.empty_like(source)
        graphs = [self._capture(source, target, count) for count in (few, many)]
        slopes = []
        for _ in range(REPEATS):
            short, long = (self._time(graph) for graph in graphs)
            slopes.append((long - short) / (many - few))
        return sorted(slopes)[REPEATS // 2]

    def _capture(self, source: torch.Tensor, target: torch.Tensor, count: int) -> torch.cuda.CUDAGraph:
        self._launch(source[0], target[0])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for slot in range(count):
                self._launch(source[slot], target[slot])
        return graph

    def _launch(self, source: torch.Tensor, target: torch.Tensor) -> None:
        count = source.numel() // 4
        grid = (-(-count // BLOCK),)
        self._kernel[grid](source.view(torch.int32), target.view(torch.int32), count, BLOCK=BLOCK, num_warps=8)

    def _time(self, graph: torch.cuda.CUDAGraph) -> float:
        self._flush.zero_()
        torch.cuda.synchronize()
        start = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        return time.perf_counter() - start
