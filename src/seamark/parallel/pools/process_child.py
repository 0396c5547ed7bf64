"""One handler process as its owner has it: started, given calls, listened to, and mourned.

The owner's end of the pipe never waits inside a message. So the two sides cannot block each other with long messages,
and a process that dies in the middle of one is seen to be dead even if a copy of it, made by a handler with
``os.fork``, holds the pipe open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from seamark.parallel.core.work import StartCall
from seamark.parallel.pools.machine import Machine
from seamark.parallel.pools.process_calls import CUT_OFF, Ending, OwnerSide, how_it_ended
from seamark.parallel.pools.process_frames import BrokenFrame, FrameReader, framed
from seamark.parallel.pools.worker import END, READY

GUARD = "a program that starts processes needs `if __name__ == '__main__':` around its main part"
_START_S = 60.0
# How often a silent process is looked at: usually its death closes the pipe, which is seen at once.
_LOOK_S = 0.25


class HandlerProcess:
    """Used by one thread, but for ``kill`` and ``held``. ``is_given_up`` says that nobody waits for it any more."""

    def __init__(self, payload: bytes, is_given_up: Callable[[], bool], machine: Machine) -> None:
        self._machine = machine
        self._process = machine.spawn(payload)
        self._calls = OwnerSide(self._process.states)
        self._is_given_up = is_given_up
        self._frames = FrameReader()
        self._words: list[bytes] = []
        # Nobody waits for words any more: there will be none, or the process is gone or given up.
        self.is_silent = False
        # The pipe was read to its end, or to where it cannot be believed.
        self._is_read = False
        self._is_foreign = False
        self.reported = 0

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def held(self) -> list[StartCall]:
        return list(self._calls.held)

    @property
    def held_count(self) -> int:
        return len(self._calls.held)

    @property
    def exit_code(self) -> int | None:
        return CUT_OFF if self._is_foreign else self._process.exit_code

    def first_word(self) -> str | None:
        """None if it is ready, else why it is not."""
        if not self._listen(_START_S):
            if not self.is_silent:
                return f"it did not start within {_START_S:g} s"
            self._wait_for_end(1.0)
            hint = f" ({GUARD})" if (self.exit_code or 0) > 0 else ""
            return f"it {how_it_ended(self.exit_code)} before it was ready{hint}"
        word = self._words.pop(0)
        return None if word == READY else word.decode(errors="replace")

    def give(self, calls: Sequence[StartCall], content: bytes) -> None:
        """``content`` is what goes over the pipe. That it does not arrive is found by ``take``."""
        self._calls.give(calls)
        self._send(content)

    def take(self, timeout: float = float("inf")) -> list[Ending]:
        """What ended since the last time; waits for something to end. Empty if time is up or it ``is_silent``."""
        self._listen(timeout)
        words, self._words = self._words, []
        endings: list[Ending] = []
        try:
            for word in words:
                endings += self._calls.answered(word)
        except BrokenFrame:
            self.is_silent = self._is_read = self._is_foreign = True
        self.reported += len(endings)
        return endings

    def conclude(self) -> tuple[list[Ending], list[StartCall]]:
        """When it is silent: wait until the process is gone, and say what became of the calls it held.

        One whose handler closed the pipe ends by itself when it has something to answer.
        """
        if self._is_foreign:
            self._process.kill()
        while not self._wait_for_end(_LOOK_S):
            if self._is_given_up():
                self._process.kill()
        endings = self.take(0.0)
        concluded, not_begun = self._calls.process_gone(self.exit_code)
        self._process.close_pipe()
        return endings + concluded, not_begun

    def end(self, timeout: float) -> None:
        """Ask it to end, and end it if it has not in time."""
        if timeout > 0:
            self._send(END)
        if not self._wait_for_end(timeout):
            self._process.kill()
            self._wait_for_end(1.0)
        self._process.close_pipe()

    def kill(self) -> None:
        self._process.kill()

    # -- the pipe

    def _send(self, content: bytes) -> None:
        left = memoryview(framed(content))
        while left and not self.is_silent:
            try:
                left = left[self._process.send(left) :]
            except BlockingIOError:
                if not self._process.wait(_LOOK_S, for_room=True) and self._cannot_go_on():
                    self.is_silent = True
                self._read()
            except OSError:
                # It is gone, or closed the pipe. What it said before is still to be read.
                return

    def _listen(self, timeout: float) -> bool:
        """Wait for words; whether there are any."""
        deadline = self._machine.clock() + timeout
        while True:
            self._read()
            left = deadline - self._machine.clock()
            if self._words or self.is_silent or left <= 0:
                return bool(self._words)
            if not self._process.wait(min(left, _LOOK_S)) and self._cannot_go_on():
                self._read()
                self.is_silent = True

    def _read(self) -> None:
        """Take in all that is there."""
        while not self._is_read:
            try:
                received = self._process.receive()
            except BlockingIOError:
                return
            except OSError:
                received = b""
            if not received:
                self.is_silent = self._is_read = True
                return
            try:
                self._words.extend(self._frames.read(received))
            except BrokenFrame:
                self.is_silent = self._is_read = self._is_foreign = True

    # -- the process

    def _cannot_go_on(self) -> bool:
        return self._is_given_up() or self._process.is_gone()

    def _wait_for_end(self, timeout: float) -> bool:
        """Not ``join``, which waits as long as a copy of the process holds a descriptor open."""
        deadline, pause = self._machine.clock() + timeout, 0.0005
        while not self._process.is_gone():
            left = deadline - self._machine.clock()
            if left <= 0:
                return False
            self._machine.sleep(min(pause, left))
            pause = min(pause * 2, 0.05)
        return True
