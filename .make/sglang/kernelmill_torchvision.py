"""Lets PyPI's torchvision be imported beside a CPU build of torch. Run by a .pth file at each start of the interpreter.

Its compiled part is for CUDA and does not load, but its Python part asks torch for two ops of it while it is imported.
They are declared here and do nothing; a text model calls neither.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from typing import Any

OPS = ("nms", "qnms")


class Declare(importlib.abc.MetaPathFinder):
    """Declares the ops when torchvision is first asked for, and finds nothing itself."""

    library: Any = None  # of the class: it must outlive the finder

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> None:
        if name != "torchvision":
            return
        sys.meta_path.remove(self)
        import torch

        Declare.library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        for op in OPS:
            Declare.library.define(f"{op}(Tensor boxes, Tensor scores, float threshold) -> Tensor")


sys.meta_path.insert(0, Declare())
