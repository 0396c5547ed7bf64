"""The poller goes on looking whatever a look came to: foreseen or not, in the scan or in what is done with it."""

import threading
import time

import pytest

from seamark import Broker
from seamark.cli.exporter_command import page
from seamark.client import Admin
from seamark.client.errors import ConnectionFailed
from seamark.monitor import poller as poller_module
from seamark.monitor.poller import Poller
from seamark.monitor.scan import Scan
from seamark.monitor.watching import Watching
from seamark.topic_partition import TopicPartition


class Looks:
    """What each look in turn comes to: an exception that is raised, or a scan; the last one is repeated."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.made = 0
        self.is_over = threading.Event()

    def __call__(self, admin, groups, *, reset, whole_topics):
        outcome = self.outcomes[min(self.made, len(self.outcomes) - 1)]
        self.made += 1
        if self.made >= len(self.outcomes):
            self.is_over.set()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@pytest.fixture
def seen_in_turn(monkeypatch):
    def install(*outcomes):
        looks = Looks(*outcomes)
        monkeypatch.setattr(poller_module, "scan", looks)
        return looks

    return install


EMPTY = Scan((), {})


@pytest.mark.parametrize("unforeseen", [KeyError("orders"), ValueError("half a frame"), RuntimeError("")])
def test_an_exception_that_nobody_foresaw_leaves_the_thread_looking(seen_in_turn, unforeseen):
    looks = seen_in_turn(EMPTY, unforeseen, EMPTY)
    recovered = threading.Event()
    errors = []

    def on_look(look):
        errors.append(poller.seen.error)
        if len(errors) == 2:
            recovered.set()

    poller = Poller(None, every=0.1, on_look=on_look)
    poller.start()
    assert recovered.wait(30)
    poller.close(30)
    assert looks.made >= 3
    assert errors[:2] == [None, None]
    assert (poller.seen.failures, poller.seen.look is not None) == (1, True)


def test_its_kind_and_text_are_the_clusters_error_beside_the_last_good_look(seen_in_turn):
    seen_in_turn(EMPTY, KeyError("orders"))
    poller = Poller(None)
    poller.look_once()
    good = poller.seen.look
    poller.look_once()
    assert poller.seen.look is good
    assert poller.seen.error == "unexpected KeyError: 'orders'"
    assert (poller.seen.looks, poller.seen.failures) == (1, 1)


def test_a_foreseen_error_is_told_by_its_own_sentence(seen_in_turn):
    seen_in_turn(ConnectionFailed("broker:9092", "cannot be reached"), EMPTY)
    poller = Poller(None)
    poller.look_once()
    assert poller.seen.error == str(ConnectionFailed("broker:9092", "cannot be reached"))
    poller.look_once()
    assert poller.seen.error is None


def test_a_look_that_cannot_be_taken_up_stands_with_the_reason_beside_it(seen_in_turn):
    seen_in_turn(EMPTY)

    def refuse(look):
        raise OSError(28, "No space left on device")

    poller = Poller(None, on_look=refuse)
    poller.look_once()
    assert poller.seen.look is not None
    assert poller.seen.error == "unexpected OSError: [Errno 28] No space left on device"
    poller.look_once()
    assert (poller.seen.looks, poller.seen.failures) == (2, 2)


def test_the_trace_of_what_nobody_foresaw_is_in_the_log_and_that_of_an_end_is_not(seen_in_turn, caplog):
    seen_in_turn(KeyError("orders"))
    poller = Poller(None)
    poller.look_once()
    (line,) = caplog.records
    assert line.exc_info[0] is KeyError
    caplog.clear()
    poller.close()
    poller.look_once()
    assert caplog.records == []


@pytest.mark.parametrize("step", [-3600.0, 3600.0])
def test_a_clock_that_is_set_to_another_time_stops_no_look_and_makes_none_look_old(monkeypatch, step):
    """Looks are compared by how long they are apart, which the clock on the wall does not know."""
    wall = [1_700_000_000.0]
    monkeypatch.setattr(time, "time", lambda: wall[0])
    partition = TopicPartition("one", 0)
    with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        poller = Poller(admin, every=15.0, watching=Watching(looks=3))
        broker.create_topic("one")
        admin.alter_group_offsets("before", {partition: 0})
        for _ in range(3):
            poller.look_once()
        wall[0] += step
        assert page(poller, "/healthz", 15.0).body == "ok\n"
        # What was not there before the step is looked at as well.
        admin.alter_group_offsets("behind", {partition: 0})
        for _ in range(4):
            poller.look_once()
    assert (poller.seen.failures, poller.seen.error, poller.seen.looks) == (0, None, 7)
    assert 0 <= poller.seen.look.age < 60
