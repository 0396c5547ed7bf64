"""What is known of the cluster and when it is asked for again."""

from seamark.client.cluster_view import NEVER, MetadataCache, Node
from seamark.client.timing import ExponentialBackoff
from seamark.topic_partition import TopicPartition
from seamark.wire.protocol.error_codes import ErrorCode
from seamark.wire.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

AGE = 300_000
ID, OTHER_ID = b"a" * 16, b"b" * 16


def cache(*topics):
    made = MetadataCache(AGE, ExponentialBackoff(100, 1000, jitter=0))
    made.want_topics(topics)
    return made


def topic(name, *leaders, epoch=0, topic_id=ID, error=0):
    partitions = [
        MetadataResponsePartition(
            partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2], isr_nodes=[1]
        )
        for index, leader in enumerate(leaders)
    ]
    return MetadataResponseTopic(name=name, topic_id=topic_id, error_code=error, partitions=partitions)


def answer(*topics, brokers=(1, 2)):
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host=f"host{n}", port=9092, rack=f"rack{n}") for n in brokers],
        controller_id=1,
        cluster_id="c",
        topics=list(topics),
    )


def test_an_empty_cache_is_due_at_once():
    assert cache().refresh_due_ms() <= 0


def test_one_request_is_outstanding_at_a_time():
    known = cache("t")
    known.request_sent()
    assert known.refresh_due_ms() == NEVER
    known.mark_stale()
    assert known.refresh_due_ms() == NEVER


def test_what_is_known_is_refreshed_when_it_reaches_its_age():
    known = cache("t")
    known.updated(answer(topic("t", 1)), 1000)
    assert known.refresh_due_ms() == 1000 + AGE


def test_an_error_makes_it_due_after_the_backoff_and_not_in_a_tight_loop():
    known = cache("t")
    known.updated(answer(topic("t", 1)), 1000)
    known.mark_stale()
    assert known.refresh_due_ms() == 1100


def test_failures_back_off_further_each_time_and_an_answer_ends_that():
    known = cache("t")
    for now, due in ((0, 100), (100, 300), (300, 700)):
        known.request_sent()
        known.request_failed(now)
        assert known.refresh_due_ms() == due
    known.updated(answer(topic("t", 1)), 800)
    assert known.refresh_due_ms() == 800 + AGE


def test_leaders_are_found_by_partition():
    known = cache("t")
    assert known.updated(answer(topic("t", 1, 2)), 0)
    assert known.view.leader(TopicPartition("t", 1)) == Node(2, "host2", 9092, "rack2")
    assert known.view.leader(TopicPartition("t", 2)) is None
    assert known.view.leader(TopicPartition("u", 0)) is None
    assert known.view.partitions_of("t") == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert known.view.partition_counts(["t", "u"]) == {"t": 2}
    assert known.view.replica_racks(["t"])[TopicPartition("t", 0)] == {"rack1", "rack2"}
    assert known.view.topic_name(ID) == "t"


def test_a_change_of_leaders_replaces_the_view_and_an_equal_answer_does_not():
    known = cache("t")
    known.updated(answer(topic("t", 1)), 0)
    before = known.view
    assert not known.updated(answer(topic("t", 1)), 10)
    assert known.view is before
    assert known.updated(answer(topic("t", 2, epoch=1)), 20)
    assert known.view.version == before.version + 1
    assert before.leader(TopicPartition("t", 0)).id == 1


def test_an_answer_of_an_older_leader_epoch_is_not_believed():
    known = cache("t")
    known.updated(answer(topic("t", 2, epoch=5)), 0)
    known.updated(answer(topic("t", 1, epoch=4)), 10)
    assert known.view.leader(TopicPartition("t", 0)).id == 2
    assert known.view.leader_epoch(TopicPartition("t", 0)) == 5


def test_a_topic_made_anew_starts_over_with_its_epochs():
    known = cache("t")
    known.updated(answer(topic("t", 2, epoch=5)), 0)
    known.updated(answer(topic("t", 1, epoch=0, topic_id=OTHER_ID)), 10)
    assert known.view.leader(TopicPartition("t", 0)).id == 1


def test_a_partition_without_a_leader_is_asked_about_again():
    known = cache("t")
    known.updated(answer(topic("t", 1, -1)), 1000)
    assert known.is_stale
    assert known.refresh_due_ms() == 1100


def test_a_topic_that_does_not_exist_is_known_by_its_error_and_asked_about_again():
    known = cache("t")
    known.updated(answer(topic("t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), 0)
    assert known.view.topics["t"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert known.refresh_due_ms() == 100
    known.drop_topics(["t"])
    assert known.refresh_due_ms() == AGE


def test_a_deleted_topic_loses_its_leaders():
    known = cache("t")
    known.updated(answer(topic("t", 1)), 0)
    known.updated(answer(topic("t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), 10)
    assert known.view.leader(TopicPartition("t", 0)) is None
    assert known.view.partition_counts(["t"]) == {}


def test_a_topic_nobody_wants_any_more_is_dropped_at_the_next_answer():
    known = cache("t", "u")
    known.updated(answer(topic("t", 1), topic("u", 1)), 0)
    assert not known.want_topics(["u"])
    known.updated(answer(topic("u", 1)), 10)
    assert set(known.view.topics) == {"u"}


def test_wanting_a_topic_that_is_not_known_makes_it_due():
    known = cache("t")
    known.updated(answer(topic("t", 1)), 0)
    assert known.add_topics(["u"])
    assert known.refresh_due_ms() == 100
    assert known.topics_to_request == ("t", "u")


def test_a_topic_that_is_wanted_while_a_request_is_under_way_is_asked_for_next():
    known = cache("t")
    known.request_sent()
    known.want_topics(["t", "u"])
    known.updated(answer(topic("t", 1)), 1000)
    assert known.refresh_due_ms() == 1100
    known.request_sent()
    known.updated(answer(topic("t", 1), topic("u", 1)), 2000)
    assert known.refresh_due_ms() == 2000 + AGE


def test_all_topics_that_are_wanted_while_a_request_is_under_way_are_asked_for_next():
    known = cache("t")
    known.request_sent()
    known.want_topics([], also_all=True)
    known.updated(answer(topic("t", 1)), 1000)
    assert known.refresh_due_ms() == 1100
    known.request_sent()
    known.want_topics(["u"], also_all=True)
    known.updated(answer(topic("t", 1)), 2000)
    assert known.refresh_due_ms() == 2000 + AGE


def test_wanting_all_topics_asks_for_all_and_forgets_those_that_are_gone():
    known = cache()
    known.want_topics((), also_all=True)
    assert known.topics_to_request is None
    known.updated(answer(topic("t", 1), topic("u", 1, topic_id=OTHER_ID)), 0)
    known.updated(answer(topic("u", 1, topic_id=OTHER_ID)), 10)
    assert set(known.view.topics) == {"u"}


def test_an_answer_on_the_side_refreshes_its_topics_and_leaves_the_clock_alone():
    known = cache("t")
    known.updated(answer(topic("t", 1)), 0)
    known.updated(answer(topic("u", 2, topic_id=OTHER_ID)), 500, is_complete=False)
    assert set(known.view.topics) == {"t", "u"}
    assert known.refresh_due_ms() == AGE
