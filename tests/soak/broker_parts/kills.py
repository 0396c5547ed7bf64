"""``kill -9`` under load, again and again on one data directory: what was acknowledged is there after the restart.

With ``durability=os`` the promise covers the death of the process, not of the machine: the operating system keeps
what it was given. The kill comes at a random moment, also while the broker is still taking up its logs.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from tests.soak.broker_parts.acknowledged import Ledger, Load


def run(kills: int, seed: int = 0) -> dict[str, object]:
    rng = random.Random(seed)
    ledger = Ledger()
    lost: list[str] = []
    refused: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="seamark-kills-") as place,
        # Small segments, so that kills hit rolling too.
        BrokerProcess(Path(place) / "broker", "-o", "log.segment.bytes=1048576") as broker,
    ):
        for life in range(kills):
            with Load(ledger, broker.bootstrap, life) as load:
                time.sleep(rng.uniform(0.05, 1.2))
                broker.check()
                broker.kill()
            refused += load.refusals
            broker.start()
            if rng.random() < 0.2:
                # Once more, in the middle of taking up what the last life left.
                time.sleep(rng.uniform(0, 0.1))
                broker.kill()
                broker.start()
            lost += ledger.check(broker.bootstrap)
            if lost:
                break
        lost += ledger.check(broker.bootstrap, whole=True)
    return {
        "ok": not lost and not refused and ledger.commits > kills and ledger.records > kills,
        "kills": life + 1,
        "commits": ledger.commits,
        "records": ledger.records,
        "lost": lost[:10],
        "refused": refused[:10],
    }
