"""Callbacks that would be called and do nothing: refused when they are given, as nobody would find out later.

Looked at by the flags of their code, which costs a fraction of a record: a producer is given one with each.
"""

from __future__ import annotations

import functools
import inspect

from seamark.errors import UsageError

_GENERATOR = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


def refuse_generator(name: str, function: object) -> None:
    """UsageError for a generator function, of either kind."""
    if _flags(function) & _GENERATOR:
        raise UsageError(f"{name} is a generator function, so calling it runs nothing: remove the yield")


def refuse_coroutine(name: str, function: object, remedy: str) -> None:
    """UsageError for a coroutine function where nobody awaits its answer."""
    if _flags(function) & inspect.CO_COROUTINE:
        raise UsageError(f"{name} is a coroutine function: {remedy}")


def _flags(function: object) -> int:
    """Of a function or a method; of an object that can be called, those of its ``__call__``; of another none."""
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None) or getattr(getattr(function, "__call__", None), "__code__", None)  # noqa: B004
    return getattr(code, "co_flags", 0)
