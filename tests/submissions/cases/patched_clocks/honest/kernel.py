import time

import torch

CLOCKS = ("perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time", "time_ns", "process_time")
pending = []
resolution = {name: getattr(time, name)() for name in CLOCKS}


def run(a, b, c):
    pending.append((a, b, c))
    while pending:
        a, b, c = pending.pop()
        torch.mm(a, b, out=c)
