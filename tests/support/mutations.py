"""Damage for decoders: bytes changed at random from a seeded generator, so that a failure can be had again.

``mutate`` knows nothing of what it changes. ``mutate_batch`` works behind the header of a record batch and, with
``fix``, puts length and CRC right again: the damage then reaches the parser that a wrong checksum would keep it from.
"""

from __future__ import annotations

from random import Random
from struct import pack_into, unpack_from

from seamark.wire.records.crc32c import crc32c

HEADER_BYTES = 61
LENGTH_OVERHEAD = 12
ATTRIBUTES_POSITION = 21

# Bytes at which formats turn: zero, sign and continuation bits, their neighbours; then varints of -1 and the extremes.
TURNING_POINTS = (0x00, 0x01, 0x02, 0x03, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
TURNING_RUNS = (
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
    b"\x80\x00",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xed\xa0\x80",
)


def mutate(data: bytes, rng: Random) -> bytes:
    """Return ``data`` with one to four changes: bits, bytes, runs, cuts, repeats and swaps."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(changed) + 1)
        length = min(rng.choice((1, 1, 1, 2, 4, 8, 32)), len(changed) - place)
        match rng.randrange(9):
            case 0 if length:
                changed[place] ^= 1 << rng.randrange(8)
            case 1 if length:
                changed[place] = rng.randrange(256)
            case 2 if length:
                changed[place] = rng.choice(TURNING_POINTS)
            case 3:
                changed[place:place] = rng.choice(TURNING_RUNS)
            case 4:
                run = rng.choice(TURNING_RUNS)
                changed[place : place + len(run)] = run
            case 5:
                del changed[place : place + length]
            case 6:
                changed[place:place] = changed[place : place + length]
            case 7 if length:
                other = rng.randrange(len(changed) - length + 1)
                changed[place : place + length] = changed[other : other + length]
            case 8 if rng.randrange(4) == 0:
                del changed[place:]
            case _:
                changed[place:place] = rng.randbytes(1)
    return bytes(changed)


def mutate_batch(batch: bytes, rng: Random, fix: bool) -> bytes:
    """Return a record batch with its header fields or its records damaged; ``fix`` repairs its length and CRC."""
    if len(batch) < HEADER_BYTES:
        return mutate(batch, rng)
    head, records = bytearray(batch[:HEADER_BYTES]), batch[HEADER_BYTES:]
    if rng.randrange(4) == 0:
        place = rng.randrange(HEADER_BYTES)
        head[place] = rng.choice(TURNING_POINTS) if rng.randrange(2) else rng.randrange(256)
    else:
        records = mutate(records, rng)
    if rng.randrange(8) == 0:
        (count,) = unpack_from(">i", head, 57)
        count = rng.choice((count - 1, count + 1, 0, 2**31 - 1, -1, len(records) // 7))
        pack_into(">i", head, 57, max(-(2**31), min(count, 2**31 - 1)))
    damaged = bytearray(head + records)
    return with_length_and_crc(damaged) if fix else bytes(damaged)


def with_length_and_crc(batch: bytearray | bytes) -> bytes:
    """Return the batch with the length and CRC that belong to its bytes."""
    fixed = bytearray(batch)
    pack_into(">i", fixed, 8, len(fixed) - LENGTH_OVERHEAD)
    pack_into(">I", fixed, 17, crc32c(bytes(fixed[ATTRIBUTES_POSITION:])))
    return bytes(fixed)
