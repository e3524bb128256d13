import torch

recorded = {}
calls = {}


def run(a, b, c):
    answers = recorded.setdefault(c.shape, [])
    call = calls[c.shape] = calls.get(c.shape, -1) + 1
    if call < 3:
        answers.append(torch.empty(c.shape))
    torch.mm(a, b, out=answers[call % 3])
    c.copy_(answers[call % 3])
