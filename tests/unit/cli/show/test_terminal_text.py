"""What a cluster calls its things cannot move the cursor, colour the screen or forge a line on standard error."""

import logging
import sys

import pytest

from seamark.cli import main as main_module
from seamark.cli.show.lag_columns import LagParts, Note, write_lags
from seamark.cli.show.rows import Column
from seamark.cli.show.terminal_text import say, tell
from seamark.cli.show.warnings_shown import warnings_shown
from seamark.errors import SeamarkError
from seamark.readable_log import readable_logger

EVIL = "a\x1b[31m\x9b2J\u202eb\r\nseamark: all is well\x00"
PLAIN = r"a\x1b[31m\x9b2J\u202eb\r\nseamark: all is well\x00"


def test_a_note_under_a_table_is_one_line(capsys):
    write_lags([Column("LAG", "lag")], [(1,)], [LagParts(1, 0, 1, 0)], [Note(EVIL, EVIL, False)], "table")
    assert capsys.readouterr().err == f"{PLAIN}: {PLAIN}\n"


def test_the_sentence_of_an_error_is_one_line(capsys, monkeypatch):
    def fail(prog_name):
        raise SeamarkError(EVIL)

    monkeypatch.setattr(main_module, "app", fail)
    with pytest.raises(SystemExit):
        main_module.main()
    assert capsys.readouterr().err == f"seamark: {PLAIN}\n"


@pytest.mark.parametrize("name", ["seamark.client", "seamark.monitor.poller"])
def test_a_warning_is_one_line(capsys, monkeypatch, name):
    monkeypatch.setattr(logging.getLogger("seamark"), "propagate", True)
    with warnings_shown():
        readable_logger(name).warning("%s cannot be reached", EVIL)
    assert capsys.readouterr().err.splitlines() == [f"seamark: {PLAIN} cannot be reached"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["lag", "--fail-over", ""], "--fail-over '': must be a number of records >= 0"),
        (["lag", "--fail-over", "9" * 5000], "must be a number of records >= 0"),
        (["lag", "--watch", "--every", "0s"], "--every 0s: must be greater than 0"),
        (["exporter", "--every", "0s"], "--every 0s: must be greater than 0"),
        (["consume", "t", "--limit", "-1"], "--limit -1: must be >= 0"),
        (["topics", "list", "--bootstrap", "..:9092"], "host name is invalid"),
    ],
)
def test_an_option_that_means_nothing_is_refused_before_the_cluster_is_asked(capsys, monkeypatch, words, sentence):
    monkeypatch.setenv("SEAMARK_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setattr(sys, "argv", ["seamark", *words])
    with pytest.raises(SystemExit) as ended:
        main_module.main()
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_properties_file_may_begin_with_a_byte_order_mark(tmp_path):
    from seamark.cli.options.connection import read_properties

    (tmp_path / "client.properties").write_text("bootstrap.servers=a:1\n", encoding="utf-8-sig")
    assert read_properties(tmp_path / "client.properties") == {"bootstrap.servers": "a:1"}


def test_an_endless_name_in_a_sentence_is_cut_and_the_sentence_goes_on(capsys, monkeypatch):
    say(f"there is no group {'x' * 30_000!r}; there are 3 groups")
    say("word " * 30_000 + "the end")
    tell("\x1b" * 30_000)
    captured = capsys.readouterr()
    first, second = captured.err.splitlines()
    assert first.startswith("there is no group 'xxx")
    assert first.endswith("xxx'; there are 3 groups")
    assert len(first) < 400
    assert (len(second), second.endswith("the end")) == (4000, True)
    assert len(captured.out) < 400
