"""What an owner concludes about the calls of a process: true to what happened, wherever the process died."""

import contextlib
import itertools
import random

import pytest

from seamark.parallel.pools.process_calls import (
    CUT_OFF,
    MOST_CALLS,
    HandlerErrorLost,
    HandlerProcessDied,
    OwnerSide,
    ProcessSide,
    Step,
)
from seamark.parallel.pools.process_frames import BrokenFrame, FrameReader, framed
from tests.support.pool_calls import calls_of

FINE, BAD = None, ValueError("this record is bad")


class Life:
    """A process with an owner that listens when it is told to. ``dies_at`` counts steps, and bytes of what is sent."""

    def __init__(self, dies_at=float("inf"), is_due=lambda: False, states=None):
        self.states = [0] * MOST_CALLS if states is None else states
        self.side, self.owner = ProcessSide(), OwnerSide(self.states)
        self.frames, self.pipe = FrameReader(), bytearray()
        self.left, self.is_due = dies_at, is_due
        self.is_dead = False
        self.entered, self.returned = [], []
        self.endings = []

    def run(self, calls, endings):
        self.owner.give(calls)
        steps = self.side.steps(list(zip(calls, endings, strict=True)), self.is_due)
        error = None
        while not self.is_dead:
            try:
                step, given = steps.send(error)
            except StopIteration:
                return
            error = self.take(step, given)

    def take(self, step, given):
        size = len(framed(given)) if step is Step.SEND else 2 if step is Step.RUN else 1
        if self.left < size:
            self.is_dead = True
            if step is Step.SEND:
                self.pipe += framed(given)[: int(self.left)]
            if step is Step.RUN and self.left == 1:
                self.entered.append(given[0])
            return None
        self.left -= size
        if step is Step.STATE:
            place, state = given
            self.states[place] = state
        elif step is Step.SEND:
            self.pipe += framed(given)
        else:
            call, outcome = given
            self.entered.append(call)
            if outcome is None:
                self.returned.append(call)
            return outcome
        return None

    def listen(self, most=None):
        """Read some of what is in the pipe, or all."""
        received = bytes(self.pipe[:most])
        del self.pipe[:most]
        for word in self.frames.read(received):
            self.endings += self.owner.answered(word)

    def conclude(self, exit_code=-9):
        self.listen()
        endings, not_begun = self.owner.process_gone(exit_code)
        self.endings += endings
        return not_begun

    def check(self, calls, not_begun):
        """What is promised of every life."""
        reported = [call for call, _ in self.endings]
        assert [id(call) for call in reported + not_begun] == [id(call) for call in calls], "each call once, in order"
        for call, error in self.endings:
            assert error is not None or call in self.returned, "only what returned is done"
        assert not [call for call in not_begun if call in self.entered], "only what no handler saw runs elsewhere"


def every_end_of(calls, endings, is_due, listens_at):
    """Lives that end one step, or one byte, later each."""
    for dies_at in itertools.count():
        life = Life(dies_at, is_due)
        half = len(calls) // 2
        life.run(calls[:half], endings[:half])
        life.listen(listens_at)
        life.owner.give(calls[half:]) if life.is_dead else life.run(calls[half:], endings[half:])
        yield life
        if not life.is_dead:
            return


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("is_due", [True, False], ids=["answers at once", "answers in bulk"])
@pytest.mark.parametrize("listens_at", [0, 20, None], ids=["hears nothing before", "hears a part", "hears all"])
def test_wherever_a_process_dies_only_what_returned_is_done_and_each_call_is_reported_once(count, is_due, listens_at):
    calls = calls_of(count)
    for endings in itertools.product([FINE, BAD], repeat=count):
        for life in every_end_of(calls, endings, lambda: is_due, listens_at):
            not_begun = life.conclude()
            life.check(calls, not_begun)
            failed = [type(error).__name__ for _, error in life.endings if error is not None]
            assert set(failed) <= {"ValueError", "HandlerErrorLost", "HandlerProcessDied"}
            assert failed.count("HandlerProcessDied") <= 1, "only the call at hand dies with its process"
        assert not life.is_dead
        assert [error is None for _, error in life.endings] == [outcome is FINE for outcome in endings]


def test_long_lives_of_many_lists_end_as_truly_as_short_ones():
    for seed in range(60):
        rng = random.Random(seed)
        calls = calls_of(400)
        life = Life(rng.randrange(20_000), lambda rng=rng: rng.random() < 0.3)
        given = 0
        while given < len(calls) and not life.is_dead:
            size = min(1 + int(rng.random() ** 2 * MOST_CALLS), MOST_CALLS - len(life.owner.held))
            some = calls[given : given + size]
            life.run(some, [BAD if rng.random() < 0.2 else FINE for _ in some])
            given += len(some)
            life.listen(rng.choice([0, 7, 500, None]))
        not_begun = life.conclude()
        life.check(calls[:given], not_begun)


def test_an_error_that_was_lost_with_its_process_is_still_a_failure():
    (call,) = calls = calls_of(1)
    # Up to the state that says so, and not a byte further.
    life = Life(dies_at=4)
    life.run(calls, [BAD])
    assert life.conclude() == []
    ((reported, error),) = life.endings
    assert reported is call
    assert isinstance(error, HandlerErrorLost)
    assert str(error) == (
        "the handler raised an error, which was lost because its process was killed by SIGKILL "
        "(the kernel sends it when memory runs out)"
    )


@pytest.mark.parametrize(
    ("exit_code", "how"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-15, "was killed by SIGTERM"),
        (-200, "was killed by signal 200"),
        (None, "exit code unknown"),
        (CUT_OFF, "the handler used or closed the pipe to the consumer"),
    ],
)
def test_the_call_at_hand_fails_with_how_its_process_ended(exit_code, how):
    life = Life(dies_at=2)
    life.run(calls_of(1), [FINE])
    life.conclude(exit_code)
    ((_, error),) = life.endings
    assert isinstance(error, HandlerProcessDied)
    assert how in str(error)


@pytest.mark.parametrize("answer", [b"", b"\0\0\0", b"\0\0\0\0", b"\0\0\0\3", b"\xff\xff\xff\xff"])
def test_an_answer_that_cannot_be_is_refused_and_changes_nothing(answer):
    owner = OwnerSide([0] * MOST_CALLS)
    calls = calls_of(2)
    owner.give(calls)
    with pytest.raises(BrokenFrame):
        owner.answered(answer)
    assert owner.process_gone(1) == ([], calls)


def test_frames_are_read_however_they_are_cut():
    contents = [b"", b"a", b"bc" * 500]
    stream = b"".join(framed(content) for content in contents)
    for size in (1, 3, 15, 16, 17, 400, len(stream)):
        reader = FrameReader()
        found = [word for start in range(0, len(stream), size) for word in reader.read(stream[start : start + size])]
        assert found == contents


def test_no_byte_of_a_frame_can_be_changed_unseen():
    sound, changed = framed(b"first"), framed(b"second")
    for place in range(len(changed)):
        damaged = bytearray(changed)
        damaged[place] ^= 0x20
        found = []
        with contextlib.suppress(BrokenFrame):
            found.extend(FrameReader().read(sound + damaged + framed(b"third")))
        assert found == [b"first"]


def test_what_another_hand_wrote_is_found_out_and_what_came_before_it_counts():
    found = []
    with pytest.raises(BrokenFrame, match="used the pipe"):
        found.extend(FrameReader().read(framed(b"first") + b"garbage of a handler"))
    assert found == [b"first"]
