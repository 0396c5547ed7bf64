"""Scripts from a random seed: one member at a time does what members do, and much that they should not.

The next request depends on the seed and on the answers so far, so two brokers that answer alike get the same
requests. A group never has a second member, and nobody is left waiting for another: every request is answered at
once.
"""

from __future__ import annotations

import random
from typing import Any

from tests.conformance.differential.group_requests import (
    NOBODY,
    commit_fields,
    fetch_fields,
    join_fields,
    sync_fields,
)
from tests.conformance.differential.script import Recorder

STEPS = 150


class Life:
    """A group and what its last member knows."""

    def __init__(self, r: Recorder, rng: random.Random, group: str, topic: str) -> None:
        self.r = r
        self.rng = rng
        self.group = group
        self.topic = topic
        self.instance: str | None = None
        self.joined: Any = None
        self.old_ids: list[str] = []
        # A broker may show the state that a JoinGroup leads to a moment after its answer.
        self.is_shown = True

    def step(self) -> None:
        actions = [self.join, self.sync, self.sync, self.heartbeat, self.heartbeat, self.commit, self.commit,
                   self.fetch, self.leave, self.describe, self.delete, self.delete_offsets]  # fmt: skip
        self.rng.choice(actions)()

    def a_member(self) -> str:
        choices = [NOBODY, "", *self.old_ids[-2:]]
        if self.joined is not None:
            choices += [self.joined.member_id] * 6
        return self.rng.choice(choices)

    def a_generation(self) -> int:
        now = 0 if self.joined is None else self.joined.generation_id
        return self.rng.choice([now, now, now, now, now - 1, now + 1, -1, 0])

    def an_instance(self) -> str | None:
        return self.rng.choice([self.instance, self.instance, self.instance, None, "stranger"])

    def join(self) -> None:
        version = self.rng.randrange(10)
        fields = join_fields(self.group, "", version)
        if self.joined is not None:
            if self.instance is None:
                fields["member_id"] = self.joined.member_id
            else:
                version = max(version, 5)
                fields = join_fields(self.group, self.rng.choice(["", self.joined.member_id]), version)
                fields["group_instance_id"] = self.instance
        elif version >= 5 and self.rng.random() < 0.4:
            self.instance = "static"
            fields["group_instance_id"] = self.instance
        else:
            self.instance = None
        answer = self.r.ask("JoinGroup", version, "random", **fields)
        if answer.error_code == 79:
            fields["member_id"] = answer.member_id
            answer = self.r.ask("JoinGroup", version, "random, with its id", **fields)
        if answer.error_code == 0:
            if self.joined is not None and self.joined.member_id != answer.member_id:
                self.old_ids.append(self.joined.member_id)
            self.joined = answer
            self.is_shown = False

    def sync(self) -> None:
        if self.joined is None:
            return
        version = self.rng.randrange(6)
        fields = sync_fields(self.group, self.joined, version, {self.joined.member_id: b"mine"})
        fields |= {"member_id": self.a_member(), "generation_id": self.a_generation()}
        if version >= 3:
            fields["group_instance_id"] = self.an_instance()
        if self.r.ask("SyncGroup", version, "random", **fields).error_code == 0:
            self.is_shown = True

    def heartbeat(self) -> None:
        version = self.rng.randrange(5)
        fields: dict[str, Any] = {"group_id": self.group, "member_id": self.a_member()}
        fields["generation_id"] = self.a_generation()
        if version >= 3:
            fields["group_instance_id"] = self.an_instance()
        self.r.ask("Heartbeat", version, "random", **fields)

    def commit(self) -> None:
        version = self.rng.randrange(2, 10)
        partitions = self.rng.sample(range(4), self.rng.randint(1, 3))
        more: dict[str, Any] = {"offset": self.rng.randrange(1000)}
        if self.rng.random() < 0.7:
            more |= {"generation_id_or_member_epoch": self.a_generation(), "member_id": self.a_member()}
        if version >= 7:
            more["group_instance_id"] = self.an_instance()
        self.r.ask(
            "OffsetCommit", version, "random", **commit_fields(self.group, self.topic, version, *partitions, **more)
        )

    def fetch(self) -> None:
        version = self.rng.randrange(2, 10)
        wanted = self.rng.choice([None, {self.topic: [0, 1, 2, 3]}])
        self.r.ask("OffsetFetch", version, "random", **fetch_fields(self.group, version, wanted))

    def leave(self) -> None:
        version = self.rng.randrange(6)
        member = self.a_member()
        fields: dict[str, Any] = {"member_id": member}
        if version >= 3:
            instance = self.an_instance()
            fields = {"members": [{"member_id": member, "group_instance_id": instance}]}
        answer = self.r.ask("LeaveGroup", version, "random", group_id=self.group, **fields)
        codes = [each.error_code for each in answer.members] or [answer.error_code]
        if self.joined is not None and codes == [0]:
            self.old_ids.append(self.joined.member_id)
            self.joined = None
            self.is_shown = True

    def describe(self) -> None:
        if self.is_shown:
            self.r.ask("DescribeGroups", self.rng.randrange(7), "random", groups=[self.group])

    def delete(self) -> None:
        self.r.ask("DeleteGroups", self.rng.randrange(3), "random", groups_names=[self.group])

    def delete_offsets(self) -> None:
        partitions = [{"partition_index": each} for each in self.rng.sample(range(5), 2)]
        topics = [{"name": self.rng.choice([self.topic, "absent"]), "partitions": partitions}]
        self.r.ask("OffsetDelete", 0, "random", group_id=self.group, topics=topics)


def random_life(r: Recorder, seed: int) -> None:
    """``STEPS`` random steps in two groups."""
    rng = random.Random(seed)
    topic = r.create_topic("random", 3)
    groups = [r.name("one"), r.name("two")]
    r.coordinate(*groups)
    lives = [Life(r, rng, group, topic) for group in groups]
    for _ in range(STEPS):
        rng.choice(lives).step()
