"""Whether a kernel or the caller's own runs for us in this thread: torch's functions are its own business then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_here = threading.local()


def is_inside() -> bool:
    return getattr(_here, "busy", False)


def inside(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The call, with nothing substituted in torch below it. Nests."""
    before = is_inside()
    _here.busy = True
    try:
        return function(*args, **kwargs)
    finally:
        _here.busy = before
