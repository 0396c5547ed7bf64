"""Which kind a handler is, and what its answer says about whether it has done its work.

A handler is a plain function, which has done its work when it returns, or a coroutine function, which is awaited. What
does nothing until somebody runs it is neither: a generator function is refused when a consumer is made, and a handler
that returns a generator, an iterator, a coroutine or a future at run time has failed, as nobody would ever run it or
look at it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from typing import Any

from seamark.errors import UsageError

# The modules of Python's own iterators (map, filter, zip, chain, …), which do nothing until somebody asks for the next
# item. Those of other modules may stand for work that is done: the cursor of a database is an iterator over its rows.
_LAZY = ("builtins", "itertools")


class WorkNotDone(UsageError):
    """A handler returned something that stands for work which nobody will do or wait for."""


def is_async(handler: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine: also of objects with an async ``__call__`` and of partials."""
    return any(inspect.iscoroutinefunction(called) for called in _called(handler))


def never_runs(function: Callable[..., Any]) -> str | None:
    """Why calling this would do nothing by itself; None if it would.

    A decorator that hides a generator function behind a plain one may run it to its end; if it does not, the answer
    tells.
    """
    if any(inspect.isasyncgenfunction(called) for called in _called(function)):
        return "is an async generator function: calling it runs nothing; leave out its yield"
    if any(inspect.isgeneratorfunction(called) for called in _called(function)):
        return "is a generator function: calling it runs nothing; leave out its yield"
    return None


def _called(handler: Callable[..., Any]) -> tuple[Any, ...]:
    """What runs when the handler is called."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if inspect.isclass(handler):
        # Calling it makes an object, whatever that object could do when called.
        return ()
    return handler, getattr(handler, "__call__", None)  # noqa: B004 - to look at it, not whether it is there


def check_answer(answer: object) -> None:
    """What a handler returned, or an async one after it was awaited; WorkNotDone if its work is still to be done."""
    if answer is None:
        return
    if isinstance(answer, Coroutine):
        # Else Python would warn of it, in the middle of something else.
        answer.close()
        raise WorkNotDone("the handler returned a coroutine that nobody awaits: await it in the handler, an async def")
    if isinstance(answer, Generator):
        raise WorkNotDone("the handler returned a generator that nobody runs: its records are not processed by that")
    if isinstance(answer, AsyncGenerator):
        raise WorkNotDone("the handler returned an async generator that nobody runs: its records are not processed")
    if isinstance(answer, Awaitable):
        text = f"the handler returned an object of type {type(answer).__name__} that nobody awaits"
        raise WorkNotDone(f"{text}: await it in the handler, an async def")
    if isinstance(answer, Future):
        raise WorkNotDone("the handler returned a future that nobody waits for: wait for its result in the handler")
    kind = type(answer)
    if kind.__module__ == "multiprocessing.pool":
        text = (
            f"the handler returned an object of type {kind.__name__} that nobody waits for: wait for its result there"
        )
        raise WorkNotDone(text)
    if isinstance(answer, Iterator) and any(
        ancestor.__module__ in _LAZY and issubclass(ancestor, Iterator) for ancestor in kind.__mro__
    ):
        text = f"the handler returned an object of type {kind.__name__} that nobody iterates over, so that its work is"
        raise WorkNotDone(f"{text} not done: go through it in the handler, by a for loop or list(…)")
