import torch


def norm(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, 1e-5)


graphs = {}


def run(x, weight, out):
    if x.shape not in graphs:
        held, graph = torch.empty_like(out), torch.cuda.CUDAGraph()
        norm(x, weight)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            held.copy_(norm(x, weight))
        graph.replay()
        graphs[x.shape] = held
    out.copy_(norm(x, weight))
