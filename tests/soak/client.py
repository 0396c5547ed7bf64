"""The client's full counts: a consumer among others, and under fire.

``iterating``  programs that iterate, blocking and in asyncio, killed with ``kill -9``: committed against processed
``mixed``      our consumer, confluent-kafka and Kafka's Java client in one group: members come, leave and die
``proxy``      a proxy that cuts, delays, stalls and half-closes; coordinators that move, nodes that stop
``restarts``   brokers killed with ``kill -9`` under a working group
``simulated``  the client's real cores in virtual time
``slow``       user code that stays away from poll

``SEAMARK_SOAK_PART`` runs one of them; ``make test`` runs a sample of each.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable

from seamark import Broker
from seamark.errors import SeamarkError
from tests.soak.client_parts import iterating, mixed, proxied, restarts, slow_callers
from tests.soak.client_simulated import simulated
from tests.support.apache_kafka import ApacheKafka
from tests.support.external_tools import Unavailable

# Members coming and going, on Apache Kafka and on ours; 200 on the former.
EVENTS, EVENTS_ON_OURS = 200, 40
# A hundred runs of faults in all: on ours and on Apache Kafka through proxies, and restarts of either.
PROXIED, PROXIED_ON_APACHE, RESTARTS, RESTARTS_OF_APACHE = 60, 20, 14, 6
SLOW_SECONDS = 60.0
# Of each of the four ways to iterate and commit: records per partition, and kills.
ITERATED, KILLS = 2000, 25

Result = dict[str, object]


def run(scale: float) -> Result:
    parts: dict[str, Callable[[float], Result]] = {
        "iterating": run_iterating,
        "mixed": run_mixed,
        "proxy": run_proxy,
        "restarts": run_restarts,
        "simulated": run_simulated,
        "slow": run_slow,
    }
    chosen = os.environ.get("SEAMARK_SOAK_PART")
    if chosen and chosen not in parts:
        return {"ok": False, "failures": [f"SEAMARK_SOAK_PART must be one of {', '.join(parts)}, not {chosen!r}"]}
    # Members complain while brokers are away, as they should; what counts is in the books.
    logging.getLogger("seamark").addHandler(logging.NullHandler())
    logging.getLogger("seamark").propagate = False
    begin = time.monotonic()
    results: Result = {}
    for name, part in parts.items():
        if chosen in (None, "", name):
            began = time.monotonic()
            try:
                result = part(scale)
            except (AssertionError, SeamarkError, Unavailable) as failure:
                # One part that cannot go on does not keep the others from running.
                result = {"ok": False, "failures": [f"{type(failure).__name__}: {failure}"[:2000]]}
            results[name] = {**result, "seconds": round(time.monotonic() - began, 1)}
            print(f"soak client: {name} {'ok' if result['ok'] else 'FAILED'}: {results[name]}", file=sys.stderr)
    return {
        "ok": all(isinstance(part, dict) and part["ok"] is True for part in results.values()),
        **results,
        "seconds": round(time.monotonic() - begin, 1),
    }


def _counted(full: float, scale: float) -> int:
    return max(1, round(full * scale))


def _both(results: dict[str, Result]) -> Result:
    return {"ok": all(each["ok"] is True for each in results.values()), **results}


def run_iterating(scale: float) -> Result:
    return iterating.run(_counted(ITERATED, scale), _counted(KILLS, scale), seed=8)


def run_mixed(scale: float) -> Result:
    with ApacheKafka(settings=mixed.SETTINGS) as apache:
        theirs = mixed.run(apache.bootstrap, _counted(EVENTS, scale), seed=1)
    with Broker(settings=mixed.SETTINGS) as broker:
        ours = mixed.run(broker.bootstrap, _counted(EVENTS_ON_OURS, scale), seed=2)
    return _both({"apache": theirs, "seamark": ours})


def run_proxy(scale: float) -> Result:
    return _both(
        {
            "apache": proxied.on_apache_kafka(_counted(PROXIED_ON_APACHE, scale), seed=3),
            "seamark": proxied.on_our_broker(_counted(PROXIED / 2, scale), seed=4),
            "seamark, eager": proxied.on_our_broker(_counted(PROXIED / 2, scale), seed=7, strategy="range"),
        }
    )


def run_restarts(scale: float) -> Result:
    return _both(
        {
            "apache": restarts.on_apache_kafka(_counted(RESTARTS_OF_APACHE, scale), seed=5),
            "seamark": restarts.on_our_broker(_counted(RESTARTS, scale), seed=6),
        }
    )


def run_simulated(scale: float) -> Result:
    # It raises when a promise is broken.
    return {"ok": True, **simulated(scale)}


def run_slow(scale: float) -> Result:
    """Below the limit with a session a tenth as long as the work, above it with one that would never end it."""
    seconds = max(7.5, SLOW_SECONDS * scale)
    failures = []
    with ApacheKafka() as apache:
        below = slow_callers.callers_below_the_limit(apache.bootstrap, seconds)
        failures += [repr(caller) for caller in below if not caller.has_kept_its_membership]
        limit_s = max(2.0, 10.0 * scale)
        left_after, above = slow_callers.seconds_until_it_has_left(apache.bootstrap, limit_s)
        if not limit_s * 0.9 <= left_after < 40 or "lost" not in above.heard:
            failures.append(f"with a limit of {limit_s:g} s it left after {left_after:.1f} s: {above!r}")
    return {
        "ok": not failures,
        "stayed_for_s": seconds,
        "left_after_s": round(left_after, 2),
        "limit_s": limit_s,
        "failures": failures,
    }
