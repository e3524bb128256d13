"""Substitution of winning kernels into a running engine: not part of this version."""
