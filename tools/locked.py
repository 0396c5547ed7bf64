"""The locked packages: what requirements/dev.lock pins, and which of it a user of seamark gets.

A package is ``required`` when ``pip install seamark`` brings it, ``optional`` when an extra does, and ``excluded`` when
only the development of seamark needs it: the words are CycloneDX's. Who needs whom stands in the lock's own comments.

    python -m tools.locked required     prints the part of the lock for a bare installation, with its hashes
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements" / "dev.lock"
SCOPES = ("required", "optional", "excluded")

_PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[^\s;\\]+)(?: ; (?P<marker>[^\\]*[^\\\s]))?")


class LockedPackage(NamedTuple):
    """One pin; a name can have several, for different versions of Python. ``text`` is its part of the lock.

    ``is_declared`` says that seamark itself names it, as a dependency or in an extra.
    """

    name: str
    version: str
    marker: str
    needed_by: tuple[str, ...]
    is_declared: bool
    text: str


def locked_packages(lock: str) -> list[LockedPackage]:
    """The pins of a lock that uv wrote, in its order."""
    packages = []
    for part in re.split(r"^(?=[a-z0-9])", lock, flags=re.MULTILINE)[1:]:
        pin = _PIN.match(part)
        if pin is None or "--hash=sha256:" not in part:
            raise ValueError(f"requirements/dev.lock has a pin without version or hash: {part.splitlines()[0]}")
        comments = re.findall(r"^ +# +(?:via )?([a-z0-9-]+)(?: .*)?$", part, flags=re.MULTILINE)
        needed_by = tuple(name for name in comments if name not in ("via", "seamark"))
        is_declared = "seamark (pyproject.toml)" in part
        packages.append(LockedPackage(pin["name"], pin["version"], pin["marker"] or "", needed_by, is_declared, part))
    return packages


def scopes(packages: Iterable[LockedPackage], pyproject: str) -> dict[str, str]:
    """The scope of every name: ``required``, ``optional`` or ``excluded``."""
    packages = list(packages)
    project = tomllib.loads(pyproject)["project"]
    extras = [line for extra in project["optional-dependencies"].values() for line in extra]
    found = {package.name: "excluded" for package in packages}
    for scope, declared in (("optional", extras), ("required", project["dependencies"])):
        for name in _with_what_they_need({_name(line) for line in declared} - {"seamark"}, packages):
            found[name] = scope
    return found


def _with_what_they_need(names: set[str], packages: list[LockedPackage]) -> set[str]:
    reached: set[str] = set()
    while names:
        reached |= names
        names = {package.name for package in packages if not reached.isdisjoint(package.needed_by)} - reached
    return reached


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower().replace("_", "-").replace(".", "-")


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in SCOPES:
        sys.exit(f"usage: python -m tools.locked {'|'.join(SCOPES)}")
    packages = locked_packages(LOCK.read_text())
    scope_of = scopes(packages, (ROOT / "pyproject.toml").read_text())
    print("".join(package.text for package in packages if scope_of[package.name] == sys.argv[1]), end="")


if __name__ == "__main__":
    main()
