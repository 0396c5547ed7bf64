"""``seamark topics list | describe | create | delete | config``: what one needs of topics beside a shell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from seamark.cli.options.connection import Bootstrap, ConfigFile, Json, Options, client_config
from seamark.cli.options.names import known_topics, topic_names
from seamark.cli.show.rows import Column, chosen_form, write_rows
from seamark.cli.show.terminal_text import say
from seamark.counts import counted
from seamark.errors import UsageError

_Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names of topics.", autocompletion=topic_names)]
_NewNames = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names of topics.")]
_Internal = Annotated[bool, typer.Option("--internal", help="Include internal topics such as __consumer_offsets.")]
_Partitions = Annotated[
    int, typer.Option("--partitions", metavar="N", help="Number of partitions; -1 for the broker's default.")
]
_Replicas = Annotated[
    int, typer.Option("--replicas", metavar="N", help="Replication factor; -1 for the broker's default.")
]
_Set = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="A topic setting; may be repeated.")]
_Unset = Annotated[
    list[str], typer.Option("--unset", metavar="KEY", help="A setting to reset to its default; may be repeated.")
]
_Apply = Annotated[bool, typer.Option("--apply", help="Delete them; without it nothing is changed.")]

_LIST = (
    Column("TOPIC", "topic", may_shrink=True),
    Column("PARTITIONS", "partitions", is_number=True),
    Column("REPLICAS", "replicas", is_number=True),
    Column("OFFLINE", "offline", is_number=True),
)
_DESCRIBE = (
    Column("TOPIC", "topic", may_shrink=True),
    Column("PARTITION", "partition", is_number=True),
    Column("LEADER", "leader", is_number=True),
    Column("REPLICAS", "replicas"),
    Column("IN-SYNC", "in_sync"),
    Column("LOG-START", "log_start", is_number=True),
    Column("LOG-END", "log_end", is_number=True),
    Column("REMARK", "remark", is_sentence=True),
)
_CONFIG = (
    Column("TOPIC", "topic", may_shrink=True),
    Column("SETTING", "setting"),
    Column("VALUE", "value", may_shrink=True),
    Column("FROM", "source"),
)


def add_to(app: typer.Typer) -> None:
    topics = typer.Typer(name="topics", help="Inspect, create, change and delete topics.", no_args_is_help=True)
    for name, command in (
        ("list", list_topics), ("describe", describe), ("create", create), ("delete", delete), ("config", config_),
    ):  # fmt: skip
        topics.command(name)(command)
    app.add_typer(topics)


def list_topics(
    internal: _Internal = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006 - typer wants the default itself
    as_json: Json = False,
) -> None:
    """List topics."""
    from seamark.client import Admin

    with Admin(client_config(bootstrap, config, option)) as admin:
        topics = admin.list_topics(include_internal=internal)
    rows = (
        (
            name, len(topic.partitions),
            max((len(partition.replicas) for partition in topic.partitions.values()), default=0),
            sum(partition.leader < 0 for partition in topic.partitions.values()),
        )
        for name, topic in sorted(topics.items())
    )  # fmt: skip
    write_rows(_LIST, rows, chosen_form(as_json))


def describe(
    names: _Names,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Show partitions: leaders, replicas, start and end of the log."""
    from seamark.client import Admin, TopicPartition
    from seamark.monitor.scan import bounds_of

    with Admin(client_config(bootstrap, config, option)) as admin:
        topics = known_topics(admin, names)
        partitions = [TopicPartition(name, index) for name, topic in topics.items() for index in topic.partitions]
        bounds = bounds_of(admin, partitions)
    rows = []
    for partition in sorted(partitions):
        view, log = topics[partition.topic].partitions[partition.partition], bounds[partition]
        copies = (" ".join(map(str, view.replicas)), " ".join(map(str, view.in_sync)))
        leader = view.leader if view.leader >= 0 else None
        rows.append((*partition, leader, *copies, log.log_start, log.log_end, log.error or ""))
    write_rows(_DESCRIBE, rows, chosen_form(as_json))


def create(
    names: _NewNames,
    partitions: _Partitions = -1,
    replicas: _Replicas = -1,
    setting: _Set = [],  # noqa: B006
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
) -> None:
    """Create topics.

    \b
    Example:
      seamark topics create orders --partitions 6 --set retention.ms=86400000
    """
    from seamark.client import Admin
    from seamark.client.admin.types import NewTopic

    wanted = _settings(setting)
    with Admin(client_config(bootstrap, config, option)) as admin:
        made = admin.create_topics([NewTopic(name, partitions, replicas, wanted) for name in names])
    _report(made, made.errors, "created")


def delete(
    names: _Names,
    apply: _Apply = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
) -> None:
    """Delete topics with their records."""
    from seamark.client import Admin, TopicPartition
    from seamark.monitor.scan import bounds_of

    with Admin(client_config(bootstrap, config, option)) as admin:
        topics = known_topics(admin, names)
        if apply:
            deleted = admin.delete_topics(names)
            _report(deleted, deleted.errors, "deleted")
            return
        for name, topic in topics.items():
            logs = bounds_of(admin, [TopicPartition(name, index) for index in topic.partitions]).values()
            count = sum((log.log_end or 0) - (log.log_start or 0) for log in logs)
            held = f"{counted(count, 'offset')} in {counted(len(topic.partitions), 'partition')}"
            typer.echo(f"topic {name!r} would be deleted, with {held}")
        say("dry run, nothing was changed: --apply makes the changes")


def config_(
    names: _Names,
    setting: _Set = [],  # noqa: B006
    unset: _Unset = [],  # noqa: B006
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Show or change settings of topics.

    Only settings that differ from the defaults are shown.
    """
    from seamark.client import Admin
    from seamark.client.admin.types import Resource

    changes: dict[str, str | None] = {**_settings(setting), **dict.fromkeys(unset)}
    with Admin(client_config(bootstrap, config, option)) as admin:
        known_topics(admin, names)
        resources = [Resource("topic", name) for name in names]
        if changes:
            admin.alter_configs(dict.fromkeys(resources, changes)).raise_if_failed()
        described = admin.describe_configs(resources).raise_if_failed()
    rows = (
        (resource.name, entry.name, entry.value, entry.source)
        for resource, entries in described.items()
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if not entry.is_default
    )
    write_rows(_CONFIG, rows, chosen_form(as_json))


def _settings(texts: Iterable[str]) -> dict[str, str]:
    settings = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if not mark or not key:
            raise UsageError(f"--set {text}: must be KEY=VALUE")
        settings[key] = value
    return settings


def _report(made: Iterable[str], errors: Mapping[str, Any], what: str) -> None:
    for name in made:
        typer.echo(f"topic {name!r} {what}")
    for _, error in sorted(errors.items()):
        say(f"seamark: {error}")
    if errors:
        raise typer.Exit(1)
