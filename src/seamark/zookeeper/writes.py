"""Sets many nodes of ZooKeeper, making those that are missing, and says of each that failed why.

Few are set one by one. Many are looked at first and then written in transactions of a portion each, which cost about as
much as one node. A portion that fails as a whole (somebody made or removed a node meanwhile, one of them is not ours to
write) is done again node by node, so that one bad node costs its portion time and nothing else. Whatever is interrupted
may be done again: writing the same offset twice does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from seamark.errors import SeamarkError
from seamark.stores.errors import StoreRefused, StoreUnavailable
from seamark.zookeeper.multi_read import read_each
from seamark.zookeeper.session import ZookeeperSession

# Below this, looking first costs more than it saves.
_MANY = 16
# A transaction is one entry of the server's log, which takes a megabyte.
_PORTION = 128

T = TypeVar("T")


class NodeContent(NamedTuple):
    path: str
    content: bytes


def put_each(session: ZookeeperSession, wanted: Mapping[T, NodeContent]) -> dict[T, SeamarkError]:
    """Set the nodes; gives what failed, by key."""
    if len(wanted) < _MANY:
        return _put_one_by_one(session, wanted, list(wanted))
    try:
        there = dict(read_each(session, wanted, lambda key: wanted[key].path))
    except (StoreUnavailable, StoreRefused) as error:
        return dict.fromkeys(wanted, error)
    missing = {key for key, answer in there.items() if isinstance(answer, session.missing)}
    _make_parents(session, (wanted[key].path for key in missing))

    def ask(client: Any, keys: list[T]) -> Any:
        transaction = client.transaction()
        for key in keys:
            if key in missing:
                transaction.create(*wanted[key])
            else:
                transaction.set_data(*wanted[key])
        return transaction.commit_async()

    failed: dict[T, SeamarkError] = {}
    undone: list[T] = []
    for keys, answer in attempt_each(session, ask, list(_portions(wanted))):
        if isinstance(answer, SeamarkError):
            failed.update(dict.fromkeys(keys, answer))
        elif isinstance(answer, Exception) or any(isinstance(result, Exception) for result in answer):
            undone += keys
    return failed | _put_one_by_one(session, wanted, undone)


def _put_one_by_one(session: ZookeeperSession, wanted: Mapping[T, NodeContent], keys: list[T]) -> dict[T, SeamarkError]:
    failed: dict[T, SeamarkError] = {}

    def run(ask: Callable[[Any, NodeContent], Any], some: list[T], passed: tuple[type[Exception], ...]) -> list[T]:
        """Ask for each; gives the keys whose answer is ``passed``, which another step deals with."""
        left = []
        for key, answer in attempt_each(session, lambda client, key: ask(client, wanted[key]), some):
            if isinstance(answer, passed):
                left.append(key)
            elif isinstance(answer, SeamarkError):
                failed[key] = answer
            elif isinstance(answer, Exception):
                failed[key] = session.fault(answer, wanted[key].path)
        return left

    missing = run(lambda client, node: client.set_async(*node), keys, (session.missing,))
    if missing:
        _make_parents(session, (wanted[key].path for key in missing))
        raced = run(lambda client, node: client.create_async(*node), missing, (session.exists,))
        run(lambda client, node: client.set_async(*node), raced, ())
    return failed


def _make_parents(session: ZookeeperSession, paths: Iterable[str]) -> None:
    parents = {path.rpartition("/")[0] for path in paths}
    # What goes wrong here shows in the nodes below, each with its own answer.
    for _ in attempt_each(session, lambda client, path: client.ensure_path_async(path), sorted(parents)):
        pass


def attempt_each(
    session: ZookeeperSession, ask: Callable[[Any, T], Any], questions: Sequence[T]
) -> Iterator[tuple[T, Any]]:
    """``session.each``, with a store that cannot be reached as the answer for whatever is left."""
    answered = 0
    try:
        for question, answer in session.each(ask, questions):
            answered += 1
            yield question, answer
    except (StoreUnavailable, StoreRefused) as error:
        for question in questions[answered:]:
            yield question, error


def _portions(keys: Iterable[T]) -> Iterator[list[T]]:
    coming = iter(keys)
    while portion := list(islice(coming, _PORTION)):
        yield portion
