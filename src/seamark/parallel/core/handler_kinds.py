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
        return "is an async generator function, so calling it runs nothing: remove the yield"
    if any(inspect.isgeneratorfunction(called) for called in _called(function)):
        return "is a generator function, so calling it runs nothing: remove the yield"
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
        raise WorkNotDone("the handler returned a coroutine, which is not awaited: await it in an async def handler")
    if isinstance(answer, Generator):
        raise WorkNotDone("the handler returned a generator, which is not run: its records were not processed")
    if isinstance(answer, AsyncGenerator):
        raise WorkNotDone("the handler returned an async generator, which is not run: its records were not processed")
    if isinstance(answer, Awaitable):
        text = f"the handler returned an object of type {type(answer).__name__}, which is not awaited"
        raise WorkNotDone(f"{text}: await it in an async def handler")
    if isinstance(answer, Future):
        raise WorkNotDone("the handler returned a future, which is not waited for: wait for its result in the handler")
    kind = type(answer)
    if kind.__module__ == "multiprocessing.pool":
        text = (
            f"the handler returned an object of type {kind.__name__}, which is not waited for: wait for its "
            "result in the handler"
        )
        raise WorkNotDone(text)
    if isinstance(answer, Iterator) and any(
        ancestor.__module__ in _LAZY and issubclass(ancestor, Iterator) for ancestor in kind.__mro__
    ):
        text = f"the handler returned an object of type {kind.__name__}, which is not iterated over, so its work is"
        raise WorkNotDone(f"{text} not done: iterate over it in the handler, with a for loop or list(…)")
