"""What a task leaves behind in a reused worker; in processes of their own, because it is about whole processes."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, os
from seamark.spark.read.task import freeze_gc, then_freeze_gc

assert gc.get_freeze_count() == 0
assert list(then_freeze_gc(iter([1, 2]))) == [1, 2]
frozen = gc.get_freeze_count()
assert frozen > 1000
assert not freeze_gc()
child = os.fork()
if child == 0:
    os._exit(0 if freeze_gc() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
unfinished = then_freeze_gc(iter([1, 2]))
next(unfinished)
unfinished.close()
print("ok")
"""


def test_a_worker_settles_once_after_its_first_whole_task():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)

    assert (run.stdout, run.stderr) == ("ok\n", "")
