"""Values of constraint expressions: numbers, tuples and arrays of any library, by duck typing.

An array is what has `shape`, slicing, elementwise operators and `min max sum all any item`: numpy's and torch's do, and
`ListArray` makes one of a list. Zero-dimensional results become Python numbers at once, which are exact.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any

MAX_BITS = 256

COMPARISONS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
UNARY: Mapping[type[ast.AST], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}


def settle(value: Any) -> Any:
    """`value` as an expression may hold it: a bounded number, None, a tuple of such, or an array that isn't 0-d."""
    if value is None or type(value) in (bool, float):
        return value
    if type(value) is int:
        if value.bit_length() > MAX_BITS:
            raise ValueError(f"the integer needs more than {MAX_BITS} bits")
        return value
    if isinstance(value, list):
        return ListArray(value)
    if isinstance(value, tuple):
        return tuple(settle(item) for item in value)
    if not is_array(value):
        raise TypeError(f"a {type(value).__name__} is neither a number nor an array")
    return value if len(value.shape) else _scalar(value.item())


def is_array(value: Any) -> bool:
    """Whether `value` is an array of any library."""
    return hasattr(value, "shape") and not isinstance(value, type)


def describe(value: Any) -> str:
    """What `value` is, for a message."""
    return f"an array of shape {shape(value)}" if is_array(value) else f"the tuple {value!r}"


def shape(value: Any) -> tuple[int, ...]:
    """Sizes of an array; () for a number."""
    if is_array(value):
        return tuple(int(size) for size in value.shape)
    if isinstance(value, bool | int | float):
        return ()
    raise TypeError(f"{value!r} has no shape")


def element(value: Any, index: Any) -> Any:
    """`value[index]`, where value is a tuple or an array and index whole numbers and slices."""
    if not isinstance(value, tuple) and not is_array(value):
        raise TypeError(f"{value!r} can't be indexed: it is neither an array nor a tuple")
    for part in index if isinstance(index, tuple) else (index,):
        for number in (part.start, part.stop, part.step) if isinstance(part, slice) else (part,):
            if type(number) is not int and not (number is None and isinstance(part, slice)):
                raise TypeError(f"the index {number!r} is not a whole number")
    return value[index]


def unary(kind: type[ast.AST], value: Any) -> Any:
    """`-value` or `+value`."""
    _numeric(value)
    return _each(lambda number, _: UNARY[kind](number), value, None)


def arithmetic(kind: type[ast.AST], left: Any, right: Any) -> Any:
    """A number or an array; elementwise where one side is an array, which a power's may not be."""
    for value in (left, right):
        _numeric(value, arrays=kind is not ast.Pow)
    if kind in (ast.Div, ast.FloorDiv, ast.Mod) and not is_array(right) and right == 0:
        raise ZeroDivisionError("division by zero")
    return _each(ARITHMETIC[kind], left, right)


def compare(kind: type[ast.AST], left: Any, right: Any) -> Any:
    """True, False or an array of them."""
    if kind in (ast.In, ast.NotIn):
        if not isinstance(right, tuple):
            raise TypeError("the right side of `in` must be a tuple such as (16, 32)")
        _numeric(left, arrays=False)
        return any(left == item for item in right) is (kind is ast.In)
    if left is None or right is None:
        if kind not in (ast.Eq, ast.NotEq):
            raise TypeError("None has no order")
        return (left is right) is (kind is ast.Eq)
    if isinstance(left, tuple) != isinstance(right, tuple):
        raise TypeError(f"{left!r} and {right!r} can't be compared")
    return _each(COMPARISONS[kind], left, right)


def both(left: Any, right: Any) -> Any:
    """`left and right` for the parts of a chained comparison, elementwise where one is an array."""
    return right if left is True else _each(operator.and_, left, right)


def _numeric(value: Any, *, arrays: bool = True) -> None:
    if isinstance(value, bool | int | float) or (arrays and is_array(value)):
        return
    raise TypeError(f"{'an array' if is_array(value) else repr(value)} can't be used as a number here")


def _each(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """`operation` on two values, elementwise where one is an array."""
    # Libraries would broadcast (n, 1) with (1, n) into n * n elements: memory that a short expression must not ask for.
    if is_array(left) and is_array(right) and shape(left) != shape(right):
        raise ValueError(f"the shapes {shape(left)} and {shape(right)} differ")
    if not isinstance(left, ListArray) and not isinstance(right, ListArray):
        return operation(left, right)
    lefts, rights = (value if is_array(value) else repeat(value) for value in (left, right))
    return [_as_list(_each(operation, settle(a), settle(b))) for a, b in zip(lefts, rights, strict=False)]


def _power(base: Any, exponent: Any) -> Any:
    if (
        isinstance(base, int)
        and isinstance(exponent, int)
        and abs(base) > 1
        and exponent * base.bit_length() > MAX_BITS * 2
    ):
        raise ValueError(f"the power needs more than {MAX_BITS} bits")
    result = base**exponent
    if isinstance(result, complex):
        raise ValueError("the power is not a real number")
    return result


ARITHMETIC: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}


def _scalar(value: Any) -> bool | int | float:
    if type(value) in (bool, int, float):
        return value  # type: ignore[no-any-return]
    raise TypeError(f"an element of type {type(value).__name__} is not a number")


def _size(value: Any, dimension: Any = None) -> Any:
    return shape(value) if dimension is None else element(shape(value), dimension)


def _numel(value: Any) -> int:
    count = 1
    for size in shape(value):
        count *= size
    return count


def _item(value: Any) -> Any:
    if _numel(value) != 1:
        raise ValueError(f".item() needs exactly one element, the shape is {shape(value)}")
    return value.item() if is_array(value) else value


def _reduction(name: str) -> Callable[[Any], Any]:
    def reduce(value: Any) -> Any:
        if is_array(value):
            return getattr(value, name)()
        return _BUILTINS[name](value if isinstance(value, tuple) else (_number(value),))

    return reduce


def _number(value: Any) -> Any:
    _numeric(value, arrays=False)
    return value


def _extreme(name: str) -> Callable[..., Any]:
    def extreme(*values: Any) -> Any:
        if len(values) == 1:
            return METHODS[name](values[0])
        return _BUILTINS[name](_number(value) for value in values)

    return extreme


def _length(value: Any) -> int:
    if isinstance(value, tuple):
        return len(value)
    return int(element(shape(value), 0))


def _absolute(value: Any) -> Any:
    _numeric(value)
    return _each(lambda number, _: abs(number), value, None)


_BUILTINS: Mapping[str, Callable[..., Any]] = {"min": min, "max": max, "sum": sum, "all": all, "any": any}
METHODS: Mapping[str, Callable[..., Any]] = {
    "size": _size,
    "numel": _numel,
    "dim": lambda value: len(shape(value)),
    "item": _item,
    **{name: _reduction(name) for name in _BUILTINS},
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "len": _length,
    "abs": _absolute,
    "min": _extreme("min"),
    "max": _extreme("max"),
    **{name: METHODS[name] for name in ("sum", "all", "any")},
}


class ListArray:
    """A list of numbers, or of equally long lists, with the few operations of an array that expressions need."""

    def __init__(self, items: list[Any]) -> None:
        self.items = [ListArray(item) if isinstance(item, list) else settle(item) for item in items]
        inner = {shape(item) for item in self.items}
        if len(inner) > 1:
            raise ValueError("the rows of a list are not equally long")
        self.shape: tuple[int, ...] = (len(items), *(inner.pop() if inner else ()))

    def __getitem__(self, index: Any) -> Any:
        first, *rest = index if isinstance(index, tuple) else (index,)
        found = self.items[first]
        if not rest:
            return _as_list(found) if isinstance(first, slice) else found
        if isinstance(first, slice):
            return [_as_list(element(row, tuple(rest))) for row in found]
        return element(found, tuple(rest))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def flat(self) -> Iterator[Any]:
        """Every number, in order."""
        for item in self.items:
            yield from item.flat() if isinstance(item, ListArray) else (item,)

    def item(self) -> Any:
        """The only number."""
        return next(self.flat())

    def min(self) -> Any:
        """The least number."""
        return min(self.flat())

    def max(self) -> Any:
        """The greatest number."""
        return max(self.flat())

    def sum(self) -> Any:
        """The sum of all numbers."""
        return sum(self.flat())

    def all(self) -> bool:
        """Whether no number is zero."""
        return all(self.flat())

    def any(self) -> bool:
        """Whether some number is not zero."""
        return any(self.flat())


def _as_list(value: Any) -> Any:
    if isinstance(value, ListArray):
        return [_as_list(item) for item in value.items]
    return [_as_list(item) for item in value] if isinstance(value, list) else value
