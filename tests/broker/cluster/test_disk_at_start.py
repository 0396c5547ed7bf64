"""A broker whose data directory cannot be used: one sentence, whatever it is and however many partitions there are."""

import errno
import os
from pathlib import Path

import pytest

from seamark import Broker
from seamark.cli.main import main
from seamark.errors import SeamarkError, UsageError
from seamark.storage.errors import DiskFull, UnknownFormat, translate
from seamark.storage.files.real import RealFile


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
    with pytest.raises(DiskFull, match="No space left on device; the broker needs free space on this disk to start"):
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
    with pytest.raises(UsageError, match="cannot be used as the data directory: it, or a part of its path, is a file"):
        Broker(data=tmp_path / "file" / below)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_directory_that_cannot_be_written_to_is_refused_with_the_reason(tmp_path, monkeypatch, number):
    monkeypatch.setattr(Path, "mkdir", fail_with(number))
    with pytest.raises(UsageError, match=f"cannot be used as the data directory: {os.strerror(number)}"):
        Broker(data=tmp_path / "data")


def test_a_state_file_that_is_gone_does_not_cost_the_logs(data):
    (data / "broker.json").unlink()
    with pytest.raises(UsageError, match=r"holds 8 logs \(t-0, …\) but no broker.json, .* restore that file"):
        Broker(data=data)
    assert len(list(data.glob("t-*/*.log"))) == 8


def test_a_directory_with_files_of_somebody_else_can_be_used(tmp_path):
    (tmp_path / "backup-2024").mkdir()
    (tmp_path / "backup-2024" / "notes").write_text("keep")
    with Broker(data=tmp_path):
        pass
    assert (tmp_path / "backup-2024" / "notes").read_text() == "keep"


@pytest.mark.parametrize("name", ["broker.json", "broker.lock"])
def test_a_link_in_place_of_a_file_is_not_followed(tmp_path, name):
    target = tmp_path / "target"
    target.write_text("somebody else's")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).symlink_to(target)
    with pytest.raises(SeamarkError, match="it is a symbolic link, which is not followed"):
        Broker(data=tmp_path / "data")
    assert target.read_text() == "somebody else's"


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_state_file_that_was_cut_off_is_refused_with_what_to_do(data, keep):
    state = data / "broker.json"
    state.write_bytes(state.read_bytes()[:keep])
    with pytest.raises(UnknownFormat, match="restore the directory from a backup, or start with another one"):
        Broker(data=data)
    assert state.stat().st_size == keep


def test_a_link_in_place_of_an_unfinished_file_is_taken_away_and_not_written_to(data, tmp_path):
    target = tmp_path / "target"
    target.write_text("somebody else's")
    (data / "broker.json.tmp").symlink_to(target)
    with Broker(data=data):
        assert not (data / "broker.json.tmp").exists()
    assert target.read_text() == "somebody else's"


def test_what_an_unfinished_save_left_is_taken_away(data):
    (data / "broker.json.tmp").write_text("half of it")
    with Broker(data=data):
        assert not (data / "broker.json.tmp").exists()


def test_the_command_says_one_sentence_on_a_read_only_disk(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("seamark.broker.cluster.state.os.open", fail_with(errno.EROFS))
    monkeypatch.setattr("sys.argv", ["seamark", "broker", "--listen", "127.0.0.1:0", "--data", str(tmp_path)])
    monkeypatch.setattr("logging.basicConfig", lambda **_options: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert (
        capsys.readouterr().err == f"seamark: {tmp_path} cannot be used as the data directory: Read-only file system\n"
    )
