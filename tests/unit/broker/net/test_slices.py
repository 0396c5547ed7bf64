"""Long answers: elements are made while they are written, and pieces are put together to few."""

from __future__ import annotations

from seamark.broker.net.slices import Chunks, counted_lazily, lazily
from seamark.wire.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from seamark.wire.schema.codec import encode, encode_in_steps


def test_elements_are_made_while_they_are_written() -> None:
    made: list[int] = []

    def partition(number: int) -> MetadataResponsePartition:
        made.append(number)
        return MetadataResponsePartition(partition_index=number, replica_nodes=[1], isr_nodes=[1])

    lazy = MetadataResponseTopic(name="t", partitions=lazily(partition, range(5)))
    response = MetadataResponse(topics=counted_lazily(1, iter([lazy])))
    pieces: list[bytes] = []
    seen = [len(made) for _ in encode_in_steps(response, 13, pieces.append)]
    assert seen[:5] == [1, 2, 3, 4, 5]
    whole = MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=[partition(n) for n in range(5)])])
    assert b"".join(pieces) == encode(whole, 13)


def test_many_small_pieces_become_few_and_a_large_one_is_not_copied() -> None:
    chunks = Chunks()
    records = memoryview(bytes(100_000))
    for number in range(20_000):
        chunks.pieces.append(b"x")
        if number == 9000:
            chunks.pieces.append(records)
        chunks.join(1000)
    written = chunks.behind(b"head")
    assert chunks.size == 120_000
    assert len(written) < 30
    assert any(piece is records for piece in written)
    assert b"".join(written) == b"head" + b"x" * 9001 + records + b"x" * 10_999
