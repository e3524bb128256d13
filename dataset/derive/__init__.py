"""From recorded traffic to workloads: replay requests through a small engine, keep the steps that stand for the rest.

`python -m kernelmill.dataset.derive --azure FILE --sglang DIR --out DIR` rewrites the workloads of the shipped dataset.
"""
