"""Plans of moves on disk: what is written is read, and nothing else is believed."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.client import Offset
from seamark.moves import GroupMove, PartitionMove, open_move, write_move
from seamark.plans import BadPlan, PlanError
from tests.support.plan_values import offsets, partitions, texts
from tests.unit.moves.world import HEADER, at, group_move

moves = st.builds(
    PartitionMove, partitions, st.none() | offsets, st.none() | offsets, st.none() | offsets, texts, texts, texts,
    st.none() | st.integers(0, 2**63 - 1),
)  # fmt: skip
groups = st.builds(
    GroupMove, texts, texts, st.lists(moves, max_size=4).map(tuple), texts, st.lists(texts, max_size=2).map(tuple)
)


def made(path, *groups, topics=None):
    return write_move(path, HEADER, groups, lambda: topics or {"orders": "aa"})


@settings(max_examples=60, deadline=None)
@given(st.lists(groups, max_size=4))
def test_what_is_written_is_read(tmp_path_factory, listed):
    path = tmp_path_factory.mktemp("plans") / "plan.jsonl"
    found = made(path, *listed)
    assert list(found) == listed
    assert found.header == HEADER
    assert (found.totals.groups, found.totals.offsets) == (len(listed), sum(len(each.moves) for each in listed))
    assert found.totals.topic_ids == {"orders": "aa"}
    assert open_move(path).digest == found.digest


def test_a_plan_is_never_written_over_another(tmp_path):
    made(tmp_path / "plan.jsonl")
    with pytest.raises(PlanError, match="already exists"):
        made(tmp_path / "plan.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.jsonl"]


def test_a_plan_that_cannot_be_made_leaves_nothing(tmp_path):
    def groups():
        yield group_move()
        raise ValueError

    with pytest.raises(ValueError):
        write_move(tmp_path / "plan.jsonl", HEADER, groups(), dict)
    assert list(tmp_path.iterdir()) == []


GROUP = group_move("billing", moves=(PartitionMove(at(0), Offset(7), None, Offset(7), "same log"),))


def edited(line, change):
    content = json.loads(line)
    change(content)
    return json.dumps(content, separators=(",", ":")) + "\n"


def wrong_offset(content):
    content["moves"][0]["after"] = 8


def newer(content):
    content["version"] = 2


def other_kind(content):
    content["kind"] = "up-to-down"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda lines: [lines[0], edited(lines[1], wrong_offset), lines[2]], "changed after it was made"),
        (lambda lines: lines[:2], "truncated"),
        (lambda lines: [*lines[:2], lines[2][:-9]], "truncated: line 3"),
        (lambda lines: [lines[0], lines[2]], "changed after it was made"),
        (lambda lines: [edited(lines[0], newer), *lines[1:]], "version 2; this release reads version 1"),
        (lambda lines: [edited(lines[0], other_kind), *lines[1:]], "kind is not one of"),
        (lambda lines: ['{"format":"seamark.plan"}\n', *lines[1:]], "not the plan of a move"),
        (lambda lines: ["[]\n"], "not the plan of a move"),
        (lambda lines: [], "not the plan of a move"),
    ],
)
def test_a_damaged_plan_is_refused_with_a_reason(tmp_path, damage, reason):
    path = tmp_path / "plan.jsonl"
    made(path, GROUP)
    path.write_text("".join(damage(path.read_text().splitlines(keepends=True))))
    with pytest.raises(BadPlan, match=reason):
        open_move(path)


def test_a_plan_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(BadPlan, match="no such plan"):
        open_move(tmp_path / "nothing")


def test_where_there_are_no_links_a_plan_is_renamed_into_place(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    assert [each.group for each in made(tmp_path / "plan.jsonl", GROUP)] == ["billing"]
    assert [path.name for path in tmp_path.iterdir()] == ["plan.jsonl"]


def test_a_plan_that_another_process_made_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "plan.jsonl"

    def groups():
        yield GROUP
        path.write_text("theirs")

    with pytest.raises(PlanError, match="already exists"):
        write_move(path, HEADER, groups(), dict)
    assert path.read_text() == "theirs"
