"""Constraint and cost expressions: a small language, walked as a tree and never given to `eval`.

The grammar, which is a part of Python's:

- axes and inputs by name; int, float, True, False, None; tuples, also written as lists
- `+ - * / // % **`, unary `- + not`, `and or`, `a if c else b`, chained comparisons, `in` and `not in` a tuple
- `x[i]`, `x[a:b]`, `x[i, a:b]`; `x.shape`, `x.ndim`
- `x.size(i)`, `x.size()`, `x.numel()`, `x.dim()`, `x.item()`, `x.min()`, `x.max()`, `x.sum()`, `x.all()`, `x.any()`
- `len() min() max() sum() abs() all() any()`

Arithmetic and comparisons of arrays are elementwise, in the array's own dtype, and need equal shapes or a number on one
side; numbers taken out of arrays are exact. Length, depth and the size of integers are bounded, so an expression from a
stranger costs little. Anything else is a ConstraintError.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

from kernelmill.trace_schema import arrays
from kernelmill.trace_schema.errors import ConstraintError as ConstraintError
from kernelmill.trace_schema.errors import MissingNameError as MissingNameError
from kernelmill.trace_schema.python_source import parse_expression

MAX_LENGTH = 2000
MAX_DEPTH = 60

_ATTRIBUTES = ("shape", "ndim")
_NODES = (
    ast.Constant,
    ast.Name,
    ast.Tuple,
    ast.List,
    ast.UnaryOp,
    ast.BinOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Subscript,
    ast.Slice,
    ast.Attribute,
    ast.Call,
)
_OPERATORS = (
    *arrays.ARITHMETIC,
    *arrays.COMPARISONS,
    *arrays.UNARY,
    ast.In,
    ast.NotIn,
    ast.Not,
    ast.And,
    ast.Or,
    ast.Load,
)
_FAULTS = (TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RuntimeError, MemoryError)
"""What numbers and duck-typed arrays raise on values that they can't handle."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression and the axes and inputs that it names."""

    text: str
    body: ast.expr
    names: frozenset[str]


def check(expression: str, axes: Mapping[str, int], tensors: Mapping[str, Any]) -> bool:
    """Whether a constraint holds; ConstraintError when it isn't a yes-or-no question or can't be answered."""
    value = evaluate(expression, axes, tensors)
    if not isinstance(value, bool):
        raise ConstraintError(f"expression {expression!r} gives {value!r}, not true or false", expression=expression)
    return value


def evaluate(expression: str, axes: Mapping[str, int], tensors: Mapping[str, Any] | None = None) -> int | float | bool:
    """The number that an expression gives. An axis goes before a tensor of the same name."""
    parsed = parse(expression)
    value = _Evaluation(parsed, {**(tensors or {}), **axes}).value(parsed.body)
    if not isinstance(value, int | float):
        kind = "None" if value is None else arrays.describe(value)
        message = (
            f"expression {expression!r} gives {kind}, not a number or true or false: add .all(), .any() or .item()"
        )
        raise ConstraintError(message, expression=expression)
    return value


@lru_cache(maxsize=1024)
def parse(expression: str) -> Expression:
    """The checked tree of an expression; ConstraintError outside the grammar."""
    if len(expression) > MAX_LENGTH:
        message = (
            f"expression {expression[:40]!r}... is {len(expression)} characters long; at most {MAX_LENGTH} are allowed"
        )
        raise ConstraintError(message, expression=expression)
    try:
        tree = parse_expression(expression, f"expression {expression!r}")
    except ValueError as error:
        raise ConstraintError(str(error), expression=expression) from None
    _check_depth(expression, tree.body)
    names: set[str] = set()
    _check_grammar(expression, tree.body, names)
    return Expression(expression, tree.body, frozenset(names))


def _check_depth(text: str, body: ast.expr) -> None:
    level: list[ast.AST] = [body]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    message = f"expression {text[:80]!r} is nested deeper than {MAX_DEPTH} levels"
    raise ConstraintError(message, expression=text)


def _check_grammar(text: str, node: ast.AST, names: set[str]) -> None:
    children: list[ast.AST] = list(ast.iter_child_nodes(node))
    match node:
        case ast.Call():
            children = _check_call(text, node)
        case ast.Attribute() if node.attr not in _ATTRIBUTES:
            _fail(text, node, f"the attribute {node.attr!r} is not allowed: only .{' and .'.join(_ATTRIBUTES)} are")
        case ast.Constant() if not (node.value is None or type(node.value) in (bool, int, float)):
            _fail(text, node, "only whole numbers, decimals, True, False and None may be written out")
        case ast.Name():
            names.add(node.id)
        case ast.Slice() | ast.Constant():
            pass
        case _ if not isinstance(node, _NODES):
            _fail(text, node, f"{type(node).__name__} is not part of the expression language")
    for child in children:
        if isinstance(child, ast.expr):
            _check_grammar(text, child, names)
        elif not isinstance(child, _OPERATORS):
            _fail(text, node, f"the operator {type(child).__name__} is not part of the expression language")


def _check_call(text: str, node: ast.Call) -> list[ast.AST]:
    """The parts of a call that are expressions in their own right."""
    match node.func:
        case ast.Name(id=name) if name in arrays.FUNCTIONS:
            receiver: list[ast.AST] = []
        case ast.Attribute(attr=name, value=value) if name in arrays.METHODS:
            receiver = [value]
        case _:
            functions, methods = ", ".join(arrays.FUNCTIONS), ", .".join(arrays.METHODS)
            _fail(text, node.func, f"this can't be called: only {functions} and the methods .{methods} can")
    if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
        _fail(text, node, "only plain arguments are allowed, no keywords and no *")
    if receiver and len(node.args) > (1 if name == "size" else 0):
        _fail(text, node, f".{name}() takes {'one argument at most' if name == 'size' else 'no argument'}")
    return [*receiver, *node.args]


def _fail(text: str, node: ast.AST, reason: str) -> NoReturn:
    piece, column = _place(text, node)
    raise ConstraintError(
        f"expression {text!r}: {piece!r} at column {column}: {reason}", expression=text, column=column
    )


def _place(text: str, node: ast.AST) -> tuple[str, int]:
    piece = ast.get_source_segment(text, node) or type(node).__name__
    line = re.split(r"\r\n|\r|\n", text)[getattr(node, "lineno", 1) - 1].encode()
    return piece, len(line[: getattr(node, "col_offset", 0)].decode(errors="replace")) + 1


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """Walks one expression with values for its names."""

    expression: Expression
    names: Mapping[str, Any]

    def value(self, node: ast.expr) -> Any:
        try:
            return arrays.settle(self._value(node))
        except ConstraintError:
            raise
        except _FAULTS as error:
            reason = str(error) or type(error).__name__
        _fail(self.expression.text, node, reason)

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return self._lookup(node)
            case ast.Tuple() | ast.List():
                return tuple(self.value(item) for item in node.elts)
            case ast.UnaryOp(op=ast.Not()):
                return not self._truth(node.operand)
            case ast.UnaryOp():
                return arrays.unary(type(node.op), self.value(node.operand))
            case ast.BinOp():
                return arrays.arithmetic(type(node.op), self.value(node.left), self.value(node.right))
            case ast.BoolOp():
                wanted = isinstance(node.op, ast.Or)
                return wanted if any(self._truth(each) is wanted for each in node.values) else not wanted
            case ast.IfExp():
                return self.value(node.body if self._truth(node.test) else node.orelse)
            case _:
                return self._compound(node)

    def _compound(self, node: ast.expr) -> Any:
        match node:
            case ast.Compare():
                return self._compare(node)
            case ast.Subscript():
                return arrays.element(self.value(node.value), self._index(node.slice))
            case ast.Attribute(attr=name):
                return arrays.METHODS["size" if name == "shape" else "dim"](self.value(node.value))
            case ast.Call(func=ast.Attribute() as method):
                return arrays.METHODS[method.attr](self.value(method.value), *map(self.value, node.args))
            case ast.Call(func=ast.Name(id=name)):
                return arrays.FUNCTIONS[name](*map(self.value, node.args))
        raise TypeError(f"{type(node).__name__} has no value here")

    def _lookup(self, node: ast.Name) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        text = self.expression.text
        _, column = _place(text, node)
        known = ", ".join(self.names) or "none"
        reason = f"no axis or loaded input has this name; known: {known}"
        message = f"expression {text!r}: {node.id!r} at column {column}: {reason}"
        raise MissingNameError(message, expression=text, name=node.id, column=column)

    def _truth(self, node: ast.expr) -> bool:
        value = self.value(node)
        if isinstance(value, bool | int | float) or value is None:
            return bool(value)
        _fail(self.expression.text, node, f"{arrays.describe(value)} is neither true nor false: add .all() or .any()")

    def _compare(self, node: ast.Compare) -> Any:
        result: Any = True
        left = self.value(node.left)
        for operator, operand in zip(node.ops, node.comparators, strict=True):
            right = self.value(operand)
            result = arrays.both(result, arrays.settle(arrays.compare(type(operator), left, right)))
            if result is False:
                return False
            left = right
        return result

    def _index(self, node: ast.expr) -> Any:
        match node:
            case ast.Slice():
                return slice(
                    *(None if part is None else self.value(part) for part in (node.lower, node.upper, node.step))
                )
            case ast.Tuple():
                return tuple(self._index(item) for item in node.elts)
            case _:
                return self.value(node)
