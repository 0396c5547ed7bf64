"""``seamark dashboard`` as a new user meets it: options, refusals in a sentence, the line it prints, a clean end."""

import builtins
import signal
import sys

import pytest

from seamark.cli import dashboard_command as command
from seamark.errors import MissingExtra, SeamarkError, UsageError


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:1", "[::1]:8", "127.9.9.9:1"])
def test_this_machine_may_be_listened_at_without_more(listen):
    command.check_listen(listen, is_secured=False)


@pytest.mark.parametrize("listen", ["0.0.0.0:8088", "192.168.0.7:80", "[::]:1", "example.org:80"])
def test_other_addresses_need_tls_or_a_proxy(listen):
    with pytest.raises(UsageError, match="--tls-cert"):
        command.check_listen(listen, is_secured=False)
    command.check_listen(listen, is_secured=True)


def test_clusters_are_named_by_address_or_file_and_share_options(tmp_path):
    (tmp_path / "prod.properties").write_text("bootstrap.servers=p:1\nsasl.mechanism=PLAIN\n")
    found = command.clusters(["prod=" + str(tmp_path / "prod.properties"), "test=a:1,b:2"], "", "", ["client.id=me"])
    assert list(found) == ["prod", "test"]
    assert (found["prod"]["bootstrap.servers"], found["prod"]["sasl.mechanism"]) == ("p:1", "PLAIN")
    assert found["test"]["bootstrap.servers"] == "a:1,b:2"
    assert {each["client.id"] for each in found.values()} == {"me"}
    assert list(command.clusters(["test=a:1"], "m:1", "", [])) == ["main", "test"]


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        (["a:1"], "NAME=HOST:PORT"),
        (["a/b=h:1"], "NAME=HOST:PORT"),
        (["=h:1"], "NAME=HOST:PORT"),
        (["a=h:1", "a=i:1"], "given twice"),
        (["a=no-such-file"], "no such file"),
        ([], "no cluster given"),
    ],
)
def test_a_wrong_cluster_is_a_sentence(named, sentence):
    with pytest.raises(UsageError, match=sentence):
        command.clusters(named, "", "", [])


def test_limits_are_records_or_durations():
    found = command.limits_of(["1000", "10m"])
    assert (found.records, found.seconds) == (1000, 600.0)
    with pytest.raises(UsageError, match="not a duration"):
        command.limits_of(["soon"])


def test_a_token_of_ones_own_must_be_long_enough_and_is_not_repeated(tmp_path, monkeypatch):
    (tmp_path / "t").write_text("abc\n")
    with pytest.raises(UsageError, match="at least 16") as refused:
        command.given_token(str(tmp_path / "t"))
    assert "abc" not in str(refused.value)
    monkeypatch.setenv("SEAMARK_DASHBOARD_TOKEN", "x" * 20)
    assert command.given_token("") == "x" * 20
    with pytest.raises(UsageError, match="cannot be read"):
        command.given_token(str(tmp_path / "none"))


def test_without_the_optional_packages_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    real = builtins.__import__

    def missing(name, *more):
        if name.partition(".")[0] in ("starlette", "uvicorn"):
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'seamark\[dashboard\]'"):
        command.dashboard(bootstrap="127.0.0.1:1", state=str(tmp_path), listen="127.0.0.1:0")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--listen", "0.0.0.0:0", "--bootstrap", "h:1"], "not a loopback address"),
        (["--listen", "here", "--bootstrap", "h:1"], "must be HOST:PORT"),
        (["--bootstrap", "h:1", "--tls-cert", "x"], "must be given together"),
        (["--bootstrap", "h:1", "--tls-cert", "/no/x", "--tls-key", "/no/y"], "cannot be used with this key"),
        (["--bootstrap", "h:1", "--reset", "never"], "neither earliest nor latest"),
        (["--bootstrap", "h:1", "--alert-url", "gopher://x"], "http:// or https://"),
        (["--bootstrap", "h:1", "--every", "often"], "not a duration"),
    ],
)
def test_a_wrong_option_is_a_sentence(words, sentence, monkeypatch, tmp_path, capsys):
    from seamark.cli.main import main

    monkeypatch.setattr(sys, "argv", ["seamark", "dashboard", "--state", str(tmp_path), *words])
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    err = capsys.readouterr().err
    assert ended.value.code == 2
    assert sentence in err
    assert err.count("\n") == 1


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory; what is kept by default is under it."""
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def spoil(home):
    """The usual history file is no database."""
    usual = home / ".local" / "state" / "seamark" / "dashboard"
    usual.mkdir(parents=True)
    (usual / "history.sqlite3").write_text("something else, and long enough to be looked at" * 20)
    return usual


def test_a_history_that_cannot_be_opened_is_said_and_kept_in_memory(home, capsys):
    usual = spoil(home)
    history, directory = command.opened_history("", allow_changes=True)
    assert directory == usual
    assert "file is not a database" in history.not_kept
    err = capsys.readouterr().err
    assert err.startswith(f"seamark: graphs are not kept across restarts: the history file {usual}")
    assert err.endswith("--state DIR chooses another directory\n")
    history.close()


def test_a_directory_that_cannot_be_made_is_said_where_nothing_has_to_be_kept(home, capsys):
    (home / ".local").write_text("no directory")
    history, directory = command.opened_history("", allow_changes=False)
    assert (directory, "cannot be created" in history.not_kept) == (None, True)
    assert "cannot be created" in capsys.readouterr().err
    history.close()
    with pytest.raises(UsageError, match="cannot be created"):
        command.opened_history("", allow_changes=True)


def test_a_directory_that_was_named_must_be_usable(home):
    usual = spoil(home)
    with pytest.raises(SeamarkError, match="file is not a database"):
        command.opened_history(str(usual), allow_changes=False)
    with pytest.raises(UsageError, match="cannot be created"):
        command.opened_history(str(usual / "history.sqlite3"), allow_changes=False)


def test_a_user_without_a_home_directory_gets_the_pages_all_the_same(home, monkeypatch):
    def none():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(command.Path, "home", none)
    history, directory = command.opened_history("", allow_changes=False)
    assert (directory, "no home directory" in history.not_kept) == (None, True)
    history.close()
