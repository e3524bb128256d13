"""Bounded spaces of kernels: typed, enumerated, legality-checked parameters; each point renders as a whole solution."""
