"""What a user of seamark gets with it: pinned by hash, in the bill of materials, under licences that ask nothing."""

import json
from email.message import Message
from importlib.metadata import PackageNotFoundError, version

import pytest

from tools import sbom
from tools.licences import declared_licence, is_allowed, licence_of, refusal
from tools.locked import LOCK, ROOT, locked_packages, scopes

PYPROJECT = (ROOT / "pyproject.toml").read_text()
LOCKED = locked_packages(LOCK.read_text())
SCOPES = scopes(LOCKED, PYPROJECT)
WRITTEN = json.loads(sbom.BILL.read_text())
SMALL_LOCK = """\
one==1.0 \\
    --hash=sha256:aa
    # via seamark (pyproject.toml)
two==2.0 ; sys_platform == 'win32' \\
    --hash=sha256:bb \\
    --hash=sha256:cc
    # via
    #   seamark (pyproject.toml:dev)
    #   one
three==3.0 \\
    --hash=sha256:dd
    # via seamark (pyproject.toml)
four==4.0 \\
    --hash=sha256:ee
    # via seamark (pyproject.toml:dev)
"""
SMALL_PROJECT = """
[project]
dependencies = ["One>=1"]
optional-dependencies = { extra = ["seamark[other]", "three[sasl]>=3"] }
"""


def is_installed(package):
    try:
        return version(package.name) == package.version
    except PackageNotFoundError:
        return False


@pytest.mark.parametrize("name", [name for name, scope in SCOPES.items() if scope != "excluded"])
def test_what_seamark_brings_is_under_a_permissive_licence(name):
    assert refusal(name, licence_of(name)) is None


def test_the_bill_of_materials_is_that_of_the_lock():
    licences = {each["purl"]: each["licenses"][0]["expression"] for each in WRITTEN["components"]}
    # Packages of other systems and Python versions are not here to be asked.
    licences |= {sbom.purl(package): licence_of(package.name) for package in LOCKED if is_installed(package)}
    made = sbom.bill_of_materials(LOCK.read_text(), PYPROJECT, licences)
    assert sbom.BILL.read_text() == sbom.to_text(made), "run python -m tools.sbom"


def test_whatever_the_package_declares_is_locked():
    locked = {package.name for package in LOCKED}
    assert {name for name, scope in SCOPES.items() if scope != "excluded"} - locked == set()
    assert {"cramjam", "fastcrc", "rich", "typer", "uvloop"} <= {
        name for name, scope in SCOPES.items() if scope == "required"
    }
    assert {"fastavro", "kazoo", "pure-sasl", "pyarrow", "pyspark", "starlette", "confluent-kafka"} <= {
        name for name, scope in SCOPES.items() if scope == "optional"
    }


def test_a_lock_is_read_with_markers_and_who_needs_whom():
    packages = locked_packages(SMALL_LOCK)
    assert [(each.name, each.version, each.marker, each.needed_by, each.is_declared) for each in packages] == [
        ("one", "1.0", "", (), True),
        ("two", "2.0", "sys_platform == 'win32'", ("one",), False),
        ("three", "3.0", "", (), True),
        ("four", "4.0", "", (), False),
    ]
    assert "".join(each.text for each in packages) == SMALL_LOCK
    assert scopes(packages, SMALL_PROJECT) == {
        "one": "required", "two": "required", "three": "optional", "four": "excluded",
    }  # fmt: skip


@pytest.mark.parametrize("pin", ["one==1.0\n    # via x\n", "one>=1.0 \\\n    --hash=sha256:aa\n"])
def test_a_lock_without_version_or_hash_is_refused(pin):
    with pytest.raises(ValueError, match="a pin without version or hash: one"):
        locked_packages(pin)


def test_a_bill_names_components_scopes_licences_and_dependencies():
    licences = {"pkg:pypi/one@1.0": "MIT", "pkg:pypi/two@2.0": "ISC", "pkg:pypi/three@3.0": "Apache-2.0 OR MIT"}
    bill = sbom.bill_of_materials(SMALL_LOCK, SMALL_PROJECT, licences)
    assert (bill["bomFormat"], bill["specVersion"], bill["metadata"]["component"]["name"]) == (
        "CycloneDX", "1.6", "seamark",
    )  # fmt: skip
    assert [(each["name"], each["scope"], each["licenses"][0]["expression"]) for each in bill["components"]] == [
        ("one", "required", "MIT"),
        ("two", "required", "ISC"),
        ("three", "optional", "Apache-2.0 OR MIT"),
    ]
    assert bill["dependencies"] == [
        {"ref": "pkg:pypi/seamark", "dependsOn": ["pkg:pypi/one@1.0", "pkg:pypi/three@3.0"]},
        {"ref": "pkg:pypi/one@1.0", "dependsOn": ["pkg:pypi/two@2.0"]},
        {"ref": "pkg:pypi/two@2.0", "dependsOn": []},
        {"ref": "pkg:pypi/three@3.0", "dependsOn": []},
    ]


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ([("License-Expression", "BSD-3-Clause AND MIT"), ("License", "something")], "BSD-3-Clause AND MIT"),
        ([("License", "Apache 2.0")], "Apache-2.0"),
        ([("Classifier", "License :: OSI Approved :: MIT License"), ("License", "UNKNOWN")], "MIT"),
        ([("License", "see the file"), ("Classifier", "Programming Language :: Python")], None),
        ([("License", "MIT"), ("Classifier", "License :: OSI Approved :: Apache Software License")], None),
        ([], None),
    ],
)
def test_a_licence_is_what_the_metadata_says_without_doubt(fields, licence):
    about = Message()
    for name, value in fields:
        about[name] = value
    assert declared_licence(about) == licence


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("BSD-3-Clause AND Zlib", True),
        ("GPL-2.0-only OR MIT", True),
        ("MIT AND GPL-3.0-or-later", False),
        ("LGPL-2.1-or-later", False),
        ("(MIT)", False),
        ("MPL-2.0", False),
    ],
)
def test_every_term_of_one_alternative_has_to_be_allowed(expression, allowed):
    assert is_allowed(expression) is allowed


def test_a_copyleft_or_unknown_licence_is_refused_with_a_sentence():
    assert refusal("crc32c", "LGPL-2.1-or-later") == (
        "crc32c is under LGPL-2.1-or-later, which seamark's users would inherit: use another package"
    )
    assert "mystery does not declare a licence that tools/licences.py knows" in refusal("mystery", None)
