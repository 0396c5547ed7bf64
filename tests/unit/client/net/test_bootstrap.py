"""The race for the first usable connection, when some of the candidates are closed on the way."""

import asyncio

import pytest

from seamark.client.cluster_view import Node
from seamark.client.errors import ConnectionFailed
from seamark.client.net.bootstrap import first_ready
from seamark.client.timing import Deadline


class Candidate:
    """As much of a NodeConnection as the race needs; ``outcome`` is what its attempt ends with."""

    def __init__(self, number):
        self.node = Node(-number, "h", number)
        self.outcome = asyncio.get_running_loop().create_future()
        self.is_closed = False
        self.attempts = 0
        self._task = None

    def start(self):
        if self._task is None or self._task.done():
            self.attempts += 1
            self._task = asyncio.get_running_loop().create_task(self._open())
        return self._task

    async def _open(self):
        return await asyncio.shield(self.outcome)

    def close(self):
        self.is_closed = True
        self._task.cancel()


def race(*candidates):
    return asyncio.get_running_loop().create_task(first_ready(candidates, Deadline(10), dict))


def test_a_connection_that_is_closed_leaves_the_race_to_the_others():
    async def run():
        first, second = Candidate(1), Candidate(2)
        winner = race(first, second)
        while not second.attempts:
            await asyncio.sleep(0.01)
            if not first.is_closed:
                first.close()
        second.outcome.set_result("opened")
        assert await winner == "opened"
        assert first.attempts == 1

    asyncio.run(run())


def test_a_race_whose_candidates_are_all_closed_can_be_run_again_with_others():
    async def run():
        only = Candidate(1)
        winner = race(only)
        while not only.attempts:
            await asyncio.sleep(0)
        only.close()
        with pytest.raises(ConnectionFailed) as caught:
            await winner
        assert caught.value.is_retriable

    asyncio.run(run())
