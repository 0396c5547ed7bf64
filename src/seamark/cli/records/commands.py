"""``seamark produce`` and ``seamark consume``: records from and to the shell.

What ``consume --json`` writes ``produce --as json`` reads; ``record_lines`` has the form.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seamark.cli.options.connection import Bootstrap, ConfigFile, Json, Options, client_config
from seamark.cli.options.names import topic_names
from seamark.cli.records.record_lines import FORMS, json_of, record_lines
from seamark.cli.records.topic_waiting import flush_aloud, wait_for_topic
from seamark.cli.show.durations import count_of, seconds_of, time_ms_of
from seamark.cli.show.rows import shown
from seamark.cli.show.terminal_text import say
from seamark.counts import counted
from seamark.errors import SeamarkError, UsageError
from seamark.readable_text import readable_json

if TYPE_CHECKING:
    from seamark.client import Consumer, Record, TopicPartition
    from seamark.client.errors import CorruptRecords

_Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=topic_names)]
_As = Annotated[str, typer.Option("--as", metavar="lines|json|csv", help="Input format.")]
_File = Annotated[str, typer.Option("--file", metavar="FILE", help="Read this file instead of standard input.")]
_KeyEnds = Annotated[
    str,
    typer.Option("--key-ends", metavar="TEXT", help="With --as lines: the text between key and value, such as : or ;."),
]
_Group = Annotated[
    str,
    typer.Option(
        "--group",
        metavar="GROUP",
        help="Read as a member of this group, and commit. A new group starts at earliest, "
        "or where -o auto.offset.reset says.",
    ),
]
_From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="WHERE",
        help="Where to start: earliest (the default), latest, offset:N, time:ISO or ago:1h; not with --group.",
    ),
]
_Partition = Annotated[
    list[int], typer.Option("--partition", metavar="N", help="Only this partition; may be repeated.")
]
_Limit = Annotated[int, typer.Option("--limit", metavar="N", help="Maximum number of records; 0 for no limit.")]
_Follow = Annotated[bool, typer.Option("--follow", help="Wait for new records, until Ctrl-C.")]
_Key = Annotated[str, typer.Option("--key", metavar="REGEX", help="Only records whose key matches.")]
_Value = Annotated[str, typer.Option("--value", metavar="REGEX", help="Only records whose value matches.")]
_SkipUnreadable = Annotated[
    bool,
    typer.Option("--skip-unreadable", help="Skip batches that cannot be read, and report them."),
]
# After so many records it is asked whether all were stored: a large input ends soon after a refusal.
_FLUSHED_EVERY = 10_000


def add_to(app: typer.Typer) -> None:
    app.command("produce")(produce)
    app.command("consume")(consume)


def produce(
    topic: _Topic,
    form: _As = "lines",
    file: _File = "",
    key_ends: _KeyEnds = "",
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006 - typer wants the default itself
) -> None:
    """Write records from lines, JSON or CSV.

    CSV starts with a header: value, and key if there are keys. JSON is one object per line: value
    (null for a tombstone), key, headers, partition, timestamp_ms.

    If the topic does not exist, the command waits for 15 seconds (-o max.block.ms=… changes that): many clusters create
    it when it is first written to.

    \b
    Examples:
      echo 'hello' | seamark produce notes
      seamark produce notes --key-ends : --file pairs.txt
      seamark consume notes --json | seamark produce copy --as json
    """
    from seamark.client import Producer

    if form not in FORMS:
        raise UsageError(f"--as {form!r} is not one of {', '.join(FORMS)}")
    source = _opened(file)
    settings = client_config(bootstrap, config, option)
    producer = Producer(settings)
    try:
        # What comes before a line that is refused is stored when this is left.
        with source, producer:
            for count, line in enumerate(record_lines(source, form, key_ends), 1):
                number, key, value, headers, partition, timestamp_ms = line
                if count == 1:
                    wait_for_topic(producer, topic, settings)
                try:
                    producer.send(
                        topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
                    )
                except UsageError as error:
                    raise UsageError(f"line {number}: {error}") from None
                if count % _FLUSHED_EVERY == 0:
                    flush_aloud(producer)
            flush_aloud(producer)
    finally:
        stored = int(producer.metrics()["seamark_producer_records_total"])
        say(f"{counted(stored, 'record')} stored in topic {topic!r}")


def _opened(file: str) -> Any:
    if not file:
        if sys.stdin.isatty():
            say("enter one record per line; Ctrl-D ends the input")
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")
        return sys.stdin
    try:
        return open(file, encoding="utf-8-sig", newline="")  # noqa: PTH123 - closed by the caller's with
    except OSError as error:
        raise UsageError(f"--file {file}: cannot be read ({error.strerror})") from None


def consume(
    topic: _Topic,
    group: _Group = "",
    start: _From = "",
    partition: _Partition = [],  # noqa: B006
    limit: _Limit = 0,
    follow: _Follow = False,
    key: _Key = "",
    value: _Value = "",
    skip_unreadable: _SkipUnreadable = False,
    bootstrap: Bootstrap = "",
    config: ConfigFile = "",
    option: Options = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Read records.

    Without --follow it stops at what was the end of the log when it started. A batch that is damaged, or that would
    take too much memory, stops it; --skip-unreadable skips the batch.

    \b
    Examples:
      seamark consume orders --limit 10
      seamark consume orders --from ago:1h --key '^customer-7$' --json
      seamark consume orders --partition 2 --from offset:1000 --follow
    """
    from seamark.cli.records.unreadable_batches import UnreadableBatches, stopped_by
    from seamark.client import Consumer, TopicPartition

    if limit < 0:
        raise UsageError(f"--limit {limit}: must be >= 0 (0 for no limit)")
    wanted = _pattern("--key", key), _pattern("--value", value)
    settings: dict[str, Any] = client_config(bootstrap, config, option)
    settings.setdefault("auto.offset.reset", "latest" if start == "latest" else "earliest")
    if group:
        if partition or start:
            raise UsageError(
                "--group cannot be combined with --partition or --from: the group decides what is read. "
                "For where a new group starts use -o auto.offset.reset=latest, for another offset seamark groups reset"
            )
        settings["group.id"] = group
        settings["enable.auto.commit"] = "false"
    with Consumer(settings) as consumer:
        ends = None
        if group:
            _partitions_of(consumer, topic)
            consumer.subscribe([topic])
        else:
            ends = _start_at(consumer, topic, partition, start or "earliest")
        left = limit or -1
        done: dict[TopicPartition, int] = {}
        skipped = UnreadableBatches()

        def get_past(error: CorruptRecords) -> None:
            if not skip_unreadable:
                raise stopped_by(error, "--skip-unreadable") from None
            done[error.partition] = skipped.skip(consumer, error)

        try:
            for records in _polls(consumer, None if follow else ends, get_past, is_endless=follow):
                for record in records:
                    if left == 0:
                        break
                    done[TopicPartition(record.topic, record.partition)] = record.offset + 1
                    if _matches(wanted[0], record.key) and _matches(wanted[1], record.value):
                        sys.stdout.write(_text_of(record, as_json))
                        left -= 1
                sys.stdout.flush()
                if group and done:
                    # What was written out is done; what a limit cut off is for the next call.
                    done = _commit(consumer, done)
                if left == 0:
                    break
            if group and done:
                consumer.commit(done)
        finally:
            skipped.tell()


def _commit(consumer: Consumer, done: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Commit what is still ours; the answer is what has to wait because the group is being assigned anew."""
    from seamark.client.errors import RebalanceInProgress

    assigned = consumer.assignment()
    ours = {partition: offset for partition, offset in done.items() if partition in assigned}
    try:
        if ours:
            consumer.commit(ours)
    except RebalanceInProgress:
        # It ends with the polls to come.
        return ours
    return {}


def _start_at(consumer: Consumer, topic: str, partitions: list[int], start: str) -> dict[TopicPartition, int]:
    """Place the consumer; where each partition ends now."""
    known = _partitions_of(consumer, topic)
    chosen = [partition for partition in known if not partitions or partition.partition in partitions]
    if missing := set(partitions) - {partition.partition for partition in known}:
        raise UsageError(f"topic {topic!r} has no partition {min(missing)}, only 0 to {len(known) - 1}")
    consumer.assign(chosen)
    kind, _, rest = start.partition(":")
    if start == "earliest":
        consumer.seek_to_beginning(chosen)
    elif start == "latest":
        consumer.seek_to_end(chosen)
    elif kind == "offset" and (offset := count_of(rest)) is not None:
        _seek_in_log(consumer, chosen, offset)
    elif kind == "time" and rest:
        consumer.seek_to_time(max(0, time_ms_of(rest)), chosen)
    elif kind == "ago" and rest:
        import time

        consumer.seek_to_time(max(0, int((time.time() - seconds_of(rest)) * 1000)), chosen)
    else:
        raise UsageError(f"--from {start!r} is not one of earliest, latest, offset:N, time:ISO, ago:1h")
    return consumer.end_offsets(chosen)


def _partitions_of(consumer: Consumer, topic: str) -> tuple[TopicPartition, ...]:
    partitions = consumer.partitions_for(topic)
    if not partitions:
        raise SeamarkError(f"there is no topic {topic!r}")
    return partitions


def _seek_in_log(consumer: Consumer, partitions: list[TopicPartition], offset: int) -> None:
    """Go to an offset; SeamarkError if a log does not have it, for a consumer would start over somewhere else."""
    from seamark.plans.plan import LogRange, outside_log

    starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    for partition in partitions:
        if problem := outside_log(offset, LogRange(starts[partition], ends[partition])):
            raise SeamarkError(f"{partition}: {problem}; --partition N reads only some partitions")
        consumer.seek(partition, offset)


def _polls(
    consumer: Consumer,
    ends: dict[TopicPartition, int] | None,
    get_past: Callable[[CorruptRecords], None],
    *,
    is_endless: bool,
) -> Iterator[list[Record]]:
    """Until every partition is at its end; a member, which has no ends, until a second brings nothing.

    ``get_past`` places the consumer behind a batch that cannot be read, or raises.
    """
    from seamark.client.errors import CorruptRecords

    while True:
        try:
            records = consumer.poll(0.2 if ends is not None else 1.0)
        except CorruptRecords as error:
            get_past(error)
            continue
        yield records
        if ends is not None:
            if all(consumer.position(partition) >= end for partition, end in ends.items()):
                return
        elif not records and not is_endless and consumer.assignment():
            return


def _pattern(option: str, text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise UsageError(f"{option} {text!r} is not a regular expression ({error})") from None


def _matches(pattern: re.Pattern[str] | None, field: bytes | None) -> bool:
    return pattern is None or (field is not None and pattern.search(field.decode(errors="replace")) is not None)


def _text_of(record: Record, as_json: bool) -> str:
    if not as_json:
        key = "" if record.key is None else f" {shown(record.key.decode(errors='replace'))}"
        value = "(no value)" if record.value is None else shown(record.value.decode(errors="replace"))
        return f"{record.partition}:{record.offset}{key}\t{value}\n"
    content = {
        "topic": record.topic, "partition": record.partition, "offset": record.offset,
        "timestamp_ms": record.timestamp_ms, "key": json_of(record.key), "value": json_of(record.value),
        "headers": [[name, json_of(value)] for name, value in record.headers],
    }  # fmt: skip
    return readable_json(content) + "\n"
