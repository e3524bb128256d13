"""The judge: builds, runs and times foreign kernels, and says what it saw.

Names are imported when first asked for: a worker imports this package inside the sandbox, where most of it is not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelmill.evaluator.options import JUDGE_VERSION as JUDGE_VERSION
    from kernelmill.evaluator.options import JudgeOptions as JudgeOptions
    from kernelmill.evaluator.run import evaluate as evaluate

_HOME = {
    "JUDGE_VERSION": "kernelmill.evaluator.options",
    "JudgeOptions": "kernelmill.evaluator.options",
    "evaluate": "kernelmill.evaluator.run",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
