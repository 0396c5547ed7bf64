"""``seamark groups reset | undo | delete | export | import``: changes go through plans, shown before they are made."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seamark.cli.options.connection import Bootstrap, ConfigFile, Csv, Json, Options, client_config
from seamark.cli.options.names import Groups, absent_sentence, group_names, known_topics, topic_names
from seamark.cli.options.plan_workflow import (
    AllowOutsideLog,
    Apply,
    Clamp,
    PlanFile,
    apply_file,
    carry_out,
    check_words,
    make_plan,
    now_ms,
    show_file,
    take_back,
)
from seamark.cli.show.durations import count_of, seconds_of, time_ms_of
from seamark.cli.show.rows import chosen_form, write_file
from seamark.cli.show.terminal_text import say
from seamark.counts import counted
from seamark.errors import SeamarkError, UsageError
from seamark.readable_text import readable_lines

if TYPE_CHECKING:
    from seamark.client import Admin, Offset, TopicPartition
    from seamark.monitor.targets import Target
    from seamark.plans import ClusterState

_Topics = Annotated[
    list[str],
    typer.Option(
        "--topic",
        metavar="T[:0,1]",
        help="Only this topic, or these partitions of it; default: all with a committed offset.",
        autocompletion=topic_names,
    ),
]
_To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="WHERE",
        help="earliest, latest, offset:N, time:ISO, ago:1h, shift:-10, group:G, file:F or lake:ISO.",
    ),
]
_Lake = Annotated[str, typer.Option("--lake", metavar="DIR", help="The offsets lake for --to lake:ISO.")]
_Out = Annotated[str, typer.Option("--out", metavar="FILE", help="Write to this file instead of standard output.")]
_Into = Annotated[str, typer.Option("--group", metavar="GROUP", help="Set this group instead of the one in the file.")]
_All = Annotated[bool, typer.Option("--all", help="All groups of the cluster.")]


def add_to(groups: typer.Typer) -> None:
    groups.command("reset")(reset)
    groups.command("undo")(undo)
    groups.command("delete")(delete)
    groups.command("export")(export)
    groups.command("import")(import_)


def reset(
    names: Groups = None,
    to: _To = "",
    topic: _Topics = [],  # noqa: B006 - typer wants the default itself
    lake: _Lake = "",
    plan: PlanFile = "",
    apply: Apply = False,
    clamp: Clamp = False,
    outside: AllowOutsideLog = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Reset the offsets of groups, after a dry run.

    Nothing is changed without --apply. Without --to, the plan in --plan FILE is shown or applied.

    \b
    Examples:
      seamark groups reset billing --to ago:2h
      seamark groups reset billing --topic orders:0,3 --to shift:-100 --apply
      seamark groups reset billing --to earliest --plan back.json
    """
    from seamark.client import Admin
    from seamark.monitor.targets import parse_target
    from seamark.plans import read_state

    if not to:
        if names or topic or not plan:
            raise UsageError("--to is required, or --plan FILE of an existing plan")
        if clamp:
            raise UsageError("--clamp needs --to: an existing plan is applied as it is")
        carry_file = apply_file if apply else show_file
        with Admin(client_config(bootstrap, config, option)) as admin:
            carry_file(admin, Path(plan), form=chosen_form(as_json), allow_outside_log=outside)
        return
    if not names:
        raise UsageError("name the groups to reset")
    target = parse_target(to, now_ms=now_ms(), time_ms_of=time_ms_of, seconds_of=seconds_of)
    remembered: dict[str, dict[TopicPartition, Offset]] = {}
    if target.kind == "lake":
        from seamark.cli.audit.lake import offsets_in_lake, state_to_go_there

        if not lake:
            raise UsageError("--to lake:ISO needs --lake DIR")
        remembered = offsets_in_lake(lake, target.number, names)
    with Admin(client_config(bootstrap, config, option)) as admin:
        chosen = _chosen(admin, topic)
        if remembered and not chosen:
            state = state_to_go_there(admin, names, remembered)
        else:
            state = read_state(admin, dict.fromkeys(names, chosen))
        wanted = _aims(admin, target, names, chosen, state, remembered)
        made = make_plan(state, wanted, made_by="seamark groups reset", why=f"--to {to}", clamp=clamp, outside=outside)
        carry_out(
            admin,
            made,
            state,
            plan_file=plan,
            is_to_apply=apply,
            form=chosen_form(as_json),
            allow_outside_log=outside,
        )


def _chosen(admin: Admin, topics: Iterable[str]) -> list[TopicPartition]:
    """The partitions that --topic names; none if it was not given."""
    from seamark.client import TopicPartition

    chosen: list[TopicPartition] = []
    known = known_topics(admin, [text.partition(":")[0] for text in topics]) if topics else {}
    for text in topics:
        name, _, indexes = text.partition(":")
        count = len(known[name].partitions)
        for index in indexes.split(",") if indexes else map(str, range(count)):
            if (partition := count_of(index.strip())) is None or partition >= count:
                raise UsageError(f"--topic {text}: topic {name!r} has partitions 0 to {count - 1}, not {index!r}")
            chosen.append(TopicPartition(name, partition))
    return chosen


def _aims(
    admin: Admin,
    target: Target,
    names: Iterable[str],
    chosen: list[TopicPartition],
    state: ClusterState,
    remembered: Mapping[str, Mapping[TopicPartition, Offset]],
) -> dict[str, dict[TopicPartition, Offset | int | None]]:
    """What the target means for each group; what was left out is said on standard error.

    ``remembered`` is what a lake says of the groups, for a target that is one.
    """
    from seamark.monitor.offset_file import offsets_for, read_offsets
    from seamark.monitor.targets import aim, offsets_at

    # An expired group has nothing committed, and what a lake remembers of it is what is wanted.
    asked = {
        name: chosen or sorted({*state.committed.get(name, {}), *remembered.get(name, {})})
        for name in dict.fromkeys(names)
    }
    at_time = offsets_at(admin, state.logs, target.number) if target.kind == "time" else None
    other: dict[str, Mapping[TopicPartition, Offset | int]] = dict(remembered)
    if target.kind == "group":
        if missing := _absent(admin, [target.name]):
            raise SeamarkError(f"--to group:{target.name}: {missing[0]}")
        elsewhere = admin.list_group_offsets([target.name]).raise_if_failed()[target.name]
        other = dict.fromkeys(asked, elsewhere)
    elif target.kind == "file":
        read = read_offsets(Path(target.name))
        other = {name: offsets_for(read, name) for name in asked}
    wanted: dict[str, dict[TopicPartition, Offset | int | None]] = {}
    for name, partitions in asked.items():
        if not partitions:
            why = next(iter(_absent(admin, [name])), f"group {name!r} has no committed offsets")
            remedy = " Use" if why.endswith("?") else "; use"
            raise UsageError(f"{why}{remedy} --topic to choose what to set")
        aimed = aim(target, name, partitions, state, at_time=at_time, elsewhere=other.get(name))
        if aimed.refused and not aimed.wanted:
            partition, reason = next(iter(aimed.refused.items()))
            raise SeamarkError(f"group {name!r} cannot be set: {partition}: {reason}")
        for partition, reason in aimed.refused.items():
            say(f"seamark: {partition} of group {name!r} is left unchanged: {reason}")
        wanted[name] = aimed.wanted
        for partition, remark in aimed.remarks.items():
            say(f"seamark: {partition} of group {name!r}: {remark}")
    return wanted


def undo(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The file of an applied plan.")],
    apply: Apply = False,
    clamp: Clamp = False,
    outside: AllowOutsideLog = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Undo an applied plan.

    Refused if another client has moved the offsets since.
    """
    from seamark.client import Admin

    check_words(clamp, outside)
    with Admin(client_config(bootstrap, config, option)) as admin:
        take_back(
            admin,
            Path(plan),
            is_to_apply=apply,
            form=chosen_form(as_json),
            clamp=clamp,
            allow_outside_log=outside,
        )


def delete(
    names: Annotated[
        list[str], typer.Argument(metavar="GROUP", help="Groups without members.", autocompletion=group_names)
    ],
    apply: Apply = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
) -> None:
    """Delete groups with their offsets.

    Export them first if you may need them again.
    """
    from seamark.client import Admin

    with Admin(client_config(bootstrap, config, option)) as admin:
        if apply:
            deleted = admin.delete_groups(names)
            done = [f"group {name!r} deleted" for name in deleted]
            complaints = [absent_sentence(admin, name, error) for name, error in sorted(deleted.errors.items())]
        else:
            done, complaints = _would_be_deleted(admin, names)
    for sentence in done:
        typer.echo(sentence)
    for complaint in complaints:
        say(f"seamark: {complaint}")
    if not apply:
        say(f"dry run, nothing was changed{': --apply makes the changes' if done else ''}")
    if complaints:
        raise typer.Exit(1)


def _would_be_deleted(admin: Admin, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """A sentence for each group that can be deleted, and one for each that cannot."""
    from seamark.plans import GroupInUse
    from seamark.plans.cluster_reading import read_committed, read_groups

    asked = sorted(set(names))
    complaints = _absent(admin, asked)
    there = read_groups(admin, asked)
    complaints += [
        str(GroupInUse(name, group.state, group.members)) for name, group in there.items() if group.is_active
    ]
    free = [name for name, group in there.items() if not group.is_active]
    offsets = read_committed(admin, dict.fromkeys(free))
    done = [f"group {name!r} would be deleted, with {counted(len(offsets[name]), 'committed offset')}" for name in free]
    return done, complaints


def _absent(admin: Admin, names: Iterable[str]) -> list[str]:
    """A sentence for each of the groups that does not exist."""
    from seamark.plans.cluster_reading import read_groups
    from seamark.suggest import absent

    asked = sorted(set(names))
    there = read_groups(admin, asked) if asked else {}
    missing = [name for name in asked if name not in there]
    known = [listing.group_id for listing in admin.list_groups()] if missing else []
    return [absent("group", name, known) for name in missing]


def export(
    names: Groups = None,
    everything: _All = False,
    out: _Out = "",
    as_csv: Csv = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
) -> None:
    """Write the offsets of groups to a file.

    JSON, or CSV as in Kafka's tool; import reads both.
    """
    from seamark.client import Admin
    from seamark.monitor.offset_file import offsets_csv, offsets_json

    if bool(names) == everything:
        raise UsageError("name the groups to export, or give --all")
    with Admin(client_config(bootstrap, config, option)) as admin:
        wanted = names or [listing.group_id for listing in admin.list_groups()]
        missing = _absent(admin, names or [])
        if missing:
            raise SeamarkError("; ".join(missing))
        offsets_of = dict(admin.list_group_offsets(wanted).raise_if_failed())
        text = offsets_csv(offsets_of) if as_csv else offsets_json(admin.describe_cluster().cluster_id, offsets_of)
    if out:
        write_file(out, text)
        offsets = counted(sum(map(len, offsets_of.values())), "offset")
        say(f"Wrote {offsets} of {counted(len(offsets_of), 'group')} to {out}.")
    else:
        # A file that is read again has names as they are; a screen does not.
        sys.stdout.write(readable_lines(text) if sys.stdout.isatty() else text)


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON or CSV, as written by export.")],
    group: _Into = "",
    plan: PlanFile = "",
    apply: Apply = False,
    clamp: Clamp = False,
    outside: AllowOutsideLog = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Set groups to the offsets in a file, after a dry run.

    Nothing is changed without --apply.
    """
    from seamark.client import Admin
    from seamark.monitor.offset_file import ANY_GROUP, read_offsets
    from seamark.plans import read_state

    offsets_of = read_offsets(Path(file))
    if group:
        if len(offsets_of) > 1:
            raise UsageError(f"{file} has {counted(len(offsets_of), 'group')}: --group works with one group only")
        offsets_of = {group: next(iter(offsets_of.values()))}
    if ANY_GROUP in offsets_of:
        raise UsageError(f"{file} contains no group name: give --group")
    with Admin(client_config(bootstrap, config, option)) as admin:
        state = read_state(admin, {name: list(offsets) for name, offsets in offsets_of.items()})
        made = make_plan(
            state, offsets_of, made_by="seamark groups import", why=f"import of {file}", clamp=clamp, outside=outside
        )
        carry_out(
            admin,
            made,
            state,
            plan_file=plan,
            is_to_apply=apply,
            form=chosen_form(as_json),
            allow_outside_log=outside,
        )
