"""Commands against the cluster of the test's module, which gives it as ``cluster``, or against each broker."""

import pytest

from tests.support.commands import command_runner, seamark

__all__ = ["run", "seamark"]


@pytest.fixture
def run(cluster, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SEAMARK_BOOTSTRAP", cluster.bootstrap)
    monkeypatch.chdir(tmp_path)
    return command_runner(capsys, monkeypatch)
