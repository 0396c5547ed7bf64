"""Reading a checkpoint directory: batches, sources of either kind, and everything that is not one."""

import json

import pytest

from seamark.client import TopicPartition
from seamark.spark.errors import BadCheckpoint
from seamark.spark.read.checkpoint import Checkpoint, NotKafka, kafka_source
from tests.support.checkpoints import OURS, SPARKS, checkpoint


def test_batches_are_planned_and_done(tmp_path):
    directory = checkpoint(tmp_path, {4: [SPARKS], 5: [SPARKS], 6: [SPARKS]}, done=[4, 5], query="q-1")
    (directory / "offsets" / ".4.crc").write_bytes(b"\x00")
    (directory / "offsets" / "7.tmp").write_text("half")
    found = Checkpoint.open(str(directory))
    assert (found.query_id, found.planned, found.done) == ("q-1", [4, 5, 6], [4, 5])
    assert found.last_done().number == 5
    assert [found.batch(number).is_done for number in (4, 6)] == [True, False]
    assert found.batch(4).planned_ms == 1_700_000_000_000


def test_a_commit_without_its_offsets_does_not_count(tmp_path):
    directory = checkpoint(tmp_path, {4: [SPARKS]}, done=[3, 4])
    assert Checkpoint.open(directory).done == [4]


def test_offsets_of_sparks_source_and_of_ours_are_read(tmp_path):
    directory = checkpoint(tmp_path, {0: [SPARKS, OURS]}, done=[0])
    batch = Checkpoint.open(f"file://{directory}").batch(0)
    assert batch.sources["0"].next_offsets() == {TopicPartition("a", 0): 5, TopicPartition("a", 1): 0}
    ours = batch.sources["1"]
    assert ours.next_offsets() == {TopicPartition("b", 0): 9}
    assert (ours.query, ours.topic_id("b")) == ("q-2", "ab" * 16)


def test_the_second_version_names_its_sources(tmp_path):
    directory = checkpoint(tmp_path, {0: [SPARKS]}, done=[0])
    lines = ["v2", "{}", f"left:{json.dumps(SPARKS)}", "right:-"]
    (directory / "offsets" / "0").write_text("\n".join(lines))
    batch = Checkpoint.open(directory).batch(0)
    assert list(batch.sources) == ["left", "right"]
    assert batch.sources["right"] is None
    assert kafka_source(batch, None, directory)[0] == "left"


@pytest.mark.parametrize("other", ['{"logOffset":3}', "42", '{"seamark": 99}', "no json", "null"])
def test_sources_of_another_kind_are_told_apart(tmp_path, other):
    directory = checkpoint(tmp_path, {0: [SPARKS]}, done=[0])
    (directory / "offsets" / "0").write_text(f"v1\n{{}}\n{other}\n{json.dumps(SPARKS)}\n-")
    batch = Checkpoint.open(directory).batch(0)
    assert isinstance(batch.sources["0"], NotKafka)
    assert kafka_source(batch, None, directory)[0] == "1"
    with pytest.raises(BadCheckpoint, match="source 0 of batch 0: "):
        kafka_source(batch, "0", directory)
    with pytest.raises(BadCheckpoint, match="source 2 has read nothing"):
        kafka_source(batch, "2", directory)


def test_several_kafka_sources_must_be_chosen_from(tmp_path):
    directory = checkpoint(tmp_path, {0: [SPARKS, OURS]}, done=[0])
    batch = Checkpoint.open(directory).batch(0)
    with pytest.raises(BadCheckpoint, match=r"several Kafka sources, choose one: 0 \(topics a\), 1 \(topics b\)"):
        kafka_source(batch, None, directory)
    assert kafka_source(batch, "1", directory)[1].topics.keys() == {"b"}
    with pytest.raises(BadCheckpoint, match="has no source '7', only 0"):
        kafka_source(batch, "7", directory)


def test_a_query_without_kafka_has_nothing_to_tell(tmp_path):
    directory = checkpoint(tmp_path, {0: [SPARKS]}, done=[0])
    (directory / "offsets" / "0").write_text('v1\n{}\n{"logOffset":3}')
    with pytest.raises(BadCheckpoint, match=r"has no Kafka source: .*another source"):
        kafka_source(Checkpoint.open(directory).batch(0), None, directory)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("v3\n{}\n{}", "has version 'v3'; v1 and v2 are supported"),
        ("", "has version ''"),
        ("v1\n{}", "truncated"),
        ("v2\n{}\nno name", "line 3: the name of the source is missing"),
    ],
)
def test_a_file_of_another_version_or_cut_short_is_named(tmp_path, text, words):
    directory = checkpoint(tmp_path, {0: [SPARKS]}, done=[0])
    (directory / "offsets" / "0").write_text(text)
    with pytest.raises(BadCheckpoint, match=words) as raised:
        Checkpoint.open(directory).batch(0)
    assert str(directory / "offsets" / "0") in str(raised.value)


def test_bytes_that_are_no_text_are_named(tmp_path):
    directory = checkpoint(tmp_path, {0: [SPARKS]}, done=[0])
    (directory / "offsets" / "0").write_bytes(b"v1\n\xff\xfe")
    with pytest.raises(BadCheckpoint, match="is not text"):
        Checkpoint.open(directory).batch(0)


def test_directories_that_are_no_checkpoint_are_named(tmp_path):
    for name, words in [
        ("nothing", "no such directory"),
        ("empty", "has no directory 'offsets'"),
        ("new", "has planned no batch yet"),
        ("s3://bucket/checkpoint", "must be a directory on this machine"),
        ("hdfs://host/checkpoint", "must be a directory on this machine"),
    ]:
        (tmp_path / "empty").mkdir(exist_ok=True)
        (tmp_path / "new" / "offsets").mkdir(parents=True, exist_ok=True)
        with pytest.raises(BadCheckpoint, match=words):
            Checkpoint.open(name if "://" in name else tmp_path / name)


def test_a_checkpoint_whose_first_batch_runs_has_nothing_to_commit(tmp_path):
    directory = checkpoint(tmp_path, {0: [SPARKS]}, done=[])
    found = Checkpoint.open(directory)
    with pytest.raises(BadCheckpoint, match="no batch is done yet"):
        found.last_done()
    with pytest.raises(BadCheckpoint, match="has no batch 3: it has 0 to 0"):
        found.batch(3)


def test_a_checkpoint_without_an_id_can_be_read(tmp_path):
    directory = checkpoint(tmp_path, {0: [SPARKS]}, done=[0])
    (directory / "metadata").write_text("half {")
    assert Checkpoint.open(directory).query_id == ""
