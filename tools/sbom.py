"""The software bill of materials: requirements/sbom.cdx.json, in CycloneDX's JSON.

It lists what ``pip install seamark`` brings (scope ``required``) and what the extras add (``optional``), at the
versions of the lock, with licences and who needs whom. It has no date and no random serial number, so that the same
lock gives the same file. The wheel carries it in its ``.dist-info/sboms``. Hashes stand in the lock, one for every file
of a package.

    python -m tools.sbom        writes the file; a licence that is unknown or not allowed is an error
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.licences import licence_of, refusal
from tools.locked import LOCK, ROOT, LockedPackage, locked_packages, scopes

BILL = ROOT / "requirements" / "sbom.cdx.json"
SEAMARK = "pkg:pypi/seamark"


def bill_of_materials(lock: str, pyproject: str, licences: Mapping[str, str]) -> dict[str, Any]:
    """The document for a lock; ``licences`` has an SPDX expression for every package in it, by package URL."""
    packages = locked_packages(lock)
    scope_of = scopes(packages, pyproject)
    shipped = [package for package in packages if scope_of[package.name] != "excluded"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": SEAMARK,
                "name": "seamark",
                "purl": SEAMARK,
                "licenses": [{"expression": "Apache-2.0"}],
            }
        },
        "components": [_component(package, scope_of[package.name], licences[purl(package)]) for package in shipped],
        "dependencies": [
            {"ref": SEAMARK, "dependsOn": [purl(package) for package in shipped if package.is_declared]},
            *(
                {"ref": purl(parent), "dependsOn": [purl(child) for child in shipped if parent.name in child.needed_by]}
                for parent in shipped
            ),
        ],
    }


def purl(package: LockedPackage) -> str:
    return f"pkg:pypi/{package.name}@{package.version}"


def _component(package: LockedPackage, scope: str, licence: str) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl(package),
        "name": package.name,
        "version": package.version,
        "scope": scope,
        "licenses": [{"expression": licence}],
        "purl": purl(package),
    }
    if package.marker:
        component["properties"] = [{"name": "seamark:marker", "value": package.marker}]
    return component


def to_text(bill: dict[str, Any]) -> str:
    return json.dumps(bill, indent=1) + "\n"


def main(path: Path = BILL) -> None:
    lock, pyproject = LOCK.read_text(), (ROOT / "pyproject.toml").read_text()
    packages = locked_packages(lock)
    scope_of = scopes(packages, pyproject)
    licences: dict[str, str] = {}
    refusals = []
    for package in packages:
        licence = licence_of(package.name)
        if licence is not None:
            licences[purl(package)] = licence
        if scope_of[package.name] != "excluded" and (refused := refusal(package.name, licence)):
            refusals.append(f"seamark: {refused}.")
    if refusals:
        sys.exit("\n".join(refusals))
    path.write_text(to_text(bill_of_materials(lock, pyproject, licences)))


if __name__ == "__main__":
    main()
