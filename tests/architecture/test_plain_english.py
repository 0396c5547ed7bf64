"""What users read is plain technical English: no phrases that have to be guessed at, no lines too long to read.

Checked are README.md, the documents, and the strings in the source: errors, help, log lines, findings and pages. The
docstrings of commands are their help and are checked too; other docstrings and comments are for developers.
A page or package that is not there yet is on a list below. The lists only become shorter: an entry that nothing is
wrong with any more has to be removed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "seamark"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONGEST_LINE = 100
# A link with its address, a piece of code, a word.
UNBROKEN = re.compile(r"\[[^]]*\]\([^)]*\)|`[^`]*`|\S+")

LONG_LINES_IN = {"docs/requirements-coverage.md"}
RIDDLES_IN = {
    # Written from the names of tests.
    "docs/requirements-coverage.md",
}
# Each with what to write instead.
RIDDLES = {
    r"anew": "again; a topic is recreated, a plan is made again",
    r"whoever": "every client that",
    r"told": "reported, logged",
    r"beside": "next to, in addition to",
    r"dear": "expensive",
    r"heard of": "known",
    r"somebody|someone who is no": "another client, a user",
    r"no member of": "a client outside the group",
    r"that (?:is|are) well|(?:is|are) not well|well again": "healthy, unhealthy, recovered",
    r"set back": "rewound",
    r"(?:get|has|have|needs?|give|without) the right|an? right is missing|give rights": "grant the ACL",
    r"time can heal": "a retry may succeed",
    r"cannot be(?=[.,;:)]|$)": "is invalid, is below the minimum",
    r"is to be": "will be, has to be",
    r"nodes to be": "number of nodes",
    r"say (?:with|which|where|exactly|to what|--)": "--option is required",
    r"(?:at most|after|more than|put back) so many": "a maximum of N",
    r"is a number of \w+ that": "must be >= 0, got",
    r"for ever": "forever",
    r"with (?:a|one) sentence": "with an error",
    r"(?:last|next|each|every|this|that) look|look failed|looks at the cluster": "poll, sample",
    r"cannot be looked at|could not be looked at": "cannot be read",
    r"unfold(?:s|ed|ing)?": "decompress",
    r"mended": "fixed",
    r"has stood|stands (?:where|there|in front)": "has been at, is",
    r"in vain": "without success",
    r"takes? (?:it|one|them) back|taken back": "undo",
    r"come up to where": "return to",
    r"for so long": "for this long",
    r"(?:is|are) tried again": "is retried, retrying",
    r"not offered": "not supported",
    r"(?:can|could) ?not be had": "is unavailable",
    r"nobody (?:awaits|runs|waits|iterates|would|is assigned|answers|made)": "is not awaited, is not run",
    r"strangers?": "unauthenticated clients",
    r"was (?:owed|to lose)": "was due, lost",
    r"(?:was|were) ended by": "was killed by, was closed by",
    r"ended the connection": "closed the connection",
    r"unsound": "corrupt",
    r"bytes are there": "only N of M bytes are present",
    r"behind (?:this|the) (?:offset|message|stream|batch|last record|headers|datum)": "after the batch",
    r"is no (?:name|number|list|request|text|member|stall)": "is not a, must be a",
    r"cannot be the": "is not a valid, cannot be used as the",
    r"answered no|answers? otherwise": "denied",
    r"if this goes on|cannot go on": "if this continues",
    r"(?:are|not) ours": "assigned to this consumer",
    r"change hands": "move to another member",
    r"run(?:s|ning)? short": "running out of",
    r"as far as is known": "according to the metadata",
    r"access rules?": "ACL",
    r"is a fault in": "is a bug in",
}
RIDDLE = re.compile(
    "|".join(rf"(?P<r{number}>\b(?:{words}))(?!\w)" for number, words in enumerate(RIDDLES)), re.IGNORECASE
)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a document outside of blocks of code, or of a page without its comments, with their numbers."""
    in_code = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.lstrip().startswith("//"):
            yield number, line


def too_long(path: Path) -> list[str]:
    """Lines that could be broken and are not: tables, pictures, and long links and pieces of code cannot be."""
    return [
        f"{relative(path)}:{number}: {len(line)} characters"
        for number, line in prose(path)
        if len(line) > LONGEST_LINE
        and not line.lstrip().startswith(("|", "!["))
        and max(map(len, UNBROKEN.findall(line))) <= LONGEST_LINE // 2
    ]


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """What a source file may show to a user, with the line where it begins."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    is_command = SOURCE / "cli" in path.parents
    documentation = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            is_help = is_command and isinstance(node, ast.FunctionDef) and _has_options(node)
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and not is_help:
                documentation.add(first.value)
    # A name that is looked up is no sentence.
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documentation
        if is_text and " " in node.value.strip():
            yield node.lineno, node.value


def _has_options(function: ast.FunctionDef) -> bool:
    """Whether a function of the command line is a command: its parameters are called as the connection's options."""
    return bool({"as_json", "bootstrap", "listen", "plan", "hexadecimal"} & {each.arg for each in function.args.args})


def riddles(path: Path) -> list[str]:
    lines = strings(path) if path.suffix == ".py" else prose(path)
    found = []
    for number, text in lines:
        # A link's address keeps the name of the file it leads to, and code its own names.
        shown = text
        if path.suffix == ".md":
            shown = re.sub(r"\]\([^)]*\)|``.+?``|`[^`]*`", "", text)
        elif path.suffix == ".js":
            shown = " ".join(re.findall(r"\"[^\"]*\"|`[^`]*`", text))
        for match in RIDDLE.finditer(shown):
            assert match.lastgroup is not None
            instead = list(RIDDLES.values())[int(match.lastgroup[1:])]
            found.append(f"{relative(path)}:{number}: {match[0]!r} (rather: {instead})")
    return found


def listed(path: Path, known: set[str]) -> str | None:
    """The entry that excuses the path, if any."""
    name = relative(path)
    return next((entry for entry in known if name == entry or name.startswith(f"{entry}/")), None)


@cache
def long_lines() -> dict[Path, list[str]]:
    return {path: too_long(path) for path in DOCUMENTS}


@cache
def all_riddles() -> dict[Path, list[str]]:
    sources = sorted(path for ending in ("py", "js", "html") for path in SOURCE.rglob(f"*.{ending}"))
    return {path: riddles(path) for path in [*DOCUMENTS, *sorted((ROOT / "docs" / "exporter").iterdir()), *sources]}


def test_lines_of_documents_are_short_enough_to_read():
    assert [each for path, found in long_lines().items() if not listed(path, LONG_LINES_IN) for each in found] == []


def test_no_sentence_has_to_be_guessed_at():
    assert [each for path, found in all_riddles().items() if not listed(path, RIDDLES_IN) for each in found] == []


@pytest.mark.parametrize(("known", "search"), [(LONG_LINES_IN, long_lines), (RIDDLES_IN, all_riddles)])
def test_the_lists_of_what_is_not_there_yet_only_become_shorter(known, search):
    needed = {listed(path, known) for path, found in search().items() if found}
    assert known - needed == set(), "nothing is wrong with these any more: remove them from the list"


def test_riddles_are_found_with_file_and_line_and_plain_words_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.architecture.test_plain_english.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# A page\n\nA topic that was made anew.\n\n```text\nanew\n```\nTold by somebody.\n")
    assert [each.partition(" (")[0] for each in riddles(page)] == [
        "page.md:3: 'anew'",
        "page.md:8: 'Told'",
        "page.md:8: 'somebody'",
    ]
    module = tmp_path / "module.py"
    module.write_text('"""Told."""\nERROR = "a batch of 3 bytes cannot be"\nPLAIN = "it cannot be read besides"\n')
    assert [each.partition(" (")[0] for each in riddles(module)] == ["module.py:2: 'cannot be'"]
    page.write_text("x " * 51 + "\n| " + "x " * 60 + "|\n[" + "x" * 60 + "](" + "y" * 60 + ")\n")
    assert too_long(page) == ["page.md:1: 102 characters"]
