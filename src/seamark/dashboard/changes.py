"""Resets through plans, as the command line does them: made, looked at, applied from what was looked at, taken back.

A plan that was made is kept in memory under its digest until it is applied; then it is a file in ``directory`` with its
undo record beside it, so that taking back works after a restart, and with ``seamark groups undo`` too. One application
at a time per cluster.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from seamark.client import Admin, Offset
from seamark.counts import counted, number_text
from seamark.dashboard.sight import NotFound
from seamark.dashboard.topics_page import Topics
from seamark.errors import SeamarkError, UsageError
from seamark.monitor.targets import Target, aim, offsets_at
from seamark.plans import (
    Applied,
    BadPlan,
    OutsideLog,
    Plan,
    PlanRefused,
    Preview,
    UndoRecord,
    apply,
    build_plan,
    clamp_to_log,
    digest_of,
    plan_undo,
    preview,
    read_plan,
    read_state,
    read_undo,
    undo_path_of,
    write_plan,
)
from seamark.plans.plan import Wanted
from seamark.topic_partition import TopicPartition

_MOST_WAITING = 50
_MOST_LISTED = 100
_MADE_BY = "seamark dashboard"
_UNDO = ".undo.json"
CLAMP_HINT = "to use the nearest end of the log instead, make a new plan with that box ticked"
UNDO_CLAMP_HINT = "the command line can use the nearest end of the log instead: seamark groups undo FILE --clamp"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan that may be applied by its ``digest``, what it would do, and what to know beside."""

    digest: str
    plan: Plan
    preview: Preview
    remarks: tuple[str, ...] = ()

    @property
    def hint(self) -> str:
        """What helps where an offset lies outside the log."""
        return UNDO_CLAMP_HINT if self.plan.undoes else CLAMP_HINT


class NotConfirmed(UsageError):
    """What was typed is not how many records the change skips."""

    def __init__(self, proposal: Proposal) -> None:
        skipped = proposal.preview.skipped
        super().__init__(
            f"the change skips {counted(skipped, 'record')}: type {number_text(skipped)} to confirm it; "
            "nothing was changed"
        )
        self.proposal = proposal


@dataclass(frozen=True, slots=True)
class Done:
    """An applied plan in the directory; ``name`` is what it is taken back by."""

    name: str
    record: UndoRecord


class Changes:
    """Changes of one cluster's offsets; ``now_ms`` is the wall clock."""

    def __init__(self, admin: Admin, topics: Topics, directory: Path, now_ms: Callable[[], int]) -> None:
        self._admin = admin
        self._topics = topics
        self._directory = directory
        self._now_ms = now_ms
        self._waiting: OrderedDict[str, Proposal] = OrderedDict()
        self._lock = threading.Lock()
        self._applying = threading.Lock()

    def propose(self, group: str, topics: Iterable[str], target: Target, why: str, *, clamp: bool = False) -> Proposal:
        """The plan that sets a group's partitions in these topics (``T`` or ``T:0,1``) or, with none, all it has.

        With ``clamp`` offsets outside a log become its nearest end, and each is remarked on.
        """
        if target.kind == "file":
            raise UsageError("offsets from a file are set with: seamark groups import FILE")
        if target.kind == "lake":
            raise UsageError("offsets from a lake are set with: seamark groups reset GROUP --to lake:TIME --lake DIR")
        chosen = self._chosen(topics)
        state = read_state(self._admin, {group: chosen})
        partitions = chosen or sorted(state.committed.get(group, {}))
        if not partitions:
            raise UsageError(f"group {group!r} has no committed offsets: choose the topics to set")
        at_time = offsets_at(self._admin, state.logs, target.number) if target.kind == "time" else None
        elsewhere: Mapping[TopicPartition, Offset] = {}
        if target.kind == "group":
            elsewhere = self._admin.list_group_offsets([target.name]).raise_if_failed()[target.name]
        aimed = aim(target, group, partitions, state, at_time=at_time, elsewhere=elsewhere)
        if aimed.refused and not aimed.wanted:
            partition, reason = next(iter(aimed.refused.items()))
            raise SeamarkError(f"group {group!r} cannot be set: {partition}: {reason}")
        wanted: Wanted = {group: aimed.wanted}
        remarks = [f"{partition} is left unchanged: {reason}" for partition, reason in aimed.refused.items()]
        remarks += [f"{partition}: {remark}" for partition, remark in aimed.remarks.items()]
        if clamp:
            wanted, clamped = clamp_to_log(wanted, state)
            remarks += clamped
        try:
            plan = build_plan(state, wanted, made_by=_MADE_BY, why=why, now_ms=self._now_ms())
        except OutsideLog as refused:
            raise PlanRefused(f"{refused}; {CLAMP_HINT}") from None
        return self._kept(plan, preview(plan, state), tuple(remarks))

    def propose_undo(self, name: str) -> Proposal:
        """The plan that takes an applied one back; PlanStale if somebody moved its offsets since."""
        record = self._read(name)
        state = read_state(self._admin, record.plan.partitions)
        plan = plan_undo(record, state, made_by=_MADE_BY, now_ms=self._now_ms())
        return self._kept(plan, preview(plan, state), ())

    def apply(self, digest: str, confirmed: str = "") -> Applied:
        """Make the changes of a plan that was shown; ``confirmed`` is how many records the user knows it to skip."""
        with self._lock:
            proposal = self._waiting.get(digest)
        if proposal is None:
            raise NotFound("this plan has expired: make a new one")
        plan, skipped = proposal.plan, proposal.preview.skipped
        if skipped and confirmed.replace(",", "").replace(" ", "") != str(skipped):
            raise NotConfirmed(proposal)
        if not self._applying.acquire(blocking=False):
            raise SeamarkError("another change of this cluster is in progress: try again later")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            path = self._directory / f"seamark-plan-{digest[:12]}.json"
            if not path.exists():
                write_plan(path, plan)
            elif read_plan(path) != plan:
                raise BadPlan(path, "another plan with this name exists: move it away")
            done = apply(self._admin, plan, now_ms=self._now_ms, undo_path=undo_path_of(path))
        except OutsideLog as refused:
            raise PlanRefused(f"{refused}; {proposal.hint}") from None
        except OSError as error:
            raise SeamarkError(f"the plan cannot be written to {self._directory}: {error.strerror}") from None
        finally:
            self._applying.release()
        if done.is_complete:
            with self._lock:
                self._waiting.pop(digest, None)
        return done

    def done(self, cluster_id: str) -> list[Done]:
        """What was applied to this cluster, latest first; files that are not undo records are left out."""
        if not self._directory.is_dir():
            return []
        files = [path for path in self._directory.glob(f"*{_UNDO}") if path.is_file()]
        files.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        done = []
        for path in files[:_MOST_LISTED]:
            try:
                record = read_undo(path)
            except BadPlan:
                continue
            if record.plan.cluster_id == cluster_id:
                done.append(Done(path.name.removesuffix(_UNDO), record))
        return sorted(done, key=lambda change: change.record.started_ms, reverse=True)

    def _read(self, name: str) -> UndoRecord:
        # Only names that the directory has: a name from a form is never made into a path.
        for path in self._directory.glob(f"*{_UNDO}") if self._directory.is_dir() else ():
            if path.name == f"{name}{_UNDO}":
                return read_undo(path)
        raise NotFound(f"no applied plan {name!r}")

    def _kept(self, plan: Plan, shown: Preview, remarks: tuple[str, ...]) -> Proposal:
        proposal = Proposal(digest_of(plan), plan, shown, remarks)
        if plan.groups:
            with self._lock:
                self._waiting[proposal.digest] = proposal
                while len(self._waiting) > _MOST_WAITING:
                    self._waiting.popitem(last=False)
        return proposal

    def _chosen(self, topics: Iterable[str]) -> list[TopicPartition]:
        chosen: list[TopicPartition] = []
        for text in topics:
            name, _, indexes = text.partition(":")
            count = len(self._topics.one(name).partitions)
            for index in indexes.split(",") if indexes else map(str, range(count)):
                if not index.strip().isdecimal() or len(index) > 10 or int(index) >= count:
                    raise UsageError(f"topic {name!r} has partitions 0 to {count - 1}, not {index!r}")
                chosen.append(TopicPartition(name, int(index)))
        return sorted(set(chosen))
