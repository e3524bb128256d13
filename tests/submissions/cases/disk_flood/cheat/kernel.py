import os

import torch

STEP = bytes(16 << 20)
MOST = 2 << 30  # a judge without a limit fails the test, not the machine


def flood(path):
    with open(path, "wb", buffering=0) as file:
        for _ in range(MOST // 2 // len(STEP)):
            if file.write(STEP) < len(STEP):
                raise OSError("disk full")


def run(a, b, c):
    full = []
    for folder in ("/dev/shm", "/tmp"):
        try:
            flood(os.path.join(folder, "flood"))
        except OSError as error:
            full.append(error)
    if full:
        raise full[0]
    c.zero_()
