import signal

import torch

pending = []


def work(*_):
    while pending:
        a, b, c = pending.pop()
        torch.mm(a, b, out=c)


signal.signal(signal.SIGALRM, work)


def run(a, b, c):
    pending.append((a, b, c))
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    work()
    signal.setitimer(signal.ITIMER_REAL, 0)
