"""``seamark spark-checkpoint``: the checkpoint of a streaming query, and the consumer group that should know about it.

Spark keeps its progress in a directory that no lag tool reads. ``show`` says what is in it, ``to-group`` tells a
consumer group (through a plan, dry run first), ``from-group`` turns a group's offsets into the ``startingOffsets`` of
a new query. Only batches that are done count: an offset is never ahead of what the query has made durable.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from seamark.cli.options.connection import Bootstrap, ConfigFile, Json, Options, client_config
from seamark.cli.options.plan_workflow import AllowOutsideLog, Apply, Clamp, PlanFile, carry_out, make_plan
from seamark.cli.show.lag_columns import BEYOND, LAG, LOST, LagParts, Note, write_lags
from seamark.cli.show.rows import Column, chosen_form, write_file, write_rows
from seamark.cli.show.terminal_text import say, tell
from seamark.counts import counted
from seamark.errors import UsageError
from seamark.readable_text import readable_json

if TYPE_CHECKING:
    from seamark.client import Admin, Offset
    from seamark.plans.plan import ClusterState, LogRange
    from seamark.spark.read.checkpoint import Checkpoint, CheckpointBatch
    from seamark.spark.read.offset_document import SourceOffsets
    from seamark.topic_partition import TopicPartition

_Directory = Annotated[str, typer.Argument(metavar="DIR", help="The query's checkpointLocation.")]
_Group = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]
_Batch = Annotated[int, typer.Option("--batch", metavar="N", help="The batch to use; default: the last finished one.")]
_Source = Annotated[str, typer.Option("--source", metavar="N", help="The source, for a query with several.")]
_Topics = Annotated[list[str], typer.Option("--topic", metavar="TOPIC", help="This topic; may be repeated.")]
_Fallback = Annotated[
    str,
    typer.Option(
        "--fallback", metavar="earliest|latest|fail", help="Where to start a partition without a committed offset."
    ),
]
_Out = Annotated[str, typer.Option("--out", metavar="FILE", help="Write to this file instead of standard output.")]

_LATEST_BATCHES = 10
_NO_BATCH = -1
# What Spark calls the two ends in startingOffsets.
_STARTS = {"earliest": -2, "latest": -1}

_OFFSETS = (
    Column("SOURCE", "source"),
    Column("TOPIC", "topic", may_shrink=True),
    Column("PARTITION", "partition", is_number=True),
    Column("OFFSET", "offset", is_number=True),
    Column("LOG-END", "log_end", is_number=True),
    LAG,
    LOST,
    BEYOND,
)
_BATCHES = (
    Column("BATCH", "batch", is_number=True),
    Column("STATE", "state"),
    Column("PLANNED", "planned_at"),
    Column("RECORDS", "records", is_number=True),
)

checkpoint_app = typer.Typer(help="Inspect a Spark checkpoint, and set a group to it.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(checkpoint_app, name="spark-checkpoint")


@checkpoint_app.command("show")
def show(
    directory: _Directory,
    batch: _Batch = _NO_BATCH,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006 - typer wants the default itself
    as_json: Json = False,
) -> None:
    """Show the last batches and the offsets of the partitions.

    With --bootstrap also the lag of each partition.
    """
    from seamark.client import Admin
    from seamark.plans.cluster_reading import read_logs
    from seamark.rules.lag import UNKNOWN, lag_of, loss_text
    from seamark.spark.read.checkpoint import Checkpoint
    from seamark.spark.read.offset_document import SourceOffsets

    checkpoint = Checkpoint.open(directory)
    chosen = checkpoint.batch(batch) if batch != _NO_BATCH else _latest(checkpoint)
    kafka = {name: source for name, source in chosen.sources.items() if isinstance(source, SourceOffsets)}
    logs: dict[TopicPartition, LogRange] = {}
    if bootstrap or config or option:
        with Admin(client_config(bootstrap, config, option)) as admin:
            logs, unreadable = read_logs(
                admin, {partition for source in kafka.values() for partition in source.partitions()}
            )
        for partition, reason in unreadable.items():
            say(f"seamark: the log of {partition} cannot be read: {reason}")
    rows, parts, notes = [], [], []
    for name, offsets in kafka.items():
        for partition, offset in offsets.next_offsets().items():
            log = logs.get(partition)
            lag = UNKNOWN if log is None else lag_of(offset, log.log_start, log.log_end)
            rows.append((name, *partition, offset, log and log.log_end, lag.records, lag.lost, lag.beyond))
            parts.append(LagParts(lag.records, lag.lost, lag.records, lag.beyond))
            if loss := loss_text(lag):
                notes.append(Note(str(partition), loss, True))
    batches = [_batch_row(checkpoint, number) for number in checkpoint.planned[-_LATEST_BATCHES:]]
    if as_json:
        content = {
            "query": checkpoint.query_id,
            "batches": [dict(zip((column.name for column in _BATCHES), row, strict=True)) for row in batches],
            "batch": chosen.number,
            "sources": {name: _kind(source) for name, source in chosen.sources.items()},
            "offsets": [dict(zip((column.name for column in _OFFSETS), row, strict=True)) for row in rows],
        }
        typer.echo(readable_json(content, indent=1))
        return
    tell(f"query {checkpoint.query_id or '(without id)'}")
    write_rows(_BATCHES, batches, "table")
    typer.echo(f"\nafter batch {chosen.number} ({'done' if chosen.is_done else 'planned, not done'})")
    write_lags(_OFFSETS, rows, parts, notes, "table")
    for name, source in chosen.sources.items():
        if name not in kafka:
            tell(f"source {name}: {_kind(source)}")


@checkpoint_app.command("to-group")
def to_group(
    directory: _Directory,
    group: _Group,
    batch: _Batch = _NO_BATCH,
    source: _Source = "",
    plan: PlanFile = "",
    apply: Apply = False,
    clamp: Clamp = False,
    outside: AllowOutsideLog = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006 - typer wants the default itself
    as_json: Json = False,
) -> None:
    """Set a group to the offsets of the query.

    These are the end of its last finished batch, or of --batch.
    """
    from seamark.client import Admin
    from seamark.plans import read_state
    from seamark.spark.errors import BadCheckpoint
    from seamark.spark.read.checkpoint import Checkpoint, kafka_source

    checkpoint = Checkpoint.open(directory)
    chosen = checkpoint.last_done() if batch == _NO_BATCH else checkpoint.batch(batch)
    if not chosen.is_done:
        raise BadCheckpoint(f"batch {chosen.number} is planned but not done: a group must not be ahead of the query")
    _, offsets = kafka_source(chosen, source or None, checkpoint.directory)
    with Admin(client_config(bootstrap, config, option)) as admin:
        state = read_state(admin, {group: list(offsets.partitions())})
        _check_identity(offsets, state)
        wanted = _wanted(checkpoint, chosen, offsets, state, group)
        why = f"group {group} to batch {chosen.number} of Spark query {checkpoint.query_id or 'without id'}"
        made_by = "seamark spark-checkpoint to-group"
        made = make_plan(state, {group: wanted}, made_by=made_by, why=why, clamp=clamp, outside=outside)
        carry_out(
            admin,
            made,
            state,
            plan_file=plan,
            is_to_apply=apply,
            form=chosen_form(as_json),
            allow_outside_log=outside,
        )


@checkpoint_app.command("from-group")
def from_group(
    group: _Group,
    topic: _Topics = [],  # noqa: B006 - typer wants the default itself
    fallback: _Fallback = "fail",
    out: _Out = "",
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006 - typer wants the default itself
    as_json: Json = False,  # noqa: ARG001 - it is JSON already
) -> None:
    """Print startingOffsets made from a group.

    A new query with them continues at the group's offsets, and so repeats records that a parallel consumer has done
    beyond them; how many is said.
    """
    if fallback not in (*_STARTS, "fail"):
        raise UsageError(f"--fallback must be earliest, latest or fail, got {fallback!r}")
    from seamark.client import Admin

    with Admin(client_config(bootstrap, config, option)) as admin:
        text = json.dumps(_starting_offsets(admin, group, topic, fallback), sort_keys=True)
    if not out:
        typer.echo(text)
        return
    write_file(out, text + "\n")


def _latest(checkpoint: Checkpoint) -> CheckpointBatch:
    return checkpoint.last_done() if checkpoint.done else checkpoint.batch(checkpoint.planned[-1])


def _kind(source: object) -> str:
    from seamark.spark.read.checkpoint import NotKafka

    if source is None:
        return "nothing read yet"
    return f"not Kafka: {source.reason}" if isinstance(source, NotKafka) else "kafka"


def _batch_row(checkpoint: Checkpoint, number: int) -> tuple[int, str, str | None, int | None]:
    from seamark.plans.plan_text import time_text

    batch = checkpoint.batch(number)
    planned = None if batch.planned_ms is None else time_text(batch.planned_ms)
    records = None
    if number - 1 in checkpoint.planned:
        records = _between(checkpoint.batch(number - 1), batch)
    return number, "done" if batch.is_done else "planned", planned, records


def _between(earlier: CheckpointBatch, later: CheckpointBatch) -> int:
    """How many offsets a batch went over; partitions that are new in it are counted from the next one on."""
    from seamark.spark.read.offset_document import SourceOffsets

    total = 0
    for name, source in later.sources.items():
        before = earlier.sources.get(name)
        if isinstance(source, SourceOffsets) and isinstance(before, SourceOffsets):
            starts = before.next_offsets()
            total += sum(max(0, end - starts.get(partition, end)) for partition, end in source.next_offsets().items())
    return total


def _check_identity(offsets: SourceOffsets, state: ClusterState) -> None:
    from seamark.plans import TopicChanged

    for name in offsets.topics:
        known, topic = offsets.topic_id(name), state.topics.get(name)
        if known and topic is not None and topic.topic_id and known != topic.topic_id:
            raise TopicChanged(f"topic {name!r} was recreated after the checkpoint: its offsets refer to other records")


def _wanted(
    checkpoint: Checkpoint, batch: CheckpointBatch, offsets: SourceOffsets, state: ClusterState, group: str
) -> dict[TopicPartition, Offset | int | None]:
    from seamark.client import Offset
    from seamark.spark.read.group_commits import commit_metadata

    query = checkpoint.query_id or offsets.query
    wanted: dict[TopicPartition, Offset | int | None] = {}
    for partition, offset in offsets.next_offsets().items():
        before = state.committed.get(group, {}).get(partition)
        if before is not None and before.offset == offset:
            # Who committed the same offset keeps their metadata.
            wanted[partition] = before
            continue
        topic_id = offsets.topic_id(partition.topic)
        wanted[partition] = Offset(offset, commit_metadata(offsets.query, query, batch.number, topic_id))
    return wanted


def _starting_offsets(admin: Admin, group: str, topics: list[str], fallback: str) -> dict[str, dict[str, int]]:
    """Every partition of the topics: Spark refuses starting offsets that leave one out."""
    from seamark.plans.cluster_reading import read_committed, read_topics
    from seamark.plans.errors import some
    from seamark.plans.progress import count, done_beyond
    from seamark.spark.errors import NoGroupOffset, TopicMissing
    from seamark.topic_partition import TopicPartition

    committed = read_committed(admin, {group: None})[group]
    names = sorted(set(topics) or {partition.topic for partition in committed})
    if not names:
        raise NoGroupOffset(f"group {group!r} has no committed offsets: give --topic and --fallback")
    described = read_topics(admin, names)
    if missing := [name for name in names if name not in described]:
        raise TopicMissing(f"the cluster has no topic {some(missing)}")
    starts: dict[str, dict[str, int]] = {}
    ahead = 0
    without = []
    for name in names:
        for index in range(described[name].partition_count):
            partition = TopicPartition(name, index)
            if partition in committed:
                start = committed[partition].offset
                ahead += count(done_beyond(committed[partition]))
            else:
                without.append(partition)
                start = _STARTS.get(fallback, 0)
            starts.setdefault(name, {})[str(index)] = start
    if without and fallback == "fail":
        raise NoGroupOffset(f"group {group!r} has no offset of {some(without)}: give --fallback earliest or latest")
    if ahead:
        say(
            f"seamark: group {group!r} has done {counted(ahead, 'record')} beyond its committed offsets; "
            "startingOffsets cannot say so, and the query would process them again"
        )
    return starts
