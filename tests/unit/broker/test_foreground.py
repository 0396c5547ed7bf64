"""A process that is only a broker: the collector looks seldom, and large blocks of memory are kept."""

import platform
import subprocess
import sys

from seamark.broker import foreground

_PROGRAM = """
import gc, resource
from seamark.broker.foreground import tune_process
usual = gc.get_threshold()
tune_process()
assert gc.get_freeze_count() > 1000
assert gc.get_threshold()[0] > 10 * usual[0]
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        bytes(bytearray(1 << 20))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


def test_a_tuned_process_does_not_fetch_the_same_memory_again_and_again():
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    if platform.libc_ver()[0] == "glibc":
        # Untuned, each of the hundred megabytes is given back and fetched anew, 256 pages at a time.
        assert int(done.stdout) < 5000


_GIVING_BACK = """
from seamark.broker.foreground import SpareMemory, resident_bytes, tune_process
tune_process()
spare = SpareMemory()
assert not spare.is_much
# Every second block stays, so that what is free lies between blocks in use.
blocks = [bytearray(1 << 20) for _ in range(120)]
kept = blocks[1::2]
del blocks
assert spare.is_much
before = resident_bytes()
spare.give_back()
print((before - resident_bytes()) >> 20)
"""


def test_what_is_free_between_blocks_in_use_goes_back_to_the_system():
    done = subprocess.run([sys.executable, "-c", _GIVING_BACK], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    if platform.libc_ver()[0] == "glibc":
        assert int(done.stdout) > 40


def test_memory_that_could_not_go_back_is_tried_again_after_longer_and_longer_waits(monkeypatch):
    held = 50 << 20
    monkeypatch.setattr(foreground, "resident_bytes", lambda: held)
    spare = foreground.SpareMemory()
    assert not any(spare.is_much for _ in range(100))
    held = 200 << 20
    assert spare.is_much
    spare.give_back()
    tries = [number for number in range(200) if spare.is_much]
    assert tries[:4] == [0, 2, 6, 14]
    assert tries[-1] - tries[-2] == 64
    held = 60 << 20
    assert not any(spare.is_much for _ in range(100))
