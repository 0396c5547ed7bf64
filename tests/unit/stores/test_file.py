"""The file store beyond its contract: what is on disk, files of others, and what a crash leaves."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.stores import BadOffset, FileStore, StoredOffset
from seamark.stores.contract import LARGEST_OFFSET
from seamark.stores.errors import BadStore, StoreRefused, StoreUnavailable
from seamark.topic_partition import TopicPartition

T0 = TopicPartition("orders", 0)


def test_the_file_says_what_it_is_and_in_which_form(tmp_path):
    path = tmp_path / "offsets.db"
    FileStore(path).close()
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA application_id").fetchone() == (0x536D726B,)
    assert database.execute("PRAGMA user_version").fetchone() == (1,)
    database.close()


def test_a_file_of_a_newer_release_is_refused(tmp_path):
    path = tmp_path / "offsets.db"
    FileStore(path).close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 2")
    database.close()
    with pytest.raises(BadStore, match="newer release"):
        FileStore(path)


def test_files_of_others_are_refused_and_left_alone(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database, and long enough to be looked at as one " * 20)
    with pytest.raises(BadStore):
        FileStore(text)
    assert text.read_text().startswith("not a database")
    other = tmp_path / "other.db"
    database = sqlite3.connect(other)
    database.execute("CREATE TABLE mine (x)")
    database.close()
    with pytest.raises(BadStore, match="another program"):
        FileStore(other)


def test_a_file_that_must_exist_is_not_made(tmp_path):
    with pytest.raises(StoreUnavailable, match="no such file"):
        FileStore(tmp_path / "missing.db", must_exist=True)
    assert not (tmp_path / "missing.db").exists()
    with pytest.raises(StoreUnavailable):
        FileStore(tmp_path / "no" / "folder.db")


def test_a_row_that_is_no_offset_is_reported_and_hides_nothing(tmp_path):
    with FileStore(tmp_path / "offsets.db") as store:
        store.write("g", {T0: StoredOffset(1), TopicPartition("orders", 1): StoredOffset(2)})
        database = sqlite3.connect(store.path)
        database.execute("UPDATE offsets SET committed = 'twelve' WHERE partition_index = 1")
        database.commit()
        database.close()
        found = store.read("g")
        assert found.good == {T0: StoredOffset(1)}
        assert isinstance(found[TopicPartition("orders", 1)], BadOffset)
        assert "orders-1" in str(found.bad[0])


def test_text_that_cannot_be_stored_is_refused(tmp_path):
    with FileStore(tmp_path / "offsets.db") as store:
        outcomes = store.write("g", {T0: StoredOffset(1, "\ud800")})
        assert isinstance(outcomes[T0], StoreRefused)
        assert store.read("g") == {}


def test_a_write_that_is_killed_leaves_all_of_it_or_nothing(tmp_path):
    path = tmp_path / "offsets.db"
    program = (
        "import sys, os, signal\n"
        "from seamark.stores import FileStore, StoredOffset\n"
        "from seamark.topic_partition import TopicPartition\n"
        "store = FileStore(sys.argv[1])\n"
        "first = {TopicPartition('t', n): StoredOffset(1) for n in range(100)}\n"
        "store.write('g', first)\n"
        "def items():\n"
        "    for n in range(5000):\n"
        "        yield f'g{n}', {TopicPartition('t', p): StoredOffset(n) for p in range(10)}\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "list(store.write_many(items()))\n"
    )
    run = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert run.returncode == -9
    with FileStore(path, must_exist=True) as store:
        assert len(store.read("g")) == 100
        whole = [len(offsets) for group, offsets in store.read_many(store.groups()) if group != "g"]
        # All batches but the one that was being made.
        assert set(whole) == {10}
        assert len(whole) >= 4000


_STORED = st.builds(
    StoredOffset,
    st.integers(0, LARGEST_OFFSET),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.none() | st.integers(0, 2**31 - 1),
)
_NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


# covers: G9
@settings(max_examples=30)
@given(
    st.dictionaries(_NAMES, st.dictionaries(st.builds(TopicPartition, _NAMES, st.integers(0, 99)), _STORED, max_size=5))
)
def test_whatever_is_written_is_read_back(tmp_path_factory, written):
    with FileStore(tmp_path_factory.mktemp("store") / "offsets.db") as store:
        assert [group for group, _ in store.write_many(written.items())] == list(written)
        assert dict(store.read_many(written)) == written
        assert store.groups() == sorted(group for group, offsets in written.items() if offsets)
