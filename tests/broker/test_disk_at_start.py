"""A broker whose data directory cannot be used: one sentence, whatever it is and however many partitions there are."""

import errno
import os
from pathlib import Path

import pytest

from seamark import Broker
from seamark.cli.main import main
from seamark.errors import UsageError
from seamark.storage.errors import DiskFull, translate
from seamark.storage.real_filesystem import RealFile


def fail_with(number):
    def fail(*_arguments, **_options):
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture
def data(tmp_path):
    """A directory with eight partitions that hold something."""
    from seamark.client import Producer

    with Broker(data=tmp_path / "data") as broker:
        broker.create_topic("t", 8)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for partition in range(8):
                producer.send("t", b"x", partition=partition)
    return tmp_path / "data"


@pytest.fixture
def full_disk(monkeypatch):
    def fill():
        def append(file, content):
            raise translate(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), file._path)

        monkeypatch.setattr(RealFile, "append", append)

    return fill


def test_a_start_on_a_full_disk_is_one_error_and_nothing_in_the_log(data, full_disk, caplog):
    full_disk()
    with pytest.raises(DiskFull, match="No space left on device; the broker needs room on this disk to start"):
        Broker(data=data)
    assert caplog.messages == []


def test_the_command_says_one_sentence_on_a_full_disk(data, full_disk, capsys, monkeypatch):
    full_disk()
    monkeypatch.setattr("sys.argv", ["seamark", "broker", "--listen", "127.0.0.1:0", "--data", str(data)])
    monkeypatch.setattr("logging.basicConfig", lambda **_options: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"seamark: {data}/broker.json.tmp: No space left on device; ")


def test_a_stop_on_a_full_disk_is_one_line_for_all_partitions(data, full_disk, caplog):
    broker = Broker(data=data)
    full_disk()
    broker.close()
    (message,) = caplog.messages
    assert message == (
        "8 partitions were not closed cleanly and are checked at the next start (t-0, t-1, t-2, t-3, t-4, …): "
        "No space left on device"
    )
    assert caplog.records[0].exc_info is None


@pytest.mark.parametrize("below", [".", "sub/directory"])
def test_a_file_in_place_of_the_directory_is_said_to_be_one(tmp_path, below):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be the data directory: it, or a part of its path, is a file"):
        Broker(data=tmp_path / "file" / below)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_directory_that_cannot_be_written_to_is_refused_with_the_reason(tmp_path, monkeypatch, number):
    monkeypatch.setattr(Path, "mkdir", fail_with(number))
    with pytest.raises(UsageError, match=f"cannot be the data directory: {os.strerror(number)}"):
        Broker(data=tmp_path / "data")
