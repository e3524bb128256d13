"""Parsing Python text that came in a file: never run, and quiet about its style."""

from __future__ import annotations

import ast
import threading
import warnings
from typing import Any

# `catch_warnings` swaps process-wide state; two overlapping swaps would leave the wrong filters behind.
_filters = threading.Lock()


def parse_module(source: str, what: str) -> ast.Module:
    """The syntax tree of a module; ValueError naming `what`, the line and the column where it isn't Python."""
    tree: ast.Module = _parse(source, "exec", f"{what} is not Python source")
    return tree


def parse_expression(source: str, what: str) -> ast.Expression:
    """The syntax tree of an expression; ValueError naming `what` and the column where it isn't one."""
    tree: ast.Expression = _parse(source, "eval", f"{what} is not a Python expression")
    return tree


def _parse(source: str, mode: str, complaint: str) -> Any:
    try:
        with _filters, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(source, "<source>", mode, ast.PyCF_ONLY_AST)
    except SyntaxError as error:
        place = f" at line {error.lineno}, column {error.offset}" if error.lineno else ""
        raise ValueError(f"{complaint}{place}: {error.msg}") from None
    except ValueError as error:
        raise ValueError(f"{complaint}: {error}") from None
    except (RecursionError, MemoryError):
        raise ValueError(f"{complaint}: it is nested too deeply") from None
