"""The oldest forms of the offset requests, byte for byte as another client writes them.

kio, the oracle of all other versions, begins at OffsetCommit 2 and OffsetFetch 1; kafka-python has those before.
"""

from __future__ import annotations

import warnings

from hypothesis import given
from hypothesis import strategies as st

from seamark.wire.protocol.messages import offset_commit as commit_api
from seamark.wire.protocol.messages import offset_fetch as fetch_api
from seamark.wire.schema.codec import decode, encode

with warnings.catch_warnings():
    # It reads its own files in a way that Python no longer likes.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.consumer import OffsetCommitRequest as TheirCommit
    from kafka.protocol.consumer import OffsetCommitResponse as TheirCommitted
    from kafka.protocol.consumer import OffsetFetchRequest as TheirFetch
    from kafka.protocol.consumer import OffsetFetchResponse as TheirFetched

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_CODE = st.integers(-1, 120)
_COMMITTED = st.tuples(_INT32, _INT64, st.none() | _TEXT, _INT64)


def topics_of(entries):
    return st.lists(st.tuples(_TEXT, st.lists(entries, max_size=3)), max_size=3)


def _same(ours, theirs, version):
    written = encode(ours, version)
    assert written == bytes(theirs.encode(version=version))
    assert encode(decode(type(ours), written, version), version) == written


# covers: A17, G3
@given(_TEXT, topics_of(_COMMITTED), st.sampled_from([0, 1]), _INT32, _TEXT)
def test_commits_in_versions_0_and_1_are_the_bytes_of_another_client(group, topics, version, generation, member):
    identity = {"generation_id_or_member_epoch": generation, "member_id": member} if version else {}

    def ours(partition, offset, metadata, timestamp):
        made = commit_api.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        if version:
            made.commit_timestamp = timestamp
        return made

    topic_of = TheirCommit.OffsetCommitRequestTopic
    partition_of = topic_of.OffsetCommitRequestPartition

    def theirs(partition, offset, metadata, timestamp):
        more = {"commit_timestamp": timestamp} if version else {}
        return partition_of(partition_index=partition, committed_offset=offset, committed_metadata=metadata, **more)

    _same(
        commit_api.OffsetCommitRequest(
            group_id=group,
            topics=[
                commit_api.OffsetCommitRequestTopic(name=name, partitions=[ours(*each) for each in entries])
                for name, entries in topics
            ],
            **identity,
        ),
        TheirCommit(
            version=version,
            group_id=group,
            topics=[topic_of(name=name, partitions=[theirs(*each) for each in entries]) for name, entries in topics],
            **identity,
        ),
        version,
    )


# covers: A18, G4
@given(_TEXT, topics_of(_INT32))
def test_fetches_in_version_0_are_the_bytes_of_another_client(group, topics):
    topic_of = TheirFetch.OffsetFetchRequestTopic
    _same(
        fetch_api.OffsetFetchRequest(
            group_id=group,
            topics=[fetch_api.OffsetFetchRequestTopic(name=name, partition_indexes=some) for name, some in topics],
        ),
        TheirFetch(
            version=0, group_id=group, topics=[topic_of(name=name, partition_indexes=some) for name, some in topics]
        ),
        0,
    )


@given(topics_of(st.tuples(_INT32, _CODE)), st.sampled_from([0, 1]))
def test_answers_to_commits_are_the_bytes_of_another_client(topics, version):
    topic_of = TheirCommitted.OffsetCommitResponseTopic
    partition_of = topic_of.OffsetCommitResponsePartition
    _same(
        commit_api.OffsetCommitResponse(
            topics=[
                commit_api.OffsetCommitResponseTopic(
                    name=name,
                    partitions=[
                        commit_api.OffsetCommitResponsePartition(partition_index=partition, error_code=code)
                        for partition, code in entries
                    ],
                )
                for name, entries in topics
            ]
        ),
        TheirCommitted(
            version=version,
            topics=[
                topic_of(
                    name=name,
                    partitions=[partition_of(partition_index=each, error_code=code) for each, code in entries],
                )
                for name, entries in topics
            ],
        ),
        version,
    )


@given(topics_of(st.tuples(_INT32, _INT64, st.none() | _TEXT, _CODE)))
def test_answers_to_fetches_in_version_0_are_the_bytes_of_another_client(topics):
    topic_of = TheirFetched.OffsetFetchResponseTopic
    partition_of = topic_of.OffsetFetchResponsePartition
    names = ("partition_index", "committed_offset", "metadata", "error_code")
    _same(
        fetch_api.OffsetFetchResponse(
            topics=[
                fetch_api.OffsetFetchResponseTopic(
                    name=name,
                    partitions=[
                        fetch_api.OffsetFetchResponsePartition(**dict(zip(names, each, strict=True)))
                        for each in entries
                    ],
                )
                for name, entries in topics
            ]
        ),
        TheirFetched(
            version=0,
            topics=[
                topic_of(
                    name=name, partitions=[partition_of(**dict(zip(names, each, strict=True))) for each in entries]
                )
                for name, entries in topics
            ],
        ),
        0,
    )
