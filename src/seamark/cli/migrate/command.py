"""``seamark migrate``: offsets out of ZooKeeper and back, from group to group, from cluster to cluster.

Each kind of move is a command that makes a plan and shows it; ``--apply`` makes the move. ``apply``, ``verify`` and
``rollback`` take the plan's file, and so does ``show``. Nothing is changed without ``--apply`` or ``apply``, and the
source never is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seamark.cli.migrate import plans as migrate_plan_commands
from seamark.cli.migrate.plans import Active, Partial, Resume, apply_move
from seamark.cli.migrate.rows import ProgressLine, plan_sentence, show_plan
from seamark.cli.migrate.sides import (
    Connections,
    ToBootstrap,
    ToConfigFile,
    ToOptions,
    Zookeeper,
    ZookeeperConfig,
    aiming_of,
    opened,
)
from seamark.cli.options.connection import Bootstrap, ConfigFile, Json, Options
from seamark.cli.options.plan_workflow import AllowOutsideLog, Apply, PlanFile, now_ms
from seamark.cli.show.durations import seconds_of
from seamark.cli.show.rows import Form, chosen_form
from seamark.cli.show.terminal_text import say
from seamark.counts import counted
from seamark.errors import UsageError

if TYPE_CHECKING:
    from seamark.moves import MoveFile, Side

_Groups = Annotated[list[str], typer.Option("--group", metavar="GROUP", help="This group; may be repeated.")]
_All = Annotated[bool, typer.Option("--all", help="All groups that have offsets on the source.")]
_Pattern = Annotated[
    str, typer.Option("--pattern", metavar="REGEX", help="Groups whose full name matches this regular expression.")
]
_ToGroup = Annotated[
    str, typer.Option("--to-group", metavar="NAME", help="Group name on the target; {group} stands for the old name.")
]
_Topics = Annotated[list[str], typer.Option("--topic", metavar="TOPIC", help="Only this topic; may be repeated.")]
_Overlap = Annotated[
    str, typer.Option("--overlap", metavar="DURATION", help="Safety margin when offsets are matched by time.")
]
_KeepLarger = Annotated[
    bool, typer.Option("--keep-larger", help="Keep offsets of the target that are ahead of the source.")
]
_OVERLAP = "1m"
_NO_OVERLAP = ""
# What was read of the source so recently is not read again before it is used; it is read back afterwards in any case.
_FRESH_S = 60.0

migrate = typer.Typer(
    name="migrate", help="Move committed offsets between stores, groups and clusters.", no_args_is_help=True
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(migrate)


@migrate.command("zookeeper-to-kafka")
def zookeeper_to_kafka(
    group: _Groups = [],  # noqa: B006 - typer wants the default itself
    everything: _All = False,
    pattern: _Pattern = "",
    to_group: _ToGroup = "{group}",
    topic: _Topics = [],  # noqa: B006
    plan: PlanFile = "",
    apply: Apply = False,
    resume: Resume = False,
    partial: Partial = False,
    keep_larger: _KeepLarger = False,
    active: Active = False,
    outside: AllowOutsideLog = False,
    zookeeper: Zookeeper = "",
    zookeeper_config: ZookeeperConfig = "",
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Move committed offsets from ZooKeeper to Kafka.

    The target is the cluster that the consumers read from.
    """
    given = Connections(bootstrap, config, option, zookeeper, zookeeper_config=zookeeper_config)
    move = _Asked("zookeeper-to-kafka", group, everything, pattern, to_group, topic, keep_larger, active, outside)
    _carry_out(move, given, plan, apply, resume, partial, chosen_form(as_json))


@migrate.command("kafka-to-zookeeper")
def kafka_to_zookeeper(
    group: _Groups = [],  # noqa: B006
    everything: _All = False,
    pattern: _Pattern = "",
    to_group: _ToGroup = "{group}",
    topic: _Topics = [],  # noqa: B006
    plan: PlanFile = "",
    apply: Apply = False,
    resume: Resume = False,
    partial: Partial = False,
    keep_larger: _KeepLarger = False,
    active: Active = False,
    outside: AllowOutsideLog = False,
    zookeeper: Zookeeper = "",
    zookeeper_config: ZookeeperConfig = "",
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Move committed offsets from Kafka to ZooKeeper.

    Metadata and leader epochs are dropped: ZooKeeper cannot store them.
    """
    given = Connections(bootstrap, config, option, zookeeper, zookeeper_config=zookeeper_config)
    move = _Asked("kafka-to-zookeeper", group, everything, pattern, to_group, topic, keep_larger, active, outside)
    _carry_out(move, given, plan, apply, resume, partial, chosen_form(as_json))


@migrate.command("group-to-group")
def group_to_group(
    group: _Groups = [],  # noqa: B006
    everything: _All = False,
    pattern: _Pattern = "",
    to_group: _ToGroup = "{group}",
    topic: _Topics = [],  # noqa: B006
    plan: PlanFile = "",
    apply: Apply = False,
    resume: Resume = False,
    partial: Partial = False,
    keep_larger: _KeepLarger = False,
    active: Active = False,
    outside: AllowOutsideLog = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Copy offsets to groups with other names.

    Source and target are in the same cluster.
    """
    given = Connections(bootstrap, config, option)
    move = _Asked("group-to-group", group, everything, pattern, to_group, topic, keep_larger, active, outside)
    _carry_out(move, given, plan, apply, resume, partial, chosen_form(as_json))


@migrate.command("cluster-to-cluster")
def cluster_to_cluster(
    group: _Groups = [],  # noqa: B006
    everything: _All = False,
    pattern: _Pattern = "",
    to_group: _ToGroup = "{group}",
    topic: _Topics = [],  # noqa: B006
    overlap: _Overlap = _OVERLAP,
    plan: PlanFile = "",
    apply: Apply = False,
    resume: Resume = False,
    partial: Partial = False,
    keep_larger: _KeepLarger = False,
    active: Active = False,
    outside: AllowOutsideLog = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    to_bootstrap: ToBootstrap = "",
    to_config: ToConfigFile = "",
    to_option: ToOptions = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Move offsets to another cluster.

    Offsets are kept if the logs are equal, and otherwise matched by record time.
    """
    given = Connections(bootstrap, config, option, "", to_bootstrap, to_config, to_option)
    move = _Asked(
        "cluster-to-cluster", group, everything, pattern, to_group, topic, keep_larger, active, outside, overlap
    )
    _carry_out(move, given, plan, apply, resume, partial, chosen_form(as_json))


migrate_plan_commands.add_to(migrate)


class _Asked:
    """What the options of one kind of move said, checked as far as that is possible without asking anybody."""

    def __init__(
        self,
        kind: str,
        groups: list[str],
        everything: bool,
        pattern: str,
        to_group: str,
        topics: list[str],
        keep_larger: bool,
        active: bool,
        outside: bool,
        overlap: str = _NO_OVERLAP,
    ) -> None:
        from seamark.moves import Choices, Kind, check_names

        if sum((bool(groups), everything, bool(pattern))) != 1:
            raise UsageError("exactly one of --group NAME, --pattern REGEX and --all is required")
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise UsageError(f"--pattern {pattern!r} is not a regular expression: {error}") from None
        self.kind = Kind(kind)
        self.groups = list(dict.fromkeys(groups))
        self.overlap_ms = round(seconds_of(overlap) * 1000) if overlap else 0
        self.allow_outside_log = outside
        self.choices = Choices(to_group, frozenset(topics), keep_larger, active, names_are_given=bool(groups))
        check_names(self.choices, len(self.groups) or None, same_store=self.kind is Kind.GROUP_TO_GROUP)
        self.why = f"--pattern {pattern}" if pattern else "--all" if everything else counted(len(self.groups), "group")
        self._has_pattern = bool(pattern)

    def names(self, source: Side) -> Iterable[str]:
        if self.groups:
            return self.groups
        stored = source.store.groups()
        return (name for name in stored if not self._has_pattern or self._pattern.fullmatch(name))


def _carry_out(
    asked: _Asked, given: Connections, plan_file: str, is_to_apply: bool, resume: bool, partial: bool, form: Form
) -> None:
    """Make the plan and show it, or apply it; a plan that exists already is applied as it is."""
    import tempfile

    from seamark.moves import open_move
    from seamark.plans import BadPlan

    path = Path(plan_file or time.strftime("seamark-move-%Y%m%dT%H%M%S.jsonl", time.gmtime()))
    active = asked.choices.allow_active_source
    if resume and not (plan_file and is_to_apply):
        raise UsageError("--resume needs --plan FILE --apply, with the plan of the interrupted move")
    if is_to_apply and plan_file and path.exists():
        move = open_move(path)
        if move.header.kind is not asked.kind:
            raise BadPlan(path, f"this plan is for {move.header.kind}, not {asked.kind}: choose another file name")
        with opened(asked.kind, given, move.header) as (source, target):
            apply_move(move, source, target, resume, partial, active, asked.allow_outside_log, form)
        return
    with opened(asked.kind, given) as (source, target), tempfile.TemporaryDirectory() as directory:
        is_kept = bool(plan_file) or is_to_apply
        began = time.monotonic()
        made = _make(asked, source, target, path if is_kept else Path(directory) / path.name)
        if is_to_apply:
            is_fresh = time.monotonic() - began < _FRESH_S
            outside = asked.allow_outside_log
            apply_move(made, source, target, False, partial, active, outside, form, is_fresh=is_fresh)
            return
        show_plan(made, form)
    written = f"the plan is in {path}" if plan_file else "--plan FILE saves the plan"
    say(plan_sentence(made, partial=partial))
    if made.totals.groups and made.totals.groups_with_problems == made.totals.groups and not partial:
        say("dry run, nothing was changed: no group would be moved")
        raise typer.Exit(1)
    say(f"dry run, nothing was changed: {written}, --apply makes the move")


def _make(asked: _Asked, source: Side, target: Side, path: Path) -> MoveFile:
    from seamark.moves import MoveHeader, plan_groups, write_move

    aiming = aiming_of(
        asked.kind, source, target, overlap_ms=asked.overlap_ms, allow_outside_log=asked.allow_outside_log
    )
    header = MoveHeader(asked.kind, source.place, target.place, now_ms(), asked.why, asked.overlap_ms)
    names: Iterable[str] = asked.names(source)
    choices = asked.choices
    if source is target:
        names = list(names)
        choices = replace(choices, sources=frozenset(names))
    planned = plan_groups(source, target, names, aiming, choices)
    line = ProgressLine("planning", len(asked.groups) or None)
    try:
        return write_move(path, header, planned, aiming.topic_ids, progress=line)
    finally:
        line.end()
