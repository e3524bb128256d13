import torch


def norm(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-5)


own = torch.cuda.Stream()


def run(x, weight, out):
    callers = torch.cuda.current_stream()
    own.wait_stream(callers)
    with torch.cuda.stream(own):
        out.copy_(norm(x, weight))
    callers.wait_stream(own)
