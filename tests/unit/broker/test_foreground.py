"""A process that is only a broker: the collector looks seldom, and large blocks of memory are kept."""

import platform
import subprocess
import sys

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
assert not spare.is_much
print((before - resident_bytes()) >> 20)
"""


def test_what_is_free_between_blocks_in_use_goes_back_to_the_system():
    done = subprocess.run([sys.executable, "-c", _GIVING_BACK], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    if platform.libc_ver()[0] == "glibc":
        assert int(done.stdout) > 40
