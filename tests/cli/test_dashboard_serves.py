"""``seamark dashboard`` as a process: the line it prints, what it serves, a clean end."""

import signal
import subprocess
import sys
import urllib.request


def test_it_serves_although_the_cluster_is_away_and_ends_on_sigterm(tmp_path):
    command = [
        sys.executable, "-c", "from seamark.cli.main import main; main()", "dashboard", "--state", str(tmp_path),
        "--listen", "127.0.0.1:0", "--bootstrap", "127.0.0.1:1",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            line = running.stdout.readline()
            address, _, token = line.removeprefix("ready dashboard=").strip().partition("#")
            assert len(token) >= 24
            page = urllib.request.urlopen(address, timeout=30).read().decode()
            assert token not in page
            assert urllib.request.urlopen(address.replace("/login", "/healthz"), timeout=30).read() == b"ok\n"
        finally:
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 0
        assert token not in running.stderr.read()
    assert (tmp_path / "history.sqlite3").exists()
