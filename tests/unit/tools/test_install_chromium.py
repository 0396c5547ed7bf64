"""The browser tests' Chromium: found, installed where that is allowed, and one sentence where it is not."""

from pathlib import Path

import pytest

from tools.install_chromium import ChromiumMissing, chromium


@pytest.fixture
def programs(tmp_path):
    """A directory that stands for PATH, and a way to put scripts into it."""

    def write(name, script):
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        return file

    write.path = str(tmp_path)
    return write


def apt_that(programs, install, update="exit 0"):
    """An apt-get that keeps a list of what it was asked for."""
    log = f"{programs.path}/asked"
    programs("apt-get", f'echo "$1" >> {log}\ncase "$1" in\nupdate) {update};;\ninstall) {install};;\nesac')


def asked(programs):
    return Path(programs.path, "asked").read_text().split()


def new_program(programs):
    at = f"{programs.path}/chromium"
    return f"printf '#!/bin/sh\\n' > {at}; /bin/chmod 755 {at}"


def test_one_that_is_there_is_taken_whoever_asks(programs):
    there = programs("chromium-browser", "exit 0")
    assert chromium(search=programs.path, is_root=False) == there


def test_who_is_not_root_is_told_the_package(programs):
    apt_that(programs, new_program(programs))
    with pytest.raises(ChromiumMissing, match=r"^needs Debian's package chromium: apt-get"):
        chromium(search=programs.path, is_root=False)
    assert not Path(programs.path, "asked").exists()


def test_root_installs_it_and_asks_for_new_lists_only_when_the_old_ones_will_not_do(programs):
    apt_that(programs, new_program(programs))
    assert chromium(search=programs.path, is_root=True).name == "chromium"
    assert asked(programs) == ["install"]


def test_stale_lists_are_renewed_once(programs):
    lists = f"{programs.path}/lists"
    install = f"if [ -e {lists} ]; then {new_program(programs)}; else echo 'E: Unable to locate' >&2; exit 100; fi"
    apt_that(programs, install, update=f": > {lists}")
    assert chromium(search=programs.path, is_root=True).name == "chromium"
    assert asked(programs) == ["install", "update", "install"]


def test_what_apt_said_last_is_the_reason(programs):
    apt_that(programs, "echo 'E: You do not have enough free space' >&2; exit 100")
    with pytest.raises(ChromiumMissing, match="could not be installed: E: You do not have enough free space"):
        chromium(search=programs.path, is_root=True)


def test_an_apt_that_hangs_is_given_up(programs):
    apt_that(programs, "exec /bin/sleep 60")
    with pytest.raises(ChromiumMissing, match="took too long"):
        chromium(search=programs.path, is_root=True, seconds=0.3)


def test_a_system_without_apt_is_told_so(programs):
    with pytest.raises(ChromiumMissing, match="no apt-get"):
        chromium(search=programs.path, is_root=True)
