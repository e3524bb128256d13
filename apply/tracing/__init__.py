"""Workloads collected from a running program's own calls: `enable_tracing`."""
