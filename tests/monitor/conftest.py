"""The command line, called in the test's own process and directory."""

import sys

import pytest


@pytest.fixture
def seamark(kafka_like, capsys, monkeypatch, tmp_path):
    """Run a command line in a directory of its own: exit code, standard output, standard error."""
    from seamark.cli.main import main

    monkeypatch.chdir(tmp_path)

    def run(*words, bootstrap=kafka_like.bootstrap):
        monkeypatch.setenv("SEAMARK_BOOTSTRAP", bootstrap)
        monkeypatch.setattr(sys, "argv", ["seamark", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return run
