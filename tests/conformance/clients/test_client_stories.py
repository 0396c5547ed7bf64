"""One story, four clients of others: each runs it whole against our broker, over real processes and sockets.

A topic is made and filled in every codec. Three members share it, one leaves, one is killed; what they commit is where
the next one goes on. A static member comes back to its place without a rebalance. Then an administrator describes,
resets and deletes. Each assignor that the client has gets the part about membership.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial, update_wrapper
from inspect import Parameter, signature
from itertools import chain

import pytest

from seamark import Broker
from seamark.client import Admin
from tests.conformance.clients.program import ClientHung, ClientProgram, ProgramFailed
from tests.conftest import TOLD_AGAIN
from tests.support.broker_driver import fresh_name
from tests.support.waiting import eventually

PARTITIONS = 6
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# kafka-python takes its other codecs from packages that are not installed with it.
CODECS_OF = {"kafka_python": ("none", "gzip")}
ASSIGNORS = {
    "confluent": ("range", "roundrobin", "cooperative-sticky"),
    "kafka_python": ("range", "roundrobin", "sticky"),
    "aiokafka": ("range", "roundrobin", "sticky"),
    "java": ("range", "roundrobin", "sticky", "cooperative-sticky"),
}
CLIENTS = [pytest.param(name, marks=[pytest.mark.java] if name == "java" else []) for name in ASSIGNORS]
MEMBERSHIPS = [
    pytest.param(client, assignor, marks=[pytest.mark.java] if client == "java" else [], id=f"{client}-{assignor}")
    for client, assignors in ASSIGNORS.items()
    for assignor in assignors
]
# Short enough to wait for a dead one. A starved client may lose its place by it; it then comes back, and the story
# goes on: nothing in it counts rebalances, and what is committed is asked of the group.
SESSION_MS = 3_000
LONG_SESSION_MS = 45_000
# What clients say, each in its words, when they commit as members of a generation that is over.
ON_THE_MOVE = re.compile("(?i)rebalance_?in_?progress|unknown_?member_?id|illegal_?generation|commit_?failed")


# More proven hangs than this in one run are no accident any more, whoever's fault they are.
MOST_HANGS = 2
_hangs: list[str] = []


def told_again_if_the_client_hangs(story: Callable[..., None]) -> Callable[..., None]:
    """A client that provably waits for itself says nothing about the broker; the story begins anew, once.

    It is kept with the test's report and shown at the end of the run. Nothing else is forgiven: a client that is only
    slow, or waits for an answer, fails its story.
    """

    def told(*, record_property: Callable[[str, object], None], **fixtures: object) -> None:
        try:
            story(**fixtures)
        except ClientHung as hang:
            _hangs.append(str(hang))
            record_property(TOLD_AGAIN, str(hang))
            if len(_hangs) > MOST_HANGS:
                pytest.fail(f"{len(_hangs)} clients hung in this run, more than {MOST_HANGS}; the last one:\n{hang}")
            story(**fixtures)

    update_wrapper(told, story)
    reported = Parameter("record_property", Parameter.KEYWORD_ONLY)
    told.__signature__ = signature(story).replace(parameters=[*signature(story).parameters.values(), reported])
    return told


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
    with Broker(nodes=2, settings=settings) as running:
        yield running


@pytest.fixture
def start(broker: Broker) -> Iterator[Callable[[str], ClientProgram]]:
    """Processes of one client, ended with the test."""
    with ExitStack() as running:
        yield lambda client: running.enter_context(ClientProgram(client, broker.bootstrap))


def scene_of(broker: Broker, group: str, *members: ClientProgram) -> str:
    """What each member says of itself, and the broker of them all."""
    lines = [f"member {number}: {_own_words(member)}" for number, member in enumerate(members)]
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        described = admin.describe_groups([group])[group]
    lines.append(f"the broker: {described.state}, led by {described.coordinator}")
    lines += [f"  {member}" for member in described.members]
    return "\n".join(lines)


def _own_words(member: ClientProgram) -> str:
    try:
        status = member.ask("status", seconds=10)
    except ProgramFailed as failure:
        return str(failure)
    return str(status | {"read": len(status["read"])})


def owned(member: ClientProgram) -> list[int]:
    return member.ask("status")["owned"]


def is_shared_out(*members: ClientProgram) -> bool:
    """Each partition has one owner and each member has some."""
    each_owned = [owned(member) for member in members]
    return all(each_owned) and sorted(chain(*each_owned)) == list(range(PARTITIONS))


def values_of(*members: ClientProgram) -> list[str]:
    return [value for member in members for value in member.ask("status")["read"]]


def commit(member: ClientProgram) -> None:
    """Commit what the member is at, or nothing while its group is on the move: a member learns that when it commits."""
    try:
        member.ask("commit")
    except ProgramFailed as failure:
        if not ON_THE_MOVE.search(str(failure)):
            raise


def is_committed(offset: int, group: str, topic: str, *members: ClientProgram) -> bool:
    """Each partition is committed there, whoever of the members owned it when: asked of the group, not of each."""
    for member in members:
        commit(member)
    return members[0].ask("offsets", group=group, topic=topic) == {str(each): offset for each in range(PARTITIONS)}


@pytest.mark.parametrize("client", CLIENTS)
@told_again_if_the_client_hangs
def test_what_is_written_in_each_codec_is_read_by_the_group(client, start, broker):
    office, member = start(client), start(client)
    topic, group = fresh_name(), fresh_name()
    scene = partial(scene_of, broker, group, member)
    office.ask("create", topic=topic, partitions=PARTITIONS)
    assert topic in office.ask("topics")
    written = []
    for codec in CODECS_OF.get(client, CODECS):
        values = [f"{codec}-{number}-ü" * 20 for number in range(100)]
        office.ask("produce", topic=topic, codec=codec, values=values)
        written += values
    member.ask("join", group=group, topic=topic, assignor="range", instance=None, session_ms=LONG_SESSION_MS)
    eventually(lambda: len(values_of(member)) >= len(written), "everything was read", scene=scene)
    assert sorted(values_of(member)) == sorted(written)


@pytest.mark.parametrize(("client", "assignor"), MEMBERSHIPS)
@told_again_if_the_client_hangs
def test_a_group_of_three_loses_one_that_leaves_and_one_that_crashes(client, assignor, start, broker):
    topic, group = fresh_name(), fresh_name()
    members = [start(client) for _ in range(3)]
    scene = partial(scene_of, broker, group, *members)
    members[0].ask("create", topic=topic, partitions=PARTITIONS)
    first_half = [f"first-{number}" for number in range(60)]
    members[0].ask("produce", topic=topic, codec="none", values=first_half)

    def join(member: ClientProgram, session_ms: int) -> None:
        member.ask("join", group=group, topic=topic, assignor=assignor, instance=None, session_ms=session_ms)

    stays, leaves, dies = members
    for member in members:
        join(member, SESSION_MS if member is dies else LONG_SESSION_MS)
    eventually(lambda: is_shared_out(*members), "three share the partitions", scene=scene)
    eventually(lambda: set(values_of(*members)) == set(first_half), "the first half was read", scene=scene)
    # An owner of the last generation may still be reading what an earlier owner has read.
    eventually(lambda: is_committed(10, group, topic, *members), "everything is committed", scene=scene)
    leaves.ask("leave")
    eventually(lambda: is_shared_out(stays, dies), "two share the partitions", scene=scene)
    dies.kill()
    eventually(lambda: is_shared_out(stays), "the last one has all partitions", scene=scene)
    second_half = [f"second-{number}" for number in range(60)]
    before = len(values_of(stays))
    stays.ask("produce", topic=topic, codec="none", values=second_half)
    eventually(lambda: len(values_of(stays)) >= before + 60, "the second half was read", scene=scene)
    # What was committed is not read again, by whomever it was committed.
    assert sorted(values_of(stays)[before:]) == sorted(second_half)
    eventually(lambda: is_committed(20, group, topic, stays), "the rest is committed", scene=scene)


@pytest.mark.parametrize("client", CLIENTS)
@told_again_if_the_client_hangs
def test_a_static_member_that_was_killed_comes_back_to_its_place(client, start, broker):
    topic, group = fresh_name(), fresh_name()
    broker.create_topic(topic, PARTITIONS)
    one, two = start(client), start(client)
    scene = partial(scene_of, broker, group, one, two)

    def join(member: ClientProgram, instance: str) -> None:
        member.ask("join", group=group, topic=topic, assignor="range", instance=instance, session_ms=LONG_SESSION_MS)

    join(one, "one")
    join(two, "two")
    eventually(lambda: is_shared_out(one, two), "two static members", scene=scene)
    place, other_place = owned(two), owned(one)
    two.kill()
    back = start(client)
    scene = partial(scene_of, broker, group, one, back)
    join(back, "two")
    eventually(lambda: owned(back) == place, "the place is taken up again", scene=scene)
    assert owned(one) == other_place
    assert back.ask("describe", group=group) == {"state": "Stable", "members": 2}


@pytest.mark.parametrize("client", CLIENTS)
@told_again_if_the_client_hangs
def test_commits_are_resumed_from_described_reset_and_deleted(client, start, broker):
    topic, group = fresh_name(), fresh_name()
    office, member = start(client), start(client)
    office.ask("create", topic=topic, partitions=PARTITIONS)
    office.ask("produce", topic=topic, codec="none", values=[str(number) for number in range(60)])
    membership = {"group": group, "topic": topic, "assignor": "range", "instance": None, "session_ms": LONG_SESSION_MS}
    member.ask("join", **membership)
    scene = partial(scene_of, broker, group, member)
    eventually(lambda: len(values_of(member)) >= 60, "everything was read", scene=scene)
    member.ask("commit")
    assert office.ask("describe", group=group) == {"state": "Stable", "members": 1}
    member.ask("leave")
    eventually(lambda: office.ask("describe", group=group)["state"] == "Empty", "the group is empty", scene=scene)
    assert office.ask("offsets", group=group, topic=topic) == {str(each): 10 for each in range(PARTITIONS)}
    office.ask("reset", group=group, topic=topic, partition=2, offset=4)
    resumed = start(client)
    resumed.ask("join", **membership)
    scene = partial(scene_of, broker, group, resumed)
    eventually(lambda: len(values_of(resumed)) >= 6, "the records behind the reset were read", scene=scene)
    assert sorted(values_of(resumed)) == sorted(str(number * PARTITIONS + 2) for number in range(4, 10))
    resumed.ask("leave")
    if client != "aiokafka":
        office.ask("delete_group", group=group)
        # A group that is not there has no offsets; what describing it says depends on the client.
        assert office.ask("offsets", group=group, topic=topic) == {}
    office.ask("delete_topic", topic=topic)
    eventually(lambda: topic not in office.ask("topics"), "the topic is gone")
    with pytest.raises(ProgramFailed):
        office.ask("delete_topic", topic=topic)
