"""The hostile benchmark counts only what was done, and the soak fails on every fault that it promises to find."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from benchmarks import hostile as benchmark
from benchmarks.hostile_parts import clients
from benchmarks.hostile_parts.bystander import Latencies
from benchmarks.hostile_parts.cases import Case
from benchmarks.hostile_parts.probe import Cost
from benchmarks.hostile_parts.search import Finding, Search, by_memory, by_pause
from tests.soak import hostile as soak
from tests.soak.hostile_parts.checker import Books


def finding(text: str, *, pause_s: float = 0.0, memory_mb: float = 0.0, not_done: str = "") -> Finding:
    case = Case("Produce", 9, text, lambda _: b"")
    return Finding(case, 0, Cost(pause_s, pause_s, memory_mb, 0, "answered"), not_done)


class Target:
    """Tells what it was given."""

    def __init__(self, findings: list[Finding]) -> None:
        self._findings = {each.case: each for each in findings}

    def be_ready(self) -> None:
        pass

    def measure(self, case: Case, _: int) -> Finding:
        return self._findings[case]


def test_a_case_that_did_not_do_what_it_says_is_reported_and_not_counted():
    told = [finding("refused", pause_s=9.0, not_done="the broker refused the batches"), finding("stored", pause_s=0.1)]
    search = Search(Target(told), seed=1)
    search.measure([each.case for each in told], seconds=60)
    assert [each.case.text for each in search.findings] == ["stored"]
    assert [each.case.text for each in search.not_done] == ["refused"]
    assert [each.case.text for each in search.worst(by_pause)] == ["stored"]


def test_a_claim_counts_what_strangers_can_do_as_well():
    known, stranger = finding("known", pause_s=0.2, memory_mb=10), finding("stranger", pause_s=0.1, memory_mb=50)
    pause = benchmark._claim("pause", "s", by_pause, known, stranger)
    memory = benchmark._claim("memory", "MB", by_memory, known, stranger)
    assert (pause["ours"], pause["worst"]["shape"]) == (0.2, "known")
    assert (memory["ours"], memory["worst"]["shape"]) == (50, "stranger")


def outcome(**changed: object) -> soak.Outcome:
    """A run in which all is as promised, with these changes."""
    facts: dict[str, object] = {
        "calm": Latencies(commits_s=[0.001] * 100),
        "attacked": Latencies(commits_s=[0.004] * 100),
        "starved": Latencies(commits_s=[9.0]),
        "books": Books(commits=1),
        "missing": [],
        "missing_after_restart": [],
        "idle_mb": 100.0,
        "settled_mb": 150.0,
        "said": "",
        "attackers": {kind: Counter({needed: 1}) for kind, needed in clients.NEEDED.items()},
    }
    return soak.Outcome(**(facts | changed))


def test_a_run_in_which_all_is_as_promised_has_no_failures():
    assert outcome().failures() == []
    assert outcome().broken_bounds() == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"missing": ["record 7 is not there"]}, "record 7 is not there"),
        ({"missing_after_restart": ["record 7 is not there"]}, "after the restart: record 7"),
        ({"attacked": Latencies(commits_s=[0.004], lost=["record 3"])}, "record 3"),
        ({"starved": Latencies(commits_s=[0.004], lost=["record 4"])}, "record 4"),
        ({"books": Books(commits=1, lost=["offset 5 is there"])}, "offset 5 is there"),
        ({"books": Books(commits=1, refused_at_the_end=["round 9"])}, "after the attack, round 9"),
        ({"books": Books()}, "could not commit"),
        ({"said": "x" * 2_000_000}, "the log has 2000000 bytes"),
        ({"said": "Traceback (most recent call last)"}, "the log has a traceback"),
        ({"attackers": {}}, "did not happen"),
        ({"attackers": {**outcome().attackers, "logins": Counter({"logins refused": 1, clients.LET_IN: 2})}}, "let in"),
    ],
)
def test_every_fault_is_a_failure(changed, words):
    assert any(words in each for each in outcome(**changed).failures())


def test_commits_that_wait_too_long_and_memory_that_is_kept_break_the_bounds():
    [slow] = outcome(attacked=Latencies(commits_s=[0.004] * 98 + [0.006] * 2)).broken_bounds()
    assert slow == "the p99 of commits is 6.0 times that without an attack, not 5"
    [kept] = outcome(settled_mb=200.0).broken_bounds()
    assert "holds 200 MB; it was 100 MB before" in kept


def test_attackers_run_when_nobody_else_wants_the_processor(monkeypatch):
    chosen = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda pid, policy, _: chosen.append((pid, policy)))
    monkeypatch.setattr(os, "nice", chosen.append)
    assert clients.stand_aside()
    assert chosen == [(0, os.SCHED_IDLE)]


def test_attackers_take_the_smallest_share_where_that_is_not_allowed_and_say_so(monkeypatch):
    chosen = []

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr(os, "nice", chosen.append)
    assert not clients.stand_aside()
    assert chosen == [19]
