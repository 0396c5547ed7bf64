"""Sets of jars from Maven, resolved once per machine into the test cache.

``maven_jars`` takes the coordinates that a test wants and returns the files; ``kafka_jars`` knows the sets that make a
running Apache Kafka. Maven's own settings decide where jars come from: nothing here names a repository. An entry of the
cache lists its files with their sizes, so a damaged entry is noticed and fetched again.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tests.support.external_tools import Unavailable, cached_directory, maven

# What tests and benchmarks run beside: the newest release, and one with the coordinator before it was rewritten.
NEWEST_KAFKA = "4.3.1"
OLDER_KAFKA = "3.9.1"

# Pinned, or two machines could copy different files for the same coordinates.
_DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"

# pytest ends a test after 300 s: Maven has to give up before that, so that its own sentence is seen.
_RESOLVE_SECONDS = 270

# Kafka logs through slf4j 1.7: 4.x brings log4j2's API without a core, 3.x expects log4j 1 (reload4j).
_KAFKA_LOGGING = {
    "3": ["org.slf4j:slf4j-reload4j:1.7.36"],
    "4": ["org.apache.logging.log4j:log4j-core:2.24.3", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"],
}

# A set that could not be had once is not tried again for every test of the run.
_refusals: dict[tuple[Path, str], str] = {}


def maven_jars(name: str, coordinates: Sequence[str], *, transitive: bool = True) -> list[Path]:
    """The jars of ``group:artifact:version`` coordinates, with what they depend on unless ``transitive`` is false.

    ``name`` only makes the cache readable; the coordinates decide which entry is used.
    """
    pom = _pom(coordinates, transitive=transitive)
    entry = f"{name}-{hashlib.sha256(pom.encode()).hexdigest()[:12]}"

    def build(directory: Path) -> None:
        (directory / "pom.xml").write_text(pom)
        _copy_dependencies(name, entry, directory)

    directory = cached_directory("jars", entry, is_whole=_is_whole, build=build)
    return sorted(directory.glob("*.jar"))


def kafka_jars(version: str = NEWEST_KAFKA) -> list[Path]:
    """Broker, clients and command line tools of one Apache Kafka release."""
    logging = _KAFKA_LOGGING.get(version.partition(".")[0])
    if logging is None:
        raise ValueError(f"Apache Kafka {version!r}: the tests know 3.x and 4.x releases")
    kafka = [f"org.apache.kafka:kafka_2.13:{version}", f"org.apache.kafka:kafka-tools:{version}"]
    return maven_jars(f"kafka-{version}", kafka + logging)


def class_path(jars: Sequence[Path]) -> str:
    """The jars as Java's class path: a readable wildcard where they are all that their directory has."""
    directories = {jar.parent for jar in jars}
    if len(directories) == 1:
        directory = directories.pop()
        if set(directory.glob("*.jar")) == set(jars):
            return str(directory / "*")
    return os.pathsep.join(map(str, jars))


def _copy_dependencies(name: str, entry: str, directory: Path) -> None:
    program = maven()
    if (program, entry) in _refusals:
        raise Unavailable(_refusals[program, entry])
    command: list[str | Path] = [
        program, "--batch-mode", "--quiet", "--file", directory / "pom.xml",
        f"{_DEPENDENCY_PLUGIN}:copy-dependencies", f"-DoutputDirectory={directory}",
    ]  # fmt: skip
    refusal = None
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_RESOLVE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        refusal = f"Maven did not deliver the jars of {name} within {_RESOLVE_SECONDS} s"
    else:
        if run.returncode != 0:
            refusal = f"Maven could not resolve the jars of {name}: {_first_complaint(run.stdout + run.stderr)}"
    jars = sorted(directory.glob("*.jar"))
    if refusal is None and not jars:
        refusal = f"Maven resolved {name} to no jar at all"
    if refusal is not None:
        _refusals[program, entry] = refusal
        raise Unavailable(refusal)
    (directory / "jars.txt").write_text("".join(f"{jar.stat().st_size} {jar.name}\n" for jar in jars))


def _first_complaint(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("[ERROR]").strip() for line in lines if line.startswith("[ERROR]")]
    return (errors or lines or ["it did not say why"])[0][:400]


def _is_whole(directory: Path) -> bool:
    try:
        listed = [line.split(" ", 1) for line in (directory / "jars.txt").read_text().splitlines()]
        return bool(listed) and all((directory / name).stat().st_size == int(size) for size, name in listed)
    except (OSError, ValueError):
        return False


def _pom(coordinates: Sequence[str], *, transitive: bool) -> str:
    # excludeTransitive would still read the transitive poms, which not every artifact's repository has: an exclusion of
    # everything does not even look for them.
    exclusions = (
        "" if transitive
        else "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    )  # fmt: skip
    dependencies = []
    for coordinate in coordinates:
        parts = coordinate.split(":")
        if len(parts) != 3 or not all(parts):
            raise ValueError(f"{coordinate!r} is not group:artifact:version")
        group, artifact, version = map(escape, parts)
        dependencies.append(
            f"    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version>{exclusions}</dependency>"
        )
    if not dependencies:
        raise ValueError("a set of jars needs at least one coordinate")
    return "\n".join(
        [
            '<project xmlns="http://maven.apache.org/POM/4.0.0">',
            "  <modelVersion>4.0.0</modelVersion>",
            "  <groupId>seamark.tests</groupId><artifactId>jars</artifactId><version>1</version>",
            "  <packaging>pom</packaging>",
            "  <dependencies>",
            *dependencies,
            "  </dependencies>",
            "</project>",
            "",
        ]
    )
