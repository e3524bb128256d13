"""Agents that write kernels: not part of this version."""
