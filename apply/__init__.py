"""Puts winning kernels in place of an engine's own (`apply`, `enable_apply`, `disable_apply`), and collects what these
are called with (`enable_tracing`).

The names are imported when first asked for: an armed process that never calls them pays nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelmill.apply.calls import apply as apply
    from kernelmill.apply.errors import ApplyError as ApplyError
    from kernelmill.apply.errors import NoFallback as NoFallback
    from kernelmill.apply.state import Switch as Switch
    from kernelmill.apply.state import disable_apply as disable_apply
    from kernelmill.apply.state import enable_apply as enable_apply
    from kernelmill.apply.tracing.switch import enable_tracing as enable_tracing

_HOME = {
    "ApplyError": "kernelmill.apply.errors",
    "NoFallback": "kernelmill.apply.errors",
    "Switch": "kernelmill.apply.state",
    "apply": "kernelmill.apply.calls",
    "disable_apply": "kernelmill.apply.state",
    "enable_apply": "kernelmill.apply.state",
    "enable_tracing": "kernelmill.apply.tracing.switch",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)
