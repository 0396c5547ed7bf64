"""The frontier alone: per-record calls with terms, completion in random order, 100,000 records in flight.

One record is one ``take`` and one ``done``, in processor seconds of the one thread at work. Offsets have gaps of one,
as where each record is a transaction of its own, and the frontier is asked 1,000 times on the way.
"""

import random
import time

from benchmarks.claims import compare
from seamark.parallel.core.frontier import Frontier

IN_FLIGHT = 100_000
RECORDS = 1_000_000
RUNS = 5
TERM = 3


def measure():
    random_ = random.Random(7)
    slots = [random_.randrange(IN_FLIGHT) for _ in range(RECORDS)]
    return [compare("parallel.frontier", "records/s", "higher", lambda: records_per_second(slots), None, RUNS)]


def records_per_second(slots):
    frontier = Frontier(TERM, 0)
    in_flight = list(range(0, 2 * IN_FLIGHT, 2))
    frontier.take_all(TERM, in_flight)
    offset = 2 * IN_FLIGHT
    take, done = frontier.take, frontier.done
    committed = 0
    start = time.process_time()
    for begin in range(0, RECORDS, 1_000):
        for slot in slots[begin : begin + 1_000]:
            done(TERM, in_flight[slot])
            take(TERM, offset)
            in_flight[slot] = offset
            offset += 2
        committed = frontier.frontier
    seconds = time.process_time() - start
    assert committed == min(in_flight)
    assert len(frontier) == IN_FLIGHT
    return RECORDS / seconds
