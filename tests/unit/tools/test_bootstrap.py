"""``make`` on a machine that lacks something: one sentence that says what to install."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def clone(tmp_path):
    """As much of the repository as the set-up looks at, without a .venv."""
    for name in ("pyproject.toml", "Makefile"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    return tmp_path


def bootstrap(clone: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run the set-up with a python3 made of the given shell script and nothing newer in reach."""
    tools = clone / "bin"
    tools.mkdir()
    for name in ("sh", "dirname", "cksum", "cp", "cut", "mkdir", "rm", "touch"):
        (tools / name).symlink_to(shutil.which(name))
    python = tools / "python3"
    python.write_text("#!/bin/sh\n" + script)
    python.chmod(0o755)
    environment = {"PATH": str(tools), "HOME": os.environ.get("HOME", "/")}
    return subprocess.run(
        ["sh", "tools/bootstrap.sh"], cwd=clone, env=environment, capture_output=True, text=True, timeout=60
    )


def test_a_too_old_python_is_named_with_what_to_install(clone):
    result = bootstrap(clone, 'case "$1" in --version) echo "Python 3.9.2";; *) exit 1;; esac\n')
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "found Python 3.9.2" in result.stderr
    assert "apt install python3" in result.stderr


def test_a_missing_venv_module_is_named_with_what_to_install(clone):
    script = 'case "$*" in *ensurepip*) exit 1;; --version) echo "Python 3.11.2";; *) exit 0;; esac\n'
    result = bootstrap(clone, script)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "python3-venv" in result.stderr


def test_every_package_is_installed_by_its_hash_and_the_installer_comes_first(clone):
    (clone / "fake").write_text('#!/bin/sh\necho "$*" >> "$(dirname "$0")/../../calls"\n')
    (clone / "fake").chmod(0o755)
    made = "mkdir -p .venv/bin && cp fake .venv/bin/python"
    script = f'case "$*" in "-m venv .venv") {made};; *) exit 0;; esac\n'
    result = bootstrap(clone, script)
    assert (result.returncode, result.stderr.splitlines()) == (
        0,
        ["seamark: installing the locked dependencies into .venv (once)"],
    )
    calls = (clone / "calls").read_text().splitlines()
    assert [call.split()[-1] for call in calls] == ["requirements/installer.lock", "requirements/dev.lock", "."]
    for call in calls:
        # What is not on the list comes from nowhere: seamark itself needs no index.
        assert "--require-hashes --only-binary=:all:" in call or "--no-index --no-deps" in call
    # Without this, pip fetches build tools for a package without a wheel, and no hash covers those.
    assert all("--no-build-isolation" in call for call in calls[1:])


def test_make_help_lists_every_target():
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("run", "test", "check", "soak", "bench", "help"):
        assert f"make {target} " in shown
