"""Work that may be done on another thread: done before it is asked for, or on the spot, with the same outcome."""

from __future__ import annotations

import threading

import pytest

from seamark.storage.aside import Aside, at_once, unfolded_aside
from seamark.wire.records.compression import Codec, compress


def test_work_is_done_once_by_whoever_comes_first() -> None:
    done: list[str] = []
    elsewhere, here = (Aside(lambda: done.append(threading.current_thread().name)) for _ in range(2))
    thread = threading.Thread(target=elsewhere.run, name="elsewhere")
    thread.start()
    thread.join()
    for aside in (elsewhere, here, here):
        aside.result()
    assert done == ["elsewhere", threading.current_thread().name]


def test_what_it_raised_is_raised_where_the_result_is_asked_for() -> None:
    aside = Aside(lambda: 1 // 0)
    aside.run()
    with pytest.raises(ZeroDivisionError):
        aside.result()


def test_only_what_may_be_large_is_worth_another_thread() -> None:
    small, large = (memoryview(compress(Codec.ZSTD, bytes(size))) for size in (1000, 1 << 20))
    assert list(unfolded_aside(Codec.ZSTD, small, 1 << 22)) == []
    assert [type(each) for each in unfolded_aside(Codec.ZSTD, large, 1 << 22)] == [Aside]
    content, size = at_once(unfolded_aside(Codec.ZSTD, large, 1 << 22)) or (b"", 0)
    assert content[:size] == bytes(1 << 20)


@pytest.mark.parametrize(("codec", "data"), [(Codec.ZSTD, b"noise"), (7, b""), (Codec.GZIP, bytes(5000))])
def test_what_cannot_be_unfolded_is_none(codec: int, data: bytes) -> None:
    assert at_once(unfolded_aside(codec, memoryview(data), 1 << 22)) is None
