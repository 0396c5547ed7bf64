"""One million mutated frames and batches: each is decoded or refused with a DecodeError, and nothing else happens.

The decoding runs in subprocesses, so that a crash of compiled code is seen as one. Half of the mutated batches get
their length and checksum corrected, so that the parsers behind those checks are reached. After the first tenth of a run
the process must not grow any more (by less than 20 MB).
"""

import json
import random
import subprocess
import sys
from collections import Counter
from functools import cache

import psutil

from seamark.errors import DecodeError
from seamark.wire.columns.columns import decode_columns
from seamark.wire.offsets import done_ahead
from seamark.wire.offsets.offsets_topic import decode_entry, offset_commit_key, offset_commit_value
from seamark.wire.protocol.apis import Api, all_apis
from seamark.wire.protocol.consumer_protocol import decode_assignment, decode_subscription
from seamark.wire.protocol.frames import FrameParser, decode_request, decode_response, encode_request, encode_response
from seamark.wire.records import Record, encode_batch, read_records
from seamark.wire.records.compression import Codec
from tests.support.mutations import mutate, mutate_batch
from tests.support.random_messages import random_message

TOTAL = 1_000_000
PROCESSES = 2
MAX_GROWTH_MB = 20
ALL_COLUMNS = ("key", "value", "offset", "timestamp", "timestamp_type", "headers")


def run(scale: float) -> dict[str, object]:
    share = int(TOTAL * scale / PROCESSES)
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.soak.wire", str(number), str(share)], stdout=subprocess.PIPE, text=True
        )
        for number in range(PROCESSES)
    ]
    reports = []
    for child in children:
        out, _ = child.communicate()
        reports.append(json.loads(out.splitlines()[-1]) if child.returncode == 0 else {"exit": child.returncode})
    done = sum(report.get("done", 0) for report in reports)
    growth = max(report.get("growth_mb", 1e9) for report in reports)
    return {
        "ok": done == share * PROCESSES and growth < MAX_GROWTH_MB,
        "inputs": done,
        "refused": sum(report.get("refused", 0) for report in reports),
        "growth_mb": round(growth, 2),
        "kinds": sum((Counter(report.get("kinds", {})) for report in reports), Counter()),
        "children": [report for report in reports if "exit" in report],
    }


def child(seed: int, count: int) -> dict[str, object]:
    process = psutil.Process()
    kinds: Counter[str] = Counter()
    refused = 0
    settled_mb = 0.0
    for number in range(count):
        if number == count // 10:
            settled_mb = process.memory_info().rss / 1e6
        rng = random.Random(seed * 1_000_000_007 + number)
        kind = rng.choices(("request", "response", "batch", "stored", "stream"), (3, 3, 8, 1, 1))[0]
        kinds[kind] += 1
        try:
            CASES[kind](rng)
        except DecodeError as error:
            refused += 1
            if not error.field or error.position < 0:
                raise RuntimeError(f"names no place: {error!r}") from error
    grown = process.memory_info().rss / 1e6 - settled_mb
    return {"done": count, "refused": refused, "growth_mb": grown, "kinds": kinds}


@cache
def _apis():
    return list(all_apis().values())


@cache
def _encoded(kind: str, key: int, version: int, variant: int) -> bytes:
    rng = random.Random(f"{kind} {key} {version} {variant}")
    api = all_apis()[key]
    if kind == "request":
        return encode_request(random_message(api.request, version, rng), version, 5, "client")
    return encode_response(random_message(api.response, version, rng), version, 5)


def _request(rng: random.Random) -> None:
    api = rng.choice(_apis())
    version = rng.choice(list(api.versions))
    decode_request(mutate(_encoded("request", api.key, version, rng.randrange(4))[4:], rng))


def _response(rng: random.Random) -> None:
    api = rng.choice(_apis())
    version = rng.choice(list(api.versions))
    decode_response(api.response, mutate(_encoded("response", api.key, version, rng.randrange(4))[4:], rng), version)


@cache
def _batch_sample(number: int) -> bytes:
    rng = random.Random(number)
    records = [
        Record(
            offset=100 + index * rng.choice((1, 1, 3)),
            timestamp_ms=1_700_000_000_000 + index,
            timestamp_type=0,
            key=rng.choice((None, b"", b"key", rng.randbytes(20))),
            value=rng.choice((None, b"", rng.randbytes(100), b"v" * 300)),
            headers=[("h", rng.choice((None, b"", b"x")))] * rng.choice((0, 0, 1, 3)),
        )
        for index in range(rng.choice((1, 2, 10, 40)))
    ]
    records.sort(key=lambda record: record.offset)
    unique = list({record.offset: record for record in records}.values())
    return encode_batch(unique, codec=list(Codec)[number % len(Codec)])


def _batch(rng: random.Random) -> None:
    batch = mutate_batch(_batch_sample(rng.randrange(60)), rng, fix=rng.random() < 0.5)
    if rng.random() < 0.5:
        read_records(batch, max_bytes=1 << 20)
    else:
        decode_columns(batch, columns=ALL_COLUMNS, max_bytes=1 << 20)


_STORED_KEY = offset_commit_key("orders-service", "orders", 3)
_STORED_VALUE = offset_commit_value(100, "done", 1_700_000_000_000)
_SUBSCRIPTION = bytes.fromhex("00000000000200036261720011717569636b73746172742d6576656e7473ffffffff")
_ASSIGNMENT = bytes.fromhex("0000000000010003626172000000020000000000000001ffffffff")
_DONE_AHEAD = done_ahead.encode(100, [102, 103, 110, 200]).text


def _stored(rng: random.Random) -> None:
    choice = rng.randrange(4)
    if choice == 0:
        decode_entry(mutate(_STORED_KEY, rng), mutate(_STORED_VALUE, rng))
    elif choice == 1:
        decode_subscription(mutate(_SUBSCRIPTION, rng))
    elif choice == 2:
        decode_assignment(mutate(_ASSIGNMENT, rng))
    else:
        done_ahead.decode(mutate(_DONE_AHEAD.encode(), rng).decode("latin-1"), 100)


def _first_version_request(api: Api) -> bytes:
    return _encoded("request", api.key, api.versions.first, 0)


def _stream(rng: random.Random) -> None:
    """A damaged byte stream of several frames, cut at random."""
    frames = b"".join(_first_version_request(rng.choice(_apis())) for _ in range(2))
    data = mutate(frames, rng)
    parser = FrameParser(max_frame_bytes=1 << 16)
    while data:
        step = rng.choice((1, 7, 64, len(data)))
        for frame in parser.feed(data[:step]):
            decode_request(frame)
        data = data[step:]


CASES = {"request": _request, "response": _response, "batch": _batch, "stored": _stored, "stream": _stream}

if __name__ == "__main__":
    print(json.dumps(child(int(sys.argv[1]), int(sys.argv[2]))))
