"""`apply`: run the best kernel that may replace this call, else the caller's own.

    out = apply("rmsnorm_h4096", args=(x, w), fallback=rms_norm)

    @apply(lambda x, w: f"rmsnorm_h{w.numel()}")
    def rms_norm(x, w): ...

The hot path reads one dict, calls one generated function and compares one class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, overload

from kernelmill.apply.missed import Missed

Resolver = Callable[..., str]
UNFIT = (TypeError, AttributeError, ValueError, RuntimeError)
"""What the checks of a dispatcher raise for arguments that are not at all what they look for. A kernel's own exceptions
never come this far: the dispatcher keeps them."""

live: dict[str, Callable[..., Any]] = {}
"""Dispatchers in force, by definition. Replaced as a whole (`put_in_force`): a call sees old or new ones."""
_UNFIT = Missed("the arguments are not what the definition says")
_OFF = Missed("no kernel is in force for this definition")


def put_in_force(dispatchers: dict[str, Callable[..., Any]]) -> None:
    global live
    live = dispatchers


@overload
def apply(definition: str | Resolver) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
@overload
def apply(
    definition: str | Resolver,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    fallback: Callable[..., Any] | None = None,
) -> Any: ...
def apply(
    definition: str | Resolver,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    fallback: Callable[..., Any] | None = None,
) -> Any:
    """With `args` or `kwargs`: the call's result. With neither: a decorator.

    `args` are the definition's inputs in order, and after them, where the caller has made them, its outputs: then the
    kernel writes into them and returns None. `definition` may be a function of the arguments that gives its name.
    Raises NoFallback where no kernel fits and `fallback` is None.
    """
    dispatch = live.get(definition)  # type: ignore[arg-type]
    if dispatch is None:
        return _rarely(definition, args, kwargs, fallback)
    try:
        if kwargs is None:
            result = dispatch(*args)  # type: ignore[misc]
        elif args is None:
            result = dispatch(**kwargs)
        else:
            result = dispatch(*args, **kwargs)
    except UNFIT:
        if args is None and kwargs is None:
            return _decorator(definition)
        return _UNFIT.settle(args, kwargs, fallback)
    if result.__class__ is Missed:
        return result.settle(args, kwargs, fallback)
    return result


def _rarely(
    definition: str | Resolver,
    args: tuple[Any, ...] | None,
    kwargs: Mapping[str, Any] | None,
    fallback: Callable[..., Any] | None,
) -> Any:
    """A decorator, a resolver, or nothing in force."""
    if args is None and kwargs is None:
        return _decorator(definition)
    if callable(definition):
        if not live:
            return _OFF.settle(args, kwargs, fallback)
        return apply(definition(*(args or ()), **(kwargs or {})), args or (), kwargs, fallback)
    return _OFF.settle(args, kwargs, fallback)


def _decorator(definition: str | Resolver) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(fallback: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fallback)
        def applied(*args: Any, **kwargs: Any) -> Any:
            return apply(definition, args, kwargs or None, fallback)

        return applied

    return decorate
