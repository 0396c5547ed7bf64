"""The command line as it is today: version, help, and decoding of bytes; errors are one sentence."""

import json
import subprocess
import sys

from seamark import __version__
from seamark.cli.options.connection import read_properties

BODY = (
    "0a64656d6f47726f7570ffffffff0100020a64656d6f546f70696303000000000000000000000064ffffffff146173736f636961746564206d6574"
    "6164617461000000000100000000000000c8ffffffff0e6d6f7265206d65746164617461000000"
)


def seamark(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    statement = "from seamark.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", statement, *arguments], capture_output=True, text=True, input=stdin, timeout=60
    )


def test_version_and_help_answer():
    assert seamark("--version").stdout == f"seamark {__version__}\n"
    assert "wire" in seamark("--help").stdout


def test_the_module_is_the_command_and_short_help_is_help():
    ran = subprocess.run([sys.executable, "-m", "seamark", "-h"], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, seamark("--help").stdout)
    assert seamark("groups", "reset", "-h").stdout == seamark("groups", "reset", "--help").stdout


def test_help_names_arguments_as_people_do():
    shown = seamark("groups", "delete", "--help").stdout
    assert "Usage: seamark groups delete [OPTIONS] GROUP...\n" in shown
    assert "  GROUP...  Groups without members.  [required]\n" in shown
    for words in (["groups", "list"], ["wire", "decode"], ["simulate"], ["produce"], ["topics", "create"]):
        shown = seamark(*words, "--help").stdout
        assert "<" not in shown
        assert "{" not in shown


def test_a_commit_request_is_decoded_from_hexadecimal():
    shown = json.loads(seamark("wire", "decode", "OffsetCommitRequest", "8", BODY, "--json").stdout)
    assert shown["group_id"] == "demoGroup"
    assert [part["committed_offset"] for part in shown["topics"][0]["partitions"]] == [100, 200]
    piped = seamark("wire", "decode", "OffsetCommitRequest", "8", "--json", stdin=BODY)
    assert json.loads(piped.stdout) == shown


def test_a_stored_commit_is_decoded():  # covers: F5, F6
    result = seamark(
        "wire",
        "offsets-entry",
        "0001000964656d6f47726f7570000964656d6f546f70696300000000",
        "00040000000000000064ffffffff146173736f636961746564206d657461646174610000018bcfe5680000",
        "--json",
    )
    shown = json.loads(result.stdout)
    assert "demoGroup" in result.stdout
    assert 100 in shown.values() or 100 in shown.get("value", {}).values()


def test_the_list_of_apis_names_each_with_its_versions():
    rows = {row["name"]: row for row in json.loads(seamark("wire", "apis", "--json").stdout)}
    assert rows["OffsetCommit"] == {"key": 8, "name": "OffsetCommit", "versions": "0-9", "flexible": "8+"}


def test_bad_input_is_answered_with_one_sentence():
    for arguments, words, code in [
        (("wire", "decode", "OffsetCommitRequest", "8", "0a64"), "group_id at byte 1", 1),
        (("wire", "decode", "OffsetCommitRequest", "99", BODY), "version 99", 1),
        (("wire", "decode", "Nonsense", "1", "00"), "is not a message", 2),
        (("wire", "decode", "OffsetCommitRequest", "8", "zz"), "not hexadecimal", 2),
    ]:
        result = seamark(*arguments)
        assert result.returncode == code
        assert result.stdout == ""
        assert len(result.stderr.splitlines()) == 1
        assert words in result.stderr


def test_the_last_line_of_a_properties_file_counts_even_if_it_says_that_more_follows(tmp_path):
    (tmp_path / "p").write_text("client.id=a\\\n  b\n# note\nbootstrap.servers=localhost:1\\")
    assert read_properties(tmp_path / "p") == {"client.id": "ab", "bootstrap.servers": "localhost:1"}
