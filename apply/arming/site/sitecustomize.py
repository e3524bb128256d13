"""Run by the interpreter at its start, because `kernelmill apply exec` put this folder on its path."""

import importlib.machinery
import importlib.util
import os
import sys

_own = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib would be imported for nothing
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _own]  # noqa: PTH100
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
if _spec is not None and _spec.loader is not None:
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["sitecustomize"] = _module
    _spec.loader.exec_module(_module)
try:
    import kernelmill  # noqa: F401 - arms itself, since the environment asks for it
except ImportError as error:
    print(f"kernelmill: not armed, {sys.executable} has no kernelmill: {error}", file=sys.stderr)
