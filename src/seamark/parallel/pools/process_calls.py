"""What a handler process tells its owner about calls, and what the owner concludes when the process is gone.

There are two ways to tell. *States* are one byte per call in shared memory, which outlives the process. *Answers* go
over the pipe, in bulk, and carry errors. For each call the process takes these steps, in this order:

    1. state := BEGUN    2. the handler runs    3. state := RETURNED or RAISED    4. an answer, now or with later calls

The owner reads answers as they come. When the process is gone it first reads every whole answer that is still in the
pipe, and only then the states of the calls that no answer was about. Wherever the process dies, that is right:

    before 1            NOT_BEGUN: no handler has seen the records; the call goes to another process
    between 1 and 3     BEGUN: the call failed with the process. Its handler may just have returned: then the records
                        are run once more, as at-least-once allows, but they are never taken for done unseen
    between 3 and 4,    RETURNED: the call ended well
    or within 4         RAISED: the call failed; only its error is lost
    after 4             the answer is read, and says what the state says

A state belongs to one call alone and is never added up, so no unread answer can contradict what is concluded from it.
Both sides are here, without a pipe or a process: the pool drives them, and so does the simulation.
"""

from __future__ import annotations

import enum
import signal
import struct
from collections import deque
from collections.abc import Callable, Generator, Iterable, MutableSequence, Sequence
from typing import Any, NamedTuple

from seamark.errors import SeamarkError
from seamark.parallel.core.work import StartCall
from seamark.parallel.pools.carried_errors import packed, unpacked
from seamark.parallel.pools.process_frames import BrokenFrame

# As many calls as a process may hold; their states are a ring.
MOST_CALLS = 128
NOT_BEGUN, BEGUN, RETURNED, RAISED = 0, 1, 2, 3
# The exit code of a process whose handler closed the pipe, or took part in its traffic: it cannot answer any more.
CUT_OFF = 141

# How many calls ended since the last answer. The error of the last of them follows, if it failed.
_ANSWER = struct.Struct("!I")


class HandlerProcessDied(SeamarkError):
    """The process that ran the handler ended in the middle of a call."""

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(f"the handler process {how_it_ended(exit_code)} during this call")
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type[HandlerProcessDied], tuple[int | None]]:
        return type(self), (self.exit_code,)


class HandlerErrorLost(SeamarkError):
    """The handler raised an error, and its process ended before it could tell which."""

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(f"the handler raised an error, which was lost because its process {how_it_ended(exit_code)}")
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[type[HandlerErrorLost], tuple[int | None]]:
        return type(self), (self.exit_code,)


def how_it_ended(exit_code: int | None) -> str:
    if exit_code is None:
        return "exited (exit code unknown: other code of the program has collected it)"
    if exit_code == CUT_OFF:
        return "was killed because the handler used or closed the pipe to the consumer"
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    if exit_code == -signal.SIGKILL:
        return "was killed by SIGKILL (the kernel sends it when memory runs out)"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"


class Ending(NamedTuple):
    """A call that ended; ``error`` is None if its handler returned."""

    call: StartCall
    error: BaseException | None


class Step(enum.Enum):
    """What a process does that is seen outside of it; it can die before each step, and in the middle of SEND.

    STATE: set the state of a place, both given. RUN: run the handler on what is given; the answer to this step is the
    error or None. SEND: send the message given.
    """

    STATE = "state"
    RUN = "run"
    SEND = "send"


_STATE, _RUN, _SEND = Step.STATE, Step.RUN, Step.SEND


class ProcessSide:
    """Of the process: the steps it takes, for whoever carries them out."""

    def __init__(self) -> None:
        self._place = 0

    def steps(
        self, calls: Iterable[Any], is_answer_due: Callable[[], bool]
    ) -> Generator[tuple[Step, Any], BaseException | None, None]:
        """For one list of calls. ``is_answer_due`` is asked after each call that ended well."""
        untold = 0
        for call in calls:
            place = self._place
            yield _STATE, (place, BEGUN)
            error = yield _RUN, call
            yield _STATE, (place, RETURNED if error is None else RAISED)
            self._place = (place + 1) % MOST_CALLS
            untold += 1
            if error is not None:
                yield _SEND, _ANSWER.pack(untold) + packed(error)
                untold = 0
            elif is_answer_due():
                yield _SEND, _ANSWER.pack(untold)
                untold = 0
        if untold:
            yield _SEND, _ANSWER.pack(untold)


class OwnerSide:
    """Of the owner: the calls that a process holds, in the order in which it runs them."""

    def __init__(self, states: MutableSequence[int]) -> None:
        self._states = states
        self._place = 0
        self.held: deque[StartCall] = deque()

    def give(self, calls: Sequence[StartCall]) -> None:
        """Before they are sent. No more may be held than there are states."""
        assert len(self.held) + len(calls) <= MOST_CALLS
        for number in range(len(self.held), len(self.held) + len(calls)):
            self._states[(self._place + number) % MOST_CALLS] = NOT_BEGUN
        self.held.extend(calls)

    def answered(self, answer: bytes) -> list[Ending]:
        """Which calls ended, and how. BrokenFrame for an answer that the process cannot have given."""
        if len(answer) < _ANSWER.size:
            raise BrokenFrame(f"a response of a handler process has an invalid length of {len(answer)} bytes")
        (ended,) = _ANSWER.unpack_from(answer)
        if not 1 <= ended <= len(self.held):
            raise BrokenFrame(f"a handler process reported {ended} calls, but had {len(self.held)}")
        endings = [Ending(self.held.popleft(), None) for _ in range(ended)]
        self._place = (self._place + ended) % MOST_CALLS
        if len(answer) > _ANSWER.size:
            endings[-1] = Ending(endings[-1].call, unpacked(answer[_ANSWER.size :]))
        return endings

    def process_gone(self, exit_code: int | None) -> tuple[list[Ending], list[StartCall]]:
        """What became of the calls that no answer was about, and those among them that are to run elsewhere.

        Only when the process is known to be gone and the pipe was read to its end.
        """
        endings: list[Ending] = []
        not_begun: list[StartCall] = []
        for number, call in enumerate(self.held):
            state = self._states[(self._place + number) % MOST_CALLS]
            if state == NOT_BEGUN:
                not_begun.append(call)
            elif state == RETURNED:
                endings.append(Ending(call, None))
            else:
                lost = HandlerErrorLost if state == RAISED else HandlerProcessDied
                endings.append(Ending(call, lost(exit_code)))
        self.held.clear()
        return endings, not_begun
