"""How apply fails where it may: when it is set up, and where a caller left it no way out. Never inside a model."""

from __future__ import annotations

from kernelmill.trace_schema.errors import KernelMillError


class ApplyError(KernelMillError):
    """The table, the manifest, a key or an artifact is not what it has to be; the operator is told what to do."""


class NoFallback(ApplyError, RuntimeError):
    """No kernel fits this call, and the caller gave none of its own."""
