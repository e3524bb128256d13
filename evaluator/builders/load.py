"""Inside the worker: from an artifact's files to the function that is called. Runs foreign code.

Standard library, and torch or tvm_ffi where the artifact needs them.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any


class LoadError(Exception):
    """The artifact does not offer what its entry point promises."""


def load(kind: str, directory: str | Path, entry: str, symbol: str) -> Callable[..., Any]:
    """The callable `symbol` of the file `entry` in `directory`. Whatever the foreign code raises passes through."""
    path = Path(directory) / entry
    if not path.is_file():
        raise LoadError(f"{entry} is not in the artifact")
    if kind == "tvm-ffi":
        return _tvm_ffi(path, symbol)
    if kind not in ("python", "triton", "torch"):
        raise LoadError(f"no loader for artifacts of kind {kind!r}")
    module = _extension(path) if kind == "torch" else _package(Path(directory), entry)
    if not hasattr(module, symbol):
        offered = ", ".join(sorted(name for name in vars(module) if not name.startswith("_"))[:20]) or "nothing"
        raise LoadError(f"{entry} defines no {symbol!r}, which the entry point names; it defines: {offered}")
    function = getattr(module, symbol)
    if not callable(function):
        raise LoadError(f"{symbol!r} in {entry} is a {type(function).__name__}, not a function")
    return function  # type: ignore[no-any-return]


def _package(directory: Path, entry: str) -> ModuleType:
    """Import `entry` as part of a package of its own name, so that relative imports work.

    Sibling files are importable by their bare names too, as in a script: the directories of the solution and of the
    entry file come first on sys.path. That is why this must not run in a process that matters.
    """
    name = f"solution_{hashlib.sha256(str(directory).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        sys.modules[name] = package = module_from_spec(_package_spec(name, directory))
        for place in dict.fromkeys((directory, (directory / entry).parent)):
            sys.path.insert(0, str(place))
        if package.__spec__ is not None and package.__spec__.loader is not None:
            package.__spec__.loader.exec_module(package)
    return importlib.import_module(f"{name}.{entry.removesuffix('.py').replace('/', '.')}")


def _package_spec(name: str, directory: Path) -> ModuleSpec:
    init = directory / "__init__.py"
    spec = spec_from_file_location(name, init, submodule_search_locations=[str(directory)]) if init.is_file() else None
    if spec is None:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(directory)]
    return spec


def _extension(path: Path) -> ModuleType:
    importlib.import_module("torch")  # brings the libraries that the module was linked against
    name = path.name.removesuffix(".so")
    spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, str(path)))
    if spec is None or spec.loader is None:
        raise LoadError(f"{path.name} cannot be imported")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _tvm_ffi(path: Path, symbol: str) -> Callable[..., Any]:
    tvm_ffi = importlib.import_module("tvm_ffi")
    module = tvm_ffi.load_module(str(path))
    try:
        return module.get_function(symbol)  # type: ignore[no-any-return]
    except AttributeError as error:
        raise LoadError(f"{path.name} exports no function {symbol!r}") from error
