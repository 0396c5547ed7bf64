"""Bugs in the shell of the client, written on purpose: lifetimes of real clients must not live through them.

Each is a few replaced lines in files below src/seamark; ``old`` stands in its file exactly once.
"""

from __future__ import annotations

from typing import NamedTuple


class Edit(NamedTuple):
    file: str
    old: str
    new: str


class ShellBug(NamedTuple):
    """``scenario`` is where it is found soon."""

    why: str
    scenario: str
    edits: tuple[Edit, ...]


SHELL_BUGS = (
    ShellBug(
        "an iterator commits ahead of what was handed out",
        "clients-at-least-once",
        (
            Edit(
                "client/consumer/iteration.py",
                "        count = len(self._records) - length_hint(self.handing) - self._taken",
                "        count = len(self._records) - self._taken",
            ),
        ),
    ),
    ShellBug(
        "a consumer that is closed commits the record that its loop was left with",
        "clients-at-least-once",
        (
            Edit(
                "client/consumer/calls.py",
                "        self.iteration.end(is_back=False)\n        if is_orderly and self._gave_batch:",
                "        self.iteration.end(is_back=True)\n        if is_orderly:",
            ),
        ),
    ),
    ShellBug(
        "the answer to a commit is applied twice: also to the other commits under way",
        "clients-at-least-once",
        (
            Edit(
                "client/consumer/shell.py",
                "            self.core.answered(ticket, response, self.now_ms())",
                "            is_commit = isinstance(response, OffsetCommitResponse)\n"
                "            others = self.core.commits._in_flight if is_commit else ()\n"
                "            for each in (ticket, *others):\n"
                "                self.core.answered(each, response, self.now_ms())",
            ),
        ),
    ),
    ShellBug(
        "the callback of a commit is run twice",
        "clients-at-least-once",
        (
            Edit(
                "client/consumer/commit_callbacks.py",
                "                    yield UserCode(partial(callback, commit.offsets, commit.error))",
                "                    yield UserCode(partial(callback, commit.offsets, commit.error))\n"
                "                    yield UserCode(partial(callback, commit.offsets, commit.error))",
            ),
        ),
    ),
    ShellBug(
        "a listener is called after close",
        "clients",
        (
            Edit(
                "client/consumer/calls.py",
                "            yield OnIo(self._until(self._may_leave, deadline))",
                "            yield OnIo(self._until(self._may_leave, deadline))\n"
                "            lost = self.core.subscription.listener.on_lost\n"
                "            __import__('asyncio').get_running_loop().call_later(0.3, lost, [])",
            ),
        ),
    ),
    ShellBug(
        "the coordinator is not forgotten after a move",
        "clients-moving-coordinators",
        (
            Edit(
                "client/consumer/shell.py",
                "        node, self._coordinator = self._coordinator, None",
                "        node = self._coordinator",
            ),
        ),
    ),
    ShellBug(
        "the client goes on answering with a coordinator that has moved",
        "clients-moving-coordinators",
        (
            Edit(
                "client/net/coordinators.py",
                "            self._carry_out(core, core.moved(node, self._now_ms()))",
                "            pass",
            ),
        ),
    ),
    ShellBug(
        "the time limits of requests stay armed after close",
        "clients",
        (
            Edit(
                "client/net/connection.py",
                "        for each in waiting:\n            if each.timer is not None:\n"
                "                each.timer.cancel()",
                "        for each in waiting:",
            ),
        ),
    ),
    ShellBug(
        "the log lines about addresses that cannot be reached stay armed after close",
        "clients-bad-network",
        (
            Edit(
                "client/net/reachability.py",
                "        for each in self._trying.values():\n            each.timer.cancel()\n"
                "        self._trying.clear()",
                "        pass",
            ),
        ),
    ),
    ShellBug(
        "a refresh of metadata is lost if another runs, or has run",
        "clients-bad-network",
        (
            Edit(
                "client/consumer/shell.py",
                "        self._refreshing = None\n        if self._refresh_again:",
                "        if self._refresh_again:",
            ),
        ),
    ),
    ShellBug(
        "an answer that comes too late is taken for the answer to the next request",
        "clients-bad-network",
        (
            Edit(
                "client/net/connection.py",
                "            waiting.future.set_exception(error)\n        self.close(error)",
                "            waiting.future.set_exception(error)\n        self._waiting.remove(waiting)",
            ),
            Edit(
                "client/net/connection.py",
                "        if len(frame) < 4 or correlation_id != waiting.correlation_id:",
                "        if len(frame) < 4:",
            ),
        ),
    ),
    ShellBug(
        "an answer of a lost connection is matched to a request of the next one",
        "clients-bad-network",
        (
            Edit(
                "client/net/connection.py",
                "        self._receiver = FrameReceiver()\n        self._waiting: deque[_Waiting] = deque()",
                "        self._receiver = FrameReceiver()\n"
                "        self._waiting = loop.__dict__.setdefault(address, deque())",
            ),
            Edit(
                "client/net/connection.py",
                "        if len(frame) < 4 or correlation_id != waiting.correlation_id:",
                "        if len(frame) < 4:",
            ),
        ),
    ),
    ShellBug(
        "a poll returns records of a partition that was revoked",
        "clients",
        (
            Edit(
                "client/consumer/shell.py",
                "                self.fetcher.stop(partitions)",
                "                pass",
            ),
        ),
    ),
    ShellBug(
        "connections stay open after close",
        "clients",
        (
            Edit(
                "client/net/client.py",
                "        for each in self._connections.values():\n            each.close()\n"
                "        self._connections.clear()",
                "        self._connections.clear()",
            ),
        ),
    ),
    ShellBug(
        "a request that was written is not failed when its connection is lost",
        "clients-bad-network",
        (
            Edit(
                "client/net/connection.py",
                "                each.future.set_exception(self._as_failure(self.closed_with))",
                "                pass",
            ),
        ),
    ),
    ShellBug(
        "a coordinator that was found is not told to the core",
        "clients",
        (
            Edit(
                "client/consumer/shell.py",
                "            self.core.coordinator_found(self.now_ms())",
                "            pass",
            ),
        ),
    ),
    ShellBug(
        "a failed request is not told to the core",
        "clients-bad-network",
        (
            Edit(
                "client/consumer/shell.py",
                "            self.core.failed(ticket, error, self.now_ms())",
                "            pass",
            ),
        ),
    ),
    ShellBug(
        "the task that keeps metadata fresh goes on after close",
        "clients",
        (
            Edit(
                "client/net/metadata_refresh.py",
                "        if self._task is not None:\n            self._task.cancel()",
                "        pass",
            ),
        ),
    ),
    ShellBug(
        "the task that closes idle connections goes on after close",
        "clients",
        (
            Edit(
                "client/net/client.py",
                "        if self._keeper is not None:\n            self._keeper.cancel()",
                "        pass",
            ),
        ),
    ),
    ShellBug(
        "the core does not hear that a listener has returned",
        "clients",
        (
            Edit(
                "client/consumer/calls.py",
                "        yield OnIo(self._on_io(lambda: self.core.listener_returned(error, self.loop.now_ms())))",
                "        pass",
            ),
        ),
    ),
)
