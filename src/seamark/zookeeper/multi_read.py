"""Reads many nodes with one request: ZooKeeper's multi-read (since 3.6), which kazoo has no call for.

With kazoo the price of a read is that of a request, not that of a node, so a hundred thousand nodes read in portions
take a fraction of the time. A portion that the server refuses as a whole (an older one knows no such request) is read
node by node; answers are the same either way: ``(content, None)`` or kazoo's exception about that node.

    request    per node: header (type 4, not done, -1), path, watch 0; then the header (-1, done, -1)
    response   per node: header, then content and 68 bytes of statistics, or (type -1) an error code; then the last one
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from seamark.zookeeper.session import ZookeeperSession

# A server takes requests of up to a megabyte; answers of offsets are a hundred bytes each.
_NODES_AT_ONCE = 64
_MULTI_READ = 22
_GET_DATA = 4
_HEADER = struct.Struct("!iBi")
_INT = struct.Struct("!i")
_STATISTICS_BYTES = 68
_END = _HEADER.pack(-1, 1, -1)

T = TypeVar("T")


class MultiRead:
    """A request as kazoo's connection wants them: ``type``, ``serialize`` and ``deserialize``."""

    type = _MULTI_READ

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = list(paths)

    def serialize(self) -> bytes:
        head = _HEADER.pack(_GET_DATA, 0, -1)
        parts = []
        for path in self._paths:
            name = path.encode()
            parts += [head, _INT.pack(len(name)), name, b"\0"]
        return b"".join([*parts, _END])

    @staticmethod
    def deserialize(buffer: bytes, offset: int) -> list[Any]:
        """Per node ``(content, None)``, or the exception that kazoo has for it."""
        from kazoo.exceptions import EXCEPTIONS

        answers: list[Any] = []
        while True:
            kind, is_done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if is_done:
                return answers
            (number,) = _INT.unpack_from(buffer, offset)
            offset += _INT.size
            if kind == _GET_DATA:
                length = max(0, number)
                answers.append((bytes(buffer[offset : offset + length]), None))
                offset += length + _STATISTICS_BYTES
            else:
                answers.append(EXCEPTIONS[number]())


def read_each(
    session: ZookeeperSession, questions: Iterable[T], path_of: Callable[[T], str]
) -> Iterator[tuple[T, Any]]:
    """Each question with the content of its node, in order."""
    coming = iter(questions)
    portions = iter(lambda: list(islice(coming, _NODES_AT_ONCE)), [])

    def ask(client: Any, portion: list[T]) -> Any:
        result = client.handler.async_result()
        client._call(MultiRead(f"{client.chroot}{path_of(question)}" for question in portion), result)
        return result

    def one_by_one(portion: Iterable[T]) -> Iterator[tuple[T, Any]]:
        return session.each(lambda client, question: client.get_async(path_of(question)), portion)

    if session.reads_many is None:
        # Alone: a server that does not know the request ends the session, and with it whatever else is under way.
        session.reads_many = _is_known(session)
    if not session.reads_many:
        yield from one_by_one(coming)
        return
    for portion, answers in session.each(ask, portions):
        if isinstance(answers, Exception) or len(answers) != len(portion):
            yield from one_by_one(portion)
        else:
            yield from zip(portion, answers, strict=True)


def _is_known(session: ZookeeperSession) -> bool:
    def ask(client: Any, _: None) -> Any:
        result = client.handler.async_result()
        client._call(MultiRead(["/"]), result)
        return result

    ((_, answer),) = session.each(ask, [None])
    return not isinstance(answer, Exception)
