"""The codecs against other implementations, and streams that would unfold to more than is allowed."""

import contextlib
import gzip
import mmap
import os
import random
import subprocess
import sys
import textwrap

import cramjam
import pyarrow
import pytest

from seamark.errors import BadLength, BadValue, DecodeError, EncodeError, TrailingBytes, UnknownCodec
from seamark.wire.records.compression import DEFAULT_MAX_DECOMPRESSED, Codec, compress, decompress, unfold

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
MIB = 1 << 20
SAMPLES = {
    "empty": b"",
    "one byte": b"a",
    "text": b"a consumer group commits its offsets " * 5_000,
    "noise": random.Random(7).randbytes(200_000),
    "zeros": bytes(3 * MIB),
    "one block exactly": random.Random(8).randbytes(16 << 10) * 4,
}
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("name", SAMPLES)
def test_what_was_compressed_comes_back_within_its_exact_size(codec, name):
    content = SAMPLES[name]
    for stored in (compress(codec, content), memoryview(compress(codec, memoryview(content)))):
        assert decompress(codec, stored, len(content)) == content
    if content:
        with pytest.raises(BadLength) as caught:
            decompress(codec, compress(codec, content), len(content) - 1, 61)
        assert (caught.value.field, caught.value.position) == ("records", 61)


def outcome_of(read, *given):
    """What it unfolds to, or the kind of error."""
    try:
        found = read(*given)
    except DecodeError as error:
        return type(error)
    return found if isinstance(found, bytes) else found[0][: found[1]]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("name", SAMPLES)
def test_unfolding_into_memory_of_its_own_gives_the_same(codec, name):
    content = SAMPLES[name]
    stored = memoryview(compress(codec, content))
    chance = random.Random(name)
    spoilt = []
    for _ in range(20):
        bad = bytearray(stored)
        if bad:
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        spoilt += [memoryview(bad), memoryview(bad)[: chance.randrange(len(bad) + 1)], memoryview(bytes(bad) + b"\0")]
    for each in (stored, *spoilt):
        for most in (len(content), max(len(content) - 1, 0), 10 * MIB):
            assert outcome_of(unfold, codec, each, most) == outcome_of(decompress, codec, each, most)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_is_large_has_memory_that_goes_back_at_once(codec):
    content, size = unfold(codec, memoryview(compress(codec, SAMPLES["zeros"])), 10 * MIB)
    assert isinstance(content, mmap.mmap)
    assert (size, content[:size]) == (3 * MIB, SAMPLES["zeros"])


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_pyarrow_reads_our_streams_and_we_read_its(codec):
    other = pyarrow.Codec(codec.name.lower())
    for name, content in SAMPLES.items():
        assert other.decompress(compress(codec, content), len(content), asbytes=True) == content, name
        assert decompress(codec, other.compress(content, asbytes=True), len(content)) == content, name


def test_raw_snappy_is_read_too():
    other = pyarrow.Codec("snappy")
    for content in SAMPLES.values():
        assert decompress(Codec.SNAPPY, other.compress(content, asbytes=True), len(content)) == content


def test_snappy_is_written_in_the_framing_of_java():
    content = SAMPLES["text"]
    stored = compress(Codec.SNAPPY, content)
    assert stored[:16] == XERIAL
    at, blocks = 16, []
    while at < len(stored):
        size = int.from_bytes(stored[at : at + 4])
        blocks.append(
            pyarrow.decompress(stored[at + 4 : at + 4 + size], min(32768, len(content) - 32768 * len(blocks)), "snappy")
        )
        at += 4 + size
    assert b"".join(bytes(block) for block in blocks) == content
    assert compress(Codec.SNAPPY, b"") == XERIAL


def test_lz4_is_written_in_independent_blocks_of_64_kib_as_java_reads_them():
    stored = compress(Codec.LZ4, SAMPLES["noise"] + SAMPLES["zeros"])
    assert stored[:7].hex() == "04224d18604082"
    assert stored[-4:] == bytes(4)
    # Noise is stored as it is: the highest bit of the block's length says so.
    assert int.from_bytes(stored[7:11], "little") == 65536 | 1 << 31


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
def test_lz4_frames_of_other_kinds_are_read(linked, checksum):
    compressor = cramjam.lz4.Compressor(level=4, content_checksum=checksum, block_linked=linked)
    content = SAMPLES["text"] + SAMPLES["noise"]
    compressor.compress(content)
    assert decompress(Codec.LZ4, bytes(compressor.finish()), len(content)) == content


def test_zstd_streams_without_a_stated_size_are_read():
    compressor = cramjam.zstd.Compressor(level=3)
    content = SAMPLES["text"] + SAMPLES["noise"] + SAMPLES["zeros"]
    for start in range(0, len(content), 100_000):
        compressor.compress(content[start : start + 100_000])
    stored = bytes(compressor.finish())
    assert stored[4] >> 6 == 0, "the frame header states the size, so this test shows nothing"
    assert decompress(Codec.ZSTD, stored, len(content)) == content
    with pytest.raises(BadLength):
        decompress(Codec.ZSTD, stored, len(content) - 1)


def test_several_zstd_frames_and_skippable_ones_are_one_stream():
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    stored = compress(Codec.ZSTD, b"left ") + skippable + compress(Codec.ZSTD, b"right")
    assert decompress(Codec.ZSTD, stored, 100) == b"left right"


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("name", ["one byte", "text", "noise"])
def test_a_stream_cut_anywhere_is_refused(codec, name):
    content = SAMPLES[name][:40_000]
    stored = compress(codec, content)
    cuts = range(len(stored)) if len(stored) < 2_000 else sorted(random.Random(1).sample(range(len(stored)), 300))
    for size in cuts:
        # Java's snappy framing has no end: cut between two blocks it is a shorter stream, and the record count tells.
        if codec is Codec.SNAPPY and size in (16, 20 + int.from_bytes(stored[16:20])):
            continue
        with pytest.raises(DecodeError) as caught:
            decompress(codec, stored[:size], len(content), 61)
        assert isinstance(caught.value, BadValue | BadLength), size
        assert caught.value.position == 61


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_bytes_behind_the_end_of_a_stream_are_refused(codec):
    stored = compress(codec, b"content")
    for tail in (b"\x00", b"trailing bytes"):
        with pytest.raises((BadValue, TrailingBytes)):
            decompress(codec, stored + tail, 1_000)
    if codec is not Codec.ZSTD:
        with pytest.raises(TrailingBytes, match="after the"):
            decompress(codec, stored + stored, 1_000)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_damaged_streams_raise_nothing_but_decode_errors(codec):
    draw = random.Random(int(codec))
    whole = [
        compress(codec, SAMPLES["text"][:3_000]),
        compress(codec, SAMPLES["noise"][:500] * 3),
        compress(codec, b"x"),
    ]
    refused = 0
    for _ in range(3_000):
        stored = bytearray(draw.choice(whole))
        for _ in range(draw.randint(1, 4)):
            stored[draw.randrange(len(stored))] = draw.randrange(256)
        try:
            assert len(decompress(codec, bytes(stored), 10_000)) <= 10_000
        except (BadValue, BadLength):
            refused += 1
    assert refused > 500


@pytest.mark.parametrize("codec", COMPRESSED)
def test_noise_and_nothing_are_no_streams(codec):
    draw = random.Random(3)
    for content in [b"", *(draw.randbytes(draw.randrange(1, 60)) for _ in range(300))]:
        # Raw snappy has no magic and no checksum, so some noise is a stream; the empty one is none.
        if codec is Codec.SNAPPY and content:
            with contextlib.suppress(BadValue, BadLength):
                decompress(codec, content, 1 << 16)
        else:
            with pytest.raises((BadValue, BadLength)):
                decompress(codec, content, 1 << 16)


def test_a_codec_that_does_not_exist_is_refused_both_ways():
    for codec in (5, 7, -1):
        with pytest.raises(UnknownCodec) as caught:
            decompress(codec, b"", 10, 61)
        assert caught.value.position == 61
        with pytest.raises(EncodeError):
            compress(codec, b"")


def zstd_bomb(size, *, window_log=20):
    """Repeat blocks of 128 KiB, four bytes each, behind a header that states no size."""
    blocks = size // (128 << 10)
    header = b"\x28\xb5\x2f\xfd\x00" + bytes([(window_log - 10) << 3])
    block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = ((128 << 10) << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\x00"
    return header + block * (blocks - 1) + last


def lz4_bomb(size):
    stored = compress(Codec.LZ4, bytes(64 << 10))
    return stored[:7] + stored[7:-4] * (size >> 16) + bytes(4)


def snappy_bomb(size):
    stored = compress(Codec.SNAPPY, bytes(32 << 10))
    return stored[:16] + stored[16:] * (size >> 15)


def gzip_bomb(size):
    import zlib

    deflater = zlib.compressobj(9, wbits=31)
    parts = [deflater.compress(bytes(MIB)) for _ in range(size // MIB)]
    return b"".join(parts) + deflater.flush()


BOMBS = {
    Codec.GZIP: lambda: gzip_bomb(512 * MIB),
    Codec.SNAPPY: lambda: snappy_bomb(256 * MIB),
    Codec.LZ4: lambda: lz4_bomb(1024 * MIB),
    Codec.ZSTD: lambda: zstd_bomb(4096 * MIB),
}

# The limit stands above what the process has before it decompresses: a codec that takes more cannot end in BadLength.
UNDER_A_MEMORY_LIMIT = textwrap.dedent(
    """
    import re, resource, sys
    from pathlib import Path
    from seamark.errors import BadLength
    from seamark.wire.records.compression import Codec, compress, decompress

    codec, allowed, headroom = Codec(int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
    decompress(codec, compress(codec, bytes(100_000)), 100_000)
    bomb = sys.stdin.buffer.read()
    used = int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text()).group(1)) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (used + headroom, resource.RLIM_INFINITY))
    try:
        decompress(codec, bomb, allowed)
    except BadLength as error:
        print("refused:", error)
    """
)


@pytest.mark.skipif(sys.platform != "linux", reason="address space limits hold on Linux only")
@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_decompression_bomb_is_refused_within_a_memory_limit(codec):
    allowed = 16 * MIB
    finished = subprocess.run(
        # Twice the allowed size, because the output is copied once, and room for what the codec itself needs.
        [sys.executable, "-c", UNDER_A_MEMORY_LIMIT, str(int(codec)), str(allowed), str(2 * allowed + 24 * MIB)],
        input=BOMBS[codec](),
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert finished.stdout.startswith(b"refused: records at byte 0"), finished.stderr.decode()[-600:]


def test_sizes_that_are_only_claimed_take_no_memory():
    claims = {
        Codec.SNAPPY: [
            b"\xff\xff\xff\xff\x0f\x00",
            XERIAL + b"\x00\x00\x00\x05\xff\xff\xff\x07\x00",
            XERIAL + b"\x7f\xff\xff\xff",
        ],
        Codec.ZSTD: [
            b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + b"\x01\x00\x00",
            zstd_bomb(128 << 10, window_log=31),
            b"\x50\x2a\x4d\x18\xff\xff\xff\xff",
        ],
        Codec.LZ4: [b"\x04\x22\x4d\x18\x60\x70\x73" + b"\xff\xff\xff\x7f"],
    }
    for codec, streams in claims.items():
        for stream in streams:
            with pytest.raises((BadLength, BadValue)):
                decompress(codec, stream, DEFAULT_MAX_DECOMPRESSED)


def test_gzip_of_the_standard_library_is_read():
    assert decompress(Codec.GZIP, gzip.compress(SAMPLES["text"]), len(SAMPLES["text"])) == SAMPLES["text"]
