"""``seamark dead-letters list | show | replay``: what was given up and why, and putting it back.

Without ``--apply`` a replay only says what it would do.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from seamark.cli.options.connection import Bootstrap, ConfigFile, Json, Options, client_config
from seamark.cli.show.durations import count_of, time_ms_of
from seamark.cli.show.rows import Column, chosen_form, shown, write_rows
from seamark.cli.show.terminal_text import tell
from seamark.counts import counted
from seamark.errors import SeamarkError, UsageError
from seamark.readable_text import readable_json
from seamark.topic_partition import TopicPartition

_Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="A dead-letter topic.")]
_Topics = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Default: all topics that end in .dead-letters.")]
_At = Annotated[str, typer.Option("--at", metavar="PARTITION:OFFSET", help="The record to show; default: the newest.")]
_To = Annotated[
    str, typer.Option("--to", metavar="TOPIC", help="Send the records to this topic instead of their source topic.")
]
_Error = Annotated[
    str, typer.Option("--error", metavar="TEXT", help="Only records whose error message or type contains this text.")
]
_Source = Annotated[
    str, typer.Option("--source", metavar="TOPIC[-N]", help="Only records from this topic or partition.")
]
_Key = Annotated[str, typer.Option("--key", metavar="TEXT", help="Only records with this key.")]
_Since = Annotated[str, typer.Option("--since", metavar="ISO", help="Only records that failed at or after this time.")]
_Until = Annotated[str, typer.Option("--until", metavar="ISO", help="Only records that failed before this time.")]
_Limit = Annotated[int, typer.Option("--limit", metavar="N", help="Maximum number of records; 0 for no limit.")]
_MaxReplays = Annotated[
    int, typer.Option("--max-replays", metavar="N", help="Skip records that were already replayed this many times.")
]
_Group = Annotated[
    str, typer.Option("--group", metavar="GROUP", help="The group that keeps track of replayed records.")
]
_Apply = Annotated[bool, typer.Option("--apply", help="Replay the records; without it nothing is written.")]

_LIST = (
    Column("TOPIC", "topic", may_shrink=True),
    Column("ERROR", "error_type", may_shrink=True),
    Column("LETTERS", "letters", is_number=True),
    Column("SOURCES", "sources", may_shrink=True),
    Column("FIRST", "first"),
    Column("LAST", "last"),
)
_REPLAY = (
    Column("LETTER", "letter", may_shrink=True),
    Column("FROM", "source", may_shrink=True),
    Column("TO", "to", may_shrink=True),
    Column("KEY", "key", may_shrink=True),
    Column("REPLAYS", "replays", is_number=True),
    Column("ERROR", "error", is_sentence=True),
)
_NOT_OURS = "(no provenance)"
# A replay of thousands is not read line by line.
_SHOWN_ROWS = 50


def add_to(app: typer.Typer) -> None:
    dead_letters = typer.Typer(name="dead-letters", help="Inspect and replay dead letters.", no_args_is_help=True)
    for name, command in (("list", list_letters), ("show", show), ("replay", replay_letters)):
        dead_letters.command(name)(command)
    app.add_typer(dead_letters)


def list_letters(
    topics: _Topics = [],  # noqa: B006 - typer wants the default itself
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006 - typer wants the default itself
    as_json: Json = False,
) -> None:
    """Count dead letters by topic and error.

    With the time of the first and the last failure.
    """
    from seamark.cli.dead_letters.reading import SUFFIX, letters, open_reader, partitions_of, time_of
    from seamark.client import Admin

    settings = client_config(bootstrap, config, option)
    if not topics:
        with Admin(settings) as admin:
            topics = sorted(name for name in admin.list_topics() if name.endswith(SUFFIX))
    rows: list[tuple[Any, ...]] = []
    with open_reader(settings) as reader:
        for topic in topics:
            counts: Counter[str] = Counter()
            times: dict[str, list[int]] = {}
            sources: dict[str, set[str]] = {}
            for letter in letters(reader, dict.fromkeys(partitions_of(reader, topic), 0)):
                provenance = letter.provenance
                kind = provenance.error_type if provenance else _NOT_OURS
                counts[kind] += 1
                moment = provenance.failed_at_ms if provenance else letter.record.timestamp_ms
                span = times.setdefault(kind, [moment, moment])
                span[:] = min(span[0], moment), max(span[1], moment)
                if provenance:
                    sources.setdefault(kind, set()).add(provenance.source.topic)
            rows += [
                (topic, kind, count, ",".join(sorted(sources.get(kind, ()))), *map(time_of, times[kind]))
                for kind, count in counts.most_common()
            ]
            if not counts and not as_json:
                rows.append((topic, None, 0, None, None, None))
    write_rows(_LIST, rows, chosen_form(as_json))


def show(
    topic: _Topic,
    at: _At = "",
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006 - typer wants the default itself
    as_json: Json = False,
) -> None:
    """Show one dead letter.

    Where it came from, why it failed, and what is in it.
    """
    from seamark.cli.dead_letters.reading import described, letters, open_reader, partitions_of

    wanted = _read_place(at) if at else None
    with open_reader(client_config(bootstrap, config, option)) as reader:
        partitions = partitions_of(reader, topic)
        if wanted is not None:
            place = TopicPartition(topic, wanted[0])
            if place not in partitions:
                raise UsageError(f"{topic!r} has no partition {wanted[0]}")
            starts = {place: wanted[1]}
        else:
            # The last record may be followed by a marker, so a few offsets before the end are read.
            starts = {partition: max(0, end - 10) for partition, end in reader.end_offsets(partitions).items()}
        read = list(letters(reader, starts)) if wanted is None else _first(letters(reader, starts))
    chosen = [letter for letter in read if wanted is None or letter.record.offset == wanted[1]]
    if not chosen:
        raise SeamarkError(
            f"there is no record at {topic}-{at.replace(':', ' offset ')}" if at else f"{topic!r} is empty"
        )
    newest = max(chosen, key=lambda letter: (letter.record.timestamp_ms, letter.record.offset))
    told = described(newest)
    if as_json:
        typer.echo(readable_json(told))
        return
    for name, value in told.items():
        if name == "stack":
            typer.echo("stack:")
            for line in str(value).splitlines():
                typer.echo(f"    {shown(line)}")
        elif name == "headers":
            for header, content in value:
                typer.echo(f"header {shown(header)}: {shown(content)}")
        else:
            typer.echo(f"{name.replace('_', ' ')}: {shown(value)}")


def replay_letters(
    topic: _Topic,
    to: _To = "",
    error: _Error = "",
    source: _Source = "",
    key: _Key = "",
    since: _Since = "",
    until: _Until = "",
    limit: _Limit = 0,
    max_replays: _MaxReplays = 5,
    group: _Group = "",
    apply: _Apply = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006 - typer wants the default itself
    as_json: Json = False,
) -> None:
    """Send dead letters back to their source topic.

    Replayed records are recorded in a group, by default seamark-replay.TOPIC, and are not replayed again.
    An interrupted replay may repeat up to 500 records. Only one replay can run at a time.
    """
    from seamark.cli.dead_letters.reading import open_reader
    from seamark.cli.dead_letters.replay import Plan, Wanted, apply_plan, check_memory, make_plan, only_member

    if limit < 0 or max_replays < 1:
        raise UsageError("--limit must be >= 0 and --max-replays must be >= 1")
    wanted = Wanted(error, source, key, time_ms_of(since) if since else None, time_ms_of(until) if until else None)
    settings = client_config(bootstrap, config, option)
    group = group or f"seamark-replay.{topic}"

    put_back, is_remembered = 0, True

    def tell(plan: Plan) -> None:
        remembered = f"recorded in group {group}" if is_remembered else f"not all of them are recorded in group {group}"
        _tell(plan, put_back, remembered, topic=topic, group=group, is_applied=apply, as_json=as_json)

    with (
        only_member(settings, group, topic) if apply else nullcontext() as member,
        open_reader(settings, group) as reader,
    ):
        plan = make_plan(reader, topic, wanted, to=to or None, limit=limit, max_replays=max_replays)
        check_memory(plan)
        if member is None or not plan.chosen:
            tell(plan)
            return
        from seamark.cli.records.topic_waiting import wait_for_topic
        from seamark.client import Producer

        def count(done: int, are_remembered: bool) -> None:
            nonlocal put_back, is_remembered
            put_back, is_remembered = done, are_remembered

        try:
            with Producer({**settings, "acks": "all", "enable.idempotence": "true"}) as producer:
                for target in sorted({chosen.topic for _, chosen in plan.chosen}):
                    wait_for_topic(producer, target, settings)
                apply_plan(member, producer, plan, count, group=group)
        finally:
            tell(plan)


def _tell(
    plan: Any, put_back: int, remembered: str, *, topic: str, group: str, is_applied: bool, as_json: bool
) -> None:
    from seamark.cli.dead_letters.reading import text_of

    rows = [
        (
            f"{letter.place} @ {letter.record.offset}",
            f"{letter.provenance.source} @ {letter.provenance.offset}",
            chosen.topic,
            text_of(letter.record.key),
            letter.provenance.replays,
            f"{letter.provenance.error_type}: {letter.provenance.error}".splitlines()[0],
        )
        for letter, chosen in plan.chosen
    ]
    if as_json:
        told = {
            "topic": topic,
            "group": group,
            "applied": is_applied,
            "chosen": len(rows),
            "put_back": put_back,
            "left_out": plan.left_out,
            "letters": [dict(zip([column.name for column in _REPLAY], row, strict=True)) for row in rows],
        }
        typer.echo(readable_json(told))
        return
    if rows and not is_applied:
        write_rows(_REPLAY, rows[:_SHOWN_ROWS], "table")
        if len(rows) > _SHOWN_ROWS:
            typer.echo(f"… and {len(rows) - _SHOWN_ROWS} more")
    for reason, count in plan.left_out.items():
        tell(f"{counted(count, 'record')} skipped: {reason}")
    if is_applied and rows:
        tell(f"{counted(put_back, 'record')} replayed; {remembered}")
    elif rows:
        typer.echo(f"{counted(len(rows), 'record')} would be replayed; nothing was written: give --apply to replay")
    else:
        typer.echo("nothing to replay")


def _read_place(at: str) -> tuple[int, int]:
    partition, _, offset = at.partition(":")
    place = count_of(partition), count_of(offset)
    if place[0] is None or place[1] is None:
        raise UsageError(f"--at {at!r}: must be PARTITION:OFFSET, for example 0:17")
    return place[0], place[1]


def _first(letters: Any) -> list[Any]:
    """The first letter only: what lies behind it is not read."""
    for letter in letters:
        return [letter]
    return []
