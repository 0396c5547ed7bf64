"""How-to pages do what they say: programs run, commands print what is on the page; and no example escapes all tests."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.document_runner import Block, blocks_of, commands_of, run_document

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
# ``py`` blocks need more than the document itself: a Spark session, or the broker that its commands start.
RUN_BY = {
    "README.md": "tests/spark/test_documents_with_spark.py",
    "docs/offsets-lake.md": "tests/spark/test_documents_with_spark.py",
    "docs/security.md": "tests/conformance/test_security_document.py",
    "docs/spark.md": "tests/spark/test_guide_runs.py",
    **{f"docs/how-to/{path.name}": "tests/spark/test_documents_with_spark.py" for path in HOW_TO},
}
# What may stand in a document without being run as a program: shells, formats, screens.
NOT_PROGRAMS = {"", "console", "csv", "diff", "json", "properties", "sh", "text", "yaml"}


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def is_for_spark(path):
    return any(block.language == "py" for block in blocks_of(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", [path for path in HOW_TO if not is_for_spark(path)], ids=name_of)
def test_a_how_to_page_does_what_it_says(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_document(path, {}) > 1


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_program_of_a_document_is_run_by_some_test(path):
    languages = {block.language for block in blocks_of(path.read_text(encoding="utf-8"))}
    assert languages - NOT_PROGRAMS <= {"python", "py"}
    if "py" in languages:
        runner = ROOT / RUN_BY[name_of(path)]
        assert "py" in runner.read_text(encoding="utf-8")
        # A page is run by one runner, in one language.
        assert "python" not in languages or path.parent.name != "how-to"


def test_every_how_to_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [path.name for path in HOW_TO if f"(how-to/{path.name})" not in index] == []


def seamark_lines(block):
    """Command lines of seamark in a block for a shell, without its comments and prompts."""
    for line in re.sub(r"\\\n\s*", "", block.text).splitlines():
        words = line.removeprefix("$ ").split("  #")[0].split(" #")[0].strip()
        if re.match(r"seamark\s+[a-z]", words) and "|" not in words and "…" not in words:
            yield words


COMMANDS = [
    (name_of(path), words)
    for path in DOCUMENTS
    for block in blocks_of(path.read_text(encoding="utf-8"))
    if block.language in ("sh", "console")
    for words in seamark_lines(block)
]


def understood(words):
    """The command that the words call, with its options read and nothing run."""
    from typer.main import get_command

    from seamark.cli.main import app

    context = get_command(app).make_context("seamark", shlex.split(re.sub(r"<[^>]*>", "x", words))[1:])
    while hasattr(context.command, "commands"):
        words = [*context._protected_args, *context.args]
        if not words and context.command.invoke_without_command:
            break
        name, command, rest = context.command.resolve_command(context, words)
        context = command.make_context(name, rest, parent=context)
    return context.command


# A command that would not end, or needs a cluster, is not run; but it must be one that there is.
@pytest.mark.parametrize(("document", "words"), COMMANDS)
def test_commands_in_documents_are_understood(document, words):
    assert understood(words).callback is not None


@pytest.mark.parametrize("words", ["seamark grups list", "seamark lag --fail-above 3", "seamark groups undo"])
def test_a_command_that_there_is_not_is_noticed(words):
    with pytest.raises(Exception, match=r"No such|Missing"):
        understood(words)


def test_the_runner_finds_a_difference_on_the_screen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ seamark --version\nseamark 0.0.0 of another world\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md, line 2: this came on the screen:\nseamark \d"):
        run_document(page, {"bootstrap": "nowhere:1"})
    page.write_text("```console\n$ seamark --version\nseamark …\n```\n")
    assert run_document(page, {"bootstrap": "nowhere:1"}) == 1


def test_the_runner_tells_the_line_of_a_program_that_fails(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n```python\nnumber = 1\n```\n\n```python\nassert number == 2\n```\n")
    with pytest.raises(AssertionError) as failed:
        run_document(page, {})
    assert failed.traceback[-1].lineno + 1 == 8


def test_what_is_not_seamarks_is_not_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ rm -r everything\n```\n")
    with pytest.raises(AssertionError, match="only seamark's commands"):
        run_document(page, {"bootstrap": "nowhere:1"})


def test_commands_and_their_screens_are_told_apart():
    block = Block("console", "$ seamark a 'b c'\none\ntwo\n$ seamark d\n", 10)
    found = list(commands_of(block))
    assert [(command.words, command.screen, command.line) for command in found] == [
        (["seamark", "a", "b c"], "one\ntwo\n", 10),
        (["seamark", "d"], "", 13),
    ]
