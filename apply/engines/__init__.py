"""Adapters: where each engine lets us in, and what must hold there before a kernel is asked."""
