"""``seamark completion``: scripts for shells, and what the command line answers when one of them asks."""

import os
import shutil
import subprocess
import sys

import pytest

from seamark import Broker
from seamark.client import Admin, TopicPartition

MAIN = "from seamark.cli.main import main; main()"


def asked(line, **environment):
    """What a shell is told about how the line may go on."""
    words = line.split(" ")
    asking = {"_SEAMARK_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    ran = subprocess.run(
        [sys.executable, "-c", MAIN],
        env={**os.environ, "SEAMARK_BOOTSTRAP": "", **asking, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("seamark gr", ["groups"]),
        ("seamark groups re", ["reset"]),
        ("seamark groups reset --cl", ["--clamp"]),
        ("seamark migrate ro", ["rollback"]),
        ("seamark nothing-begins-so", []),
    ],
)
def test_commands_and_options_are_completed(line, expected):
    assert asked(line) == expected


def test_the_first_word_is_completed_without_loading_the_commands():
    program = (
        "import os, sys\n"
        "os.environ |= {'_SEAMARK_COMPLETE': 'complete_bash', 'COMP_WORDS': 'seamark ', 'COMP_CWORD': '1'}\n"
        "from seamark.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "groups" in ran.stdout.split()
    assert "seamark.cli.groups.commands" not in ran.stderr.split()


def test_names_of_groups_and_topics_come_from_the_cluster():
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        broker.create_topic("orders")
        for group in ("billing", "reports"):
            admin.alter_group_offsets(group, {TopicPartition("orders", 0): 0}).raise_if_failed()
        here = {"SEAMARK_BOOTSTRAP": broker.bootstrap}
        assert asked("seamark groups reset ", **here) == ["billing", "reports"]
        assert asked("seamark groups delete billing ", **here) == ["reports"]
        assert asked(f"seamark topics describe --bootstrap {broker.bootstrap} o") == ["orders"]


def test_a_name_that_a_shell_would_run_is_not_completed():
    hostile = [
        "$(touch x)",
        "`id`",
        "a;id",
        "a b",
        "-rf",
        "~root",
        "=ls",
        "a\nid",
        "a'b",
        "\u202ea",
        "a)",
        "*",
        "a\x9b",
    ]
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        broker.create_topic("orders")
        for group in [*hostile, "bestellungen-ä", "team/orders@eu"]:
            admin.alter_group_offsets(group, {TopicPartition("orders", 0): 0}).raise_if_failed()
        found = asked("seamark groups reset ", SEAMARK_BOOTSTRAP=broker.bootstrap)
    assert found == ["bestellungen-ä", "team/orders@eu"]


def test_without_a_cluster_there_are_no_names_and_no_complaint():
    assert asked("seamark groups reset ") == []
    assert asked("seamark groups reset ", SEAMARK_BOOTSTRAP="127.0.0.1:1") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_one_that_the_shell_can_read(shell):
    ran = subprocess.run(
        [sys.executable, "-m", "seamark", "completion", shell], capture_output=True, text=True, timeout=60, check=True
    )
    assert "_SEAMARK_COMPLETE" in ran.stdout
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=ran.stdout, text=True, timeout=60, check=True)


def test_another_shell_is_refused_with_those_there_are():
    ran = subprocess.run(
        [sys.executable, "-m", "seamark", "completion", "tcsh"], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (2, "seamark: 'tcsh' is not one of bash, zsh, fish\n")
