"""Which callbacks are refused because calling them would do nothing."""

import functools

import pytest

from seamark.client.callback_kinds import refuse_coroutine, refuse_generator
from seamark.errors import UsageError


def plain(*given): ...


def generator(*given):
    yield given


async def async_generator(*given):
    yield given


async def coroutine(*given): ...


class Callable:
    def __init__(self, function):
        self.function = function

    def __call__(self, *given): ...

    def method(self, *given):
        yield given


class AsyncCallable:
    async def __call__(self, *given): ...


@pytest.mark.parametrize(
    "function", [generator, async_generator, functools.partial(generator), Callable(plain).method, lambda: (yield)]
)
def test_a_generator_function_is_refused(function):
    with pytest.raises(UsageError, match="it is a generator function, so calling it runs nothing: remove the yield"):
        refuse_generator("it", function)


@pytest.mark.parametrize("function", [coroutine, functools.partial(coroutine), AsyncCallable()])
def test_a_coroutine_function_is_refused_where_nobody_awaits_it(function):
    with pytest.raises(UsageError, match="it is a coroutine function: await it yourself"):
        refuse_coroutine("it", function, "await it yourself")
    refuse_generator("it", function)


@pytest.mark.parametrize(
    "function", [None, plain, print, int, functools.partial(print), Callable(generator), [].append]
)
def test_what_runs_when_it_is_called_is_taken(function):
    refuse_generator("it", function)
    refuse_coroutine("it", function, "")
