"""How a command is told which cluster to talk to: the same options everywhere, and the client configuration they make.

``-o`` wins over ``--config``, ``--bootstrap`` over both. A file has Kafka's own properties form, so the one that the
JVM tools use can be given. Errors name the option, the file and the line, never a value: it may be a password.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from seamark.errors import UsageError

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        envvar="SEAMARK_BOOTSTRAP",
        metavar="HOST:PORT",
        help="Bootstrap servers of the cluster, separated by commas.",
    ),
]
ConfigFile = Annotated[str, typer.Option("--config", metavar="FILE", help="A Kafka client properties file.")]
Options = Annotated[
    list[str], typer.Option("-o", "--option", metavar="KEY=VALUE", help="A client property; may be repeated.")
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="Write CSV.")]


def client_config(bootstrap: str, config_file: str, options: Iterable[str]) -> dict[str, str]:
    """The client's configuration; UsageError where there is no address or something cannot be read."""
    config = read_properties(Path(config_file)) if config_file else {}
    for text in options:
        key, mark, value = text.partition("=")
        if not mark or not key.strip():
            raise UsageError("-o must be KEY=VALUE")
        config[key.strip()] = value
    if bootstrap:
        config["bootstrap.servers"] = bootstrap
    if not config.get("bootstrap.servers"):
        raise UsageError("no cluster given: use --bootstrap HOST:PORT or set SEAMARK_BOOTSTRAP")
    # A person waits; who needs longer says so.
    config.setdefault("default.api.timeout.ms", "15000")
    return config


def read_properties(path: Path, option: str = "--config") -> dict[str, str]:
    """Keys and values of a properties file: ``=`` or ``:`` between them, ``#`` and ``!`` begin comments."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UsageError(f"{option} {path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option} {path}: cannot be read ({error.__class__.__name__})") from None
    properties: dict[str, str] = {}
    pending = ""
    lines = text.splitlines()
    for number, raw in enumerate(lines, 1):
        line = pending + raw.lstrip()
        pending = ""
        if not line or line[0] in "#!":
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            line = line[:-1]
            if number < len(lines):
                pending = line
                continue
        ends = [at for at in (line.find("="), line.find(":")) if at > 0]
        if not ends:
            raise UsageError(f"{option} {path}, line {number}: must be KEY=VALUE")
        key, value = line[: min(ends)].strip(), line[min(ends) + 1 :].strip()
        properties[key] = value.replace("\\\\", "\\")
    return properties
