"""The garbage collector's pauses, which a process that answers others must keep short."""

from __future__ import annotations

import gc


def settle() -> None:
    """Call it once, when everything is loaded: what is there by then stays, and no collection looks at it again."""
    gc.collect()
    gc.freeze()
