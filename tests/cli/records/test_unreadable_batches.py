"""A batch that costs its reader too much, in a topic that a command reads: options to go on, and what was skipped."""

import pytest

from seamark.client import Consumer, TopicPartition
from tests.support.commands import command_runner
from tests.support.costly_batches import header_bomb, record_bomb
from tests.support.scripted_broker import ScriptedBroker

SENTENCE = "the record has 20000 headers, at most 10000 are allowed"


@pytest.fixture
def broker(monkeypatch):
    with ScriptedBroker(partitions=1) as broker:
        # Two records, two that cannot be read, one more, one that cannot be read.
        broker.logs = {
            0: record_bomb(2)
            + header_bomb(20_000, base_offset=2)
            + header_bomb(20_000, base_offset=3)
            + record_bomb(1, base_offset=4)
            + header_bomb(20_000, base_offset=5),
        }
        broker.ends = {0: 6}
        monkeypatch.setenv("SEAMARK_BOOTSTRAP", broker.bootstrap)
        yield broker


@pytest.fixture
def run(broker, capsys, monkeypatch):
    return command_runner(capsys, monkeypatch)


def places(out):
    return sorted(line.split()[0] for line in out.splitlines())


def test_consume_stops_with_the_options_that_go_on(run):
    ran = run("consume", "t")
    assert (ran.code, places(ran.out)) == (1, ["0:0", "0:1"])
    assert SENTENCE in ran.err
    assert ran.err.endswith(
        "Use --skip-unreadable to skip them, or -o record.max.headers=N with a larger N to read them\n"
    )
    assert "seek" not in ran.err


def test_consume_goes_on_behind_what_it_skips_and_says_each_stretch_once(run):
    ran = run("consume", "t", "--skip-unreadable")
    assert (ran.code, places(ran.out)) == (0, ["0:0", "0:1", "0:4"])
    first, second, last = ran.err.splitlines()
    assert first.startswith("seamark: t-0 is skipped from offset 2 on: their batch exceeds record.max.headers")
    assert second.startswith("seamark: t-0 is skipped from offset 5 on: ")
    assert last == "seamark: skipped because they cannot be read: t-0 from offset 2 to 3, t-0 at offset 5"


def test_a_member_commits_behind_what_it_skipped(run, broker):
    committed = {}
    ordinary = broker.offset_commit

    def note(request):
        for topic in request.topics:
            for each in topic.partitions:
                committed[each.partition_index] = each.committed_offset
        return ordinary(request)

    broker.answer("OffsetCommit", note)
    ran = run("consume", "t", "--group", "g", "--skip-unreadable")
    assert (ran.code, committed[0]) == (0, 6)


def test_dead_letters_are_listed_and_planned_without_the_ones_that_cannot_be_read(run):
    ran = run("dead-letters", "list", "t")
    assert ran.code == 0
    assert "skipped because they cannot be read: t-0 from offset 2 to 3, t-0 at offset 5" in ran.err
    assert ran.out.splitlines()[1].split()[:4] == ["t", "(no", "provenance)", "3"]


def test_the_memory_of_a_replay_does_not_pass_a_letter_that_could_not_be_read(broker):
    from seamark.cli.dead_letters.replay import Wanted, make_plan

    with Consumer(bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest") as reader:
        plan = make_plan(reader, "t", Wanted(), to=None, limit=0)
    assert plan.waiting[TopicPartition("t", 0)] == [0, 1, 2, 3, 4, 5]
    assert plan.left_out["in a batch that cannot be read"] == 3
