"""From recorded traffic to workloads: replay requests through an engine's scheduler, keep the steps that stand for all.

`kernelmill derive --requests DIR` rewrites the workloads of a dataset; docs/workloads.md says how they come about.
"""
