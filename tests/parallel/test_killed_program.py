"""A program whose main process is killed leaves nothing behind: its handler processes end, and say nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.parallel.test_running import numbers
from tests.support.waiting import eventually

PROGRAM = """
import sys
from seamark.parallel import ParallelConsumer
from tests.parallel import process_handlers

if __name__ == "__main__":
    bootstrap, group, topic, handler = sys.argv[1:]
    config = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    handler = getattr(process_handlers, handler)
    ParallelConsumer(config, [topic], handler, run_in="processes", concurrency=2).run()
"""


# Idle, busy with short calls, in the middle of a long one, and with a thread that nobody ends.
@pytest.mark.parametrize("handler", ["note", "work_slowly", "work_very_slowly", "note_and_leave_a_thread"])
def test_handler_processes_end_quietly_when_their_program_is_killed(topic, tmp_path, handler):
    notes, errors = tmp_path / "notes", tmp_path / "errors"
    notes.touch()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    count = 20 if handler == "note" else 2_000
    topic.write(numbers(count), headers=[("notes", str(notes).encode())])
    root = Path(__file__).parents[2]
    with errors.open("w") as file:
        main = subprocess.Popen(
            [sys.executable, program, topic.bootstrap, topic.group, topic.name, handler],
            stdout=file,
            stderr=file,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        try:
            least = count if handler == "note" else 4
            eventually(
                lambda: len(notes.read_text().splitlines()) >= least, "handlers are at work", scene=errors.read_text
            )
            processes = psutil.Process(main.pid).children(recursive=True)
            assert len(processes) >= 2
        finally:
            main.send_signal(signal.SIGKILL)
            main.wait()
    _, alive = psutil.wait_procs(processes, timeout=60)
    for process in alive:
        process.kill()
    assert not alive
    assert errors.read_text() == ""
