"""The shell that lifetimes run is the one that ships: a bug planted in it does not live through a few of them."""

from importlib import import_module
from inspect import getsource
from types import FunctionType

import pytest

from seamark.simulation import LifetimeFailed, run_lifetime
from tools.mutants.deliberate import BUGS

SEEDS = 60
# Where a bug shows soon; the others do in any lifetime.
SCENARIOS = {
    "the appends of a batch that failed are reported as stored": "bad-disk",
    "the appends of a full batch are reported once more with the next": "busy-broker",
    "a load under way goes on after the partition was given up": "moves",
    "the outcome of a write is reported to the coordinator of the next life": "moves",
    "what was collected is written after leadership was lost and won again": "moves",
    "a load that waits goes on after the partition was given up": "moves",
    "deadlines are not moved with a clock that was set ahead": "clocks",
    "a log that was opened again is written to and not loaded": "bad-disk",
    "only the first append of a batch that failed is reported": "bad-disk",
    "groups show what the former leader has written and not synced": "moves",
    "the clock goes back with that of the machine": "clocks",
}


def plant(bug, monkeypatch):
    """Put the methods of the module with the bug in the place of those without."""
    module = import_module(f"seamark.{bug.file.removesuffix('.py').replace('/', '.')}")
    old = f"{bug.after}\n{bug.old}\n" if bug.after else f"{bug.old}\n"
    broken = dict(vars(module))
    exec(compile(getsource(module).replace(old, old.replace(bug.old, bug.new)), module.__file__, "exec"), broken)
    for name, sound in list(vars(module).items()):
        if isinstance(sound, type) and sound.__module__ == module.__name__:
            for attribute, method in vars(broken[name]).items():
                if isinstance(method, FunctionType | property):
                    monkeypatch.setattr(sound, attribute, method)


@pytest.mark.parametrize(
    "bug", [bug for bug in BUGS if bug.file.startswith("broker/")], ids=lambda bug: bug.why.replace(" ", "-")
)
def test_a_bug_in_the_shell_of_groups_is_caught(bug, monkeypatch):
    def run_some():
        for seed in range(SEEDS):
            run_lifetime(seed, SCENARIOS.get(bug.why, "random"))

    plant(bug, monkeypatch)
    with pytest.raises(LifetimeFailed):
        run_some()
