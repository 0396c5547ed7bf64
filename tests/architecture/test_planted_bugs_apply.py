"""The bugs that are planted on purpose still stand in the source: a moved line must not end the search for them."""

from pathlib import Path

import pytest

from tools.mutants.client_shell import SHELL_BUGS
from tools.mutants.deliberate import BUGS

SOURCE = Path(__file__).parents[2] / "src" / "seamark"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.why)
def test_a_planted_bug_has_one_place(bug):
    wanted = f"{bug.after}\n{bug.old}\n" if bug.after else f"{bug.old}\n"
    assert (SOURCE / bug.file).read_text().count(wanted) == 1


@pytest.mark.parametrize("bug", SHELL_BUGS, ids=lambda bug: bug.why)
def test_a_bug_planted_in_the_shell_of_the_client_has_its_places_in_one_file(bug):
    assert len({edit.file for edit in bug.edits}) == 1
    for edit in bug.edits:
        assert (SOURCE / edit.file).read_text().count(f"{edit.old}\n") == 1
