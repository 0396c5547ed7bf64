"""A member that ends while the coordinator still holds its join back: it leaves at once, and the group forgets it.

Another member that heartbeats and does not poll keeps the rebalance open, so that JoinGroup is not answered before
anything that is looked at here is over.
"""

import asyncio

import pytest

from seamark.client import AsyncConsumer
from seamark.client.admin.types import NewTopic
from seamark.parallel import ParallelConsumer
from tests.support.consumers import QUICK, Consumers, poll_all
from tests.support.waiting import eventually

# Until then the member that does not poll holds the rebalance up: far more than the time that any close here has.
HELD_UP_MS = 300_000


@pytest.fixture
def group(kafka_like, admin, fresh_name):
    """A topic, a group whose one member does not poll any more, and who is in it."""
    made = Group(kafka_like.bootstrap, admin, fresh_name("topic"), fresh_name("group"))
    yield made
    made.consumers.close()


class Group:
    def __init__(self, bootstrap, admin, topic, name):
        self.bootstrap, self.topic, self.name = bootstrap, topic, name
        self._admin = admin
        self.consumers = Consumers(bootstrap)
        admin.create_topics([NewTopic(topic, 1, 1)]).raise_if_failed()
        self.first = self.consumers.add(name, [topic], max_poll_interval_ms=HELD_UP_MS)
        poll_all([self.first], lambda: len(self.first.assignment()) == 1)

    def members(self):
        return {member.member_id for member in self._admin.describe_groups([self.name])[self.name].members}

    @property
    def config(self):
        return {**QUICK, "bootstrap.servers": self.bootstrap, "group.id": self.name}

    def is_joined_by_another(self):
        return len(self.members()) == 2

    def has_only_the_first(self):
        return self.members() == {self.first.group_metadata().member_id}


def test_close_leaves_the_group_while_the_join_is_held_back(group):
    joining = group.consumers.add(group.name, [group.topic])
    poll_all([joining], group.is_joined_by_another)
    joining.close()
    assert group.has_only_the_first(), "LeaveGroup waited behind the JoinGroup that is not answered"


def test_an_awaited_close_leaves_the_group_while_the_join_is_held_back(group):
    async def join_and_close():
        joining = AsyncConsumer(group.config)
        await joining.subscribe([group.topic])
        while not await asyncio.to_thread(group.is_joined_by_another):
            await joining.poll(0.05)
        await joining.close()

    asyncio.run(join_and_close())
    assert group.has_only_the_first()


def test_a_parallel_consumer_that_stops_leaves_the_group_while_the_join_is_held_back(group):
    joining = ParallelConsumer(group.config, [group.topic], print).start()
    eventually(group.is_joined_by_another, "the join")
    joining.stop()
    assert group.has_only_the_first()


def test_a_member_that_unsubscribes_while_its_join_is_held_back_can_subscribe_again(group):
    joining = group.consumers.add(group.name, [group.topic])
    poll_all([joining], group.is_joined_by_another)
    [before] = group.members() - {group.first.group_metadata().member_id}
    joining.unsubscribe()
    eventually(group.has_only_the_first, "the end of the membership")
    joining.subscribe([group.topic])
    poll_all([joining], group.is_joined_by_another)
    assert before not in group.members()
    joining.close()
