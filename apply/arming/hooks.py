"""Import hooks: when the program imports torch, what may be substituted there is; until then nothing is imported.

An engine that has a plugin of ours (vLLM, SGLang) gets its substitutions there: the hooks see it coming and keep off.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ENGINES = ("vllm", "sglang")
TORCH = "torch"
MODELING = ("transformers.models.", ".modeling_")


class After(Loader):
    """Runs the module as its own loader would, then tells."""

    def __init__(self, loader: Loader, told: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._told = told

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._told(module)


class Watch(MetaPathFinder):
    """Finds nothing itself: asks the other finders, and wraps the loader of what is waited for."""

    def __init__(self) -> None:
        self._is_asking = False
        self.engine = next((name for name in ENGINES if name in sys.modules), None)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in ENGINES:
            self.engine = name
        if self._is_asking or self.engine or not _is_waited_for(name):
            return None
        self._is_asking = True
        try:
            spec = next((found for finder in sys.meta_path if (found := _ask(finder, name, path, target))), None)
        finally:
            self._is_asking = False
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = After(spec.loader, self._told)
        return spec

    def _told(self, module: ModuleType) -> None:
        if self.engine is None:
            from kernelmill.apply.engines import pytorch

            pytorch.imported(module)


_watch: Watch | None = None


def arm() -> None:
    """Once a process. Imports nothing but this."""
    global _watch
    if _watch is None:
        _watch = Watch()
        sys.meta_path.insert(0, _watch)
        if TORCH in sys.modules and _watch.engine is None:
            _watch._told(sys.modules[TORCH])


def arm_if_wanted() -> None:
    """What `import kernelmill` does where the environment speaks of apply or tracing."""
    from kernelmill.apply.settings import is_armed

    if is_armed():
        arm()


def disarm() -> None:
    """For our own commands: what judges must not be substituted itself."""
    global _watch
    if _watch is not None:
        sys.meta_path.remove(_watch)
        _watch = None


def _is_waited_for(name: str) -> bool:
    return name == TORCH or (name.startswith(MODELING[0]) and MODELING[1] in name)


def _ask(finder: object, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
    find = getattr(finder, "find_spec", None)
    return find(name, path, target) if find is not None else None
