"""Plans as text and files: nothing is lost, and nothing that was damaged or edited is taken for a plan."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.client import Offset
from seamark.plans import (
    BadPlan,
    PlanError,
    UndoRecord,
    digest_of,
    parse_plan,
    read_plan,
    read_undo,
    text_of,
    undo_path_of,
    write_plan,
)
from seamark.plans.plan_file import write_undo
from seamark.plans.plan_text import digest
from seamark.plans.undoing import parse_undo, text_of_undo
from tests.support.plan_values import at, change, plan, plans

EXAMPLE = plan(change(0, Offset(4, "m", 7), 11), change(1, 5, None), why="a test")


def resealed(content):
    """A text with a right digest over whatever the content is now."""
    content.pop("digest", None)
    return json.dumps(content | {"digest": digest(content)})


@given(plans())
@settings(max_examples=150, deadline=None)
def test_a_plan_survives_being_written_and_read(made):
    assert parse_plan(text_of(made)) == made
    assert parse_plan(json.dumps(json.loads(text_of(made)), indent=4, sort_keys=True)) == made


def test_the_format_is_what_the_guide_says():
    found = json.loads(text_of(EXAMPLE))
    assert (found["format"], found["version"], found["digest"]) == ("seamark.plan", 1, digest_of(EXAMPLE))
    assert found["created_at"] == "1970-01-01T00:00:01.000Z"
    assert found["topics"] == {"orders": "aa"}
    assert found["groups"][0]["changes"][0] == {
        "topic": "orders",
        "partition": 0,
        "before": {"offset": 4, "metadata": "m", "leader_epoch": 7},
        "after": {"offset": 11, "metadata": "", "leader_epoch": -1},
    }
    assert found["groups"][0]["changes"][1]["after"] is None


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_text_that_was_cut_or_edited_is_never_a_plan(data):
    text = text_of(EXAMPLE)
    if data.draw(st.booleans()):
        broken = text[: data.draw(st.integers(0, len(text) - 3))]
    else:
        place = data.draw(st.integers(0, len(text) - 2))
        broken = text[:place] + data.draw(st.sampled_from("0123456789abx{}[]:,")) + text[place + 1 :]
    if _is_same_content(broken, text):
        assert parse_plan(broken) == EXAMPLE
        return
    with pytest.raises(BadPlan) as raised:
        parse_plan(broken, "move.json")
    assert str(raised.value).startswith("move.json: ")
    assert "\n" not in str(raised.value)


def _is_same_content(one, other):
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "truncated"),
        ('{"format": "seamark.plan", "version"', "truncated: invalid JSON at line 1, column"),
        ("[]", "not a plan"),
        ("7", "not a plan"),
        ('{"format": "seamark.undo"}', "not a plan"),
        ('{"format": "seamark.plan", "version": 2}', "version 2; this release of Seamark reads version 1"),
        ('{"format": "seamark.plan", "version": true}', "version True"),
        ('{"format": "seamark.plan"}', "version None"),
        ('{"format": "seamark.plan", "version": 1}', "changed after it was made"),
        ("[" * 100_000, "not a plan"),
        ('{"format": "seamark.plan", "version": ' + "9" * 5000 + "}", "cannot be read"),
    ],
)
def test_what_is_not_a_plan_is_refused_with_one_sentence(text, words):
    with pytest.raises(BadPlan, match=words) as raised:
        parse_plan(text, "move.json")
    assert str(raised.value).startswith("move.json: ")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda c: c.pop("cluster_id"), "cluster_id is missing"),
        (lambda c: c.update(why=5), "why is not a string"),
        (lambda c: c.update(created_at="yesterday"), "created_at is not a time"),
        (lambda c: c.update(created_at="2026-01-01T00:00:00"), "created_at is not a time"),
        (lambda c: c.update(groups={}), "groups is not a list"),
        (lambda c: c.update(groups=[1]), "groups is not a list"),
        (lambda c: c.update(topics=[]), "topics is not an object"),
        (lambda c: c.update(groups=c["groups"] * 2), "groups has a group twice"),
        (
            lambda c: c["groups"][0]["changes"].reverse(),
            r"groups\[0\].changes has a partition twice or is not sorted",
        ),
        (
            lambda c: c["groups"][0]["changes"][0].update(partition=-1),
            r"groups\[0\].changes\[0\].partition is not an integer",
        ),
        (lambda c: c["groups"][0]["changes"][0]["before"].update(offset=2**63), r"before.offset is not an integer"),
        (lambda c: c["groups"][0]["changes"][0]["before"].update(offset=True), r"before.offset is not an integer"),
        (lambda c: c["groups"][0]["changes"][0].update(after=3), "after is not an object"),
        (lambda c: c["groups"][0]["changes"][0].pop("after"), "after is missing"),
    ],
)
def test_a_field_that_cannot_be_is_named_with_its_place(damage, words):
    content = json.loads(text_of(EXAMPLE))
    damage(content)
    with pytest.raises(BadPlan, match=words):
        parse_plan(resealed(content))


@given(plans(), st.none() | st.integers(0, 10**13), st.sampled_from(["changed", "failed"]))
@settings(max_examples=50, deadline=None)
def test_an_undo_record_survives_being_written_and_read(made, finished_ms, result):
    record = UndoRecord(made, 7, finished_ms, {(group, each.partition): result for group, each in made})
    assert parse_undo(text_of_undo(record)) == record


def test_files_are_written_whole_and_never_over_another_plan(tmp_path):
    path = tmp_path / "move.json"
    write_plan(path, EXAMPLE)
    assert read_plan(path) == EXAMPLE
    with pytest.raises(PlanError, match="already exists"):
        write_plan(path, EXAMPLE)
    undo = undo_path_of(path)
    assert undo.name == "move.undo.json"
    write_undo(undo, UndoRecord(EXAMPLE, 1))
    write_undo(undo, UndoRecord(EXAMPLE, 1, 2, {("g", at(0)): "changed"}))
    assert read_undo(undo).finished_ms == 2
    with pytest.raises(PlanError, match="undo record of another plan"):
        write_undo(undo, UndoRecord(plan(change(0, 1, 2)), 1))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["move.json", "move.undo.json"]


def test_files_that_cannot_be_read_or_written_are_named(tmp_path):
    with pytest.raises(BadPlan, match="no such plan"):
        read_plan(tmp_path / "none.json")
    with pytest.raises(BadPlan, match="cannot be read"):
        read_plan(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadPlan, match="not a text file"):
        read_plan(tmp_path / "binary")
    with pytest.raises(PlanError, match="cannot be written"):
        write_plan(tmp_path / "no" / "such" / "place.json", EXAMPLE)
    write_plan(tmp_path / "plan.json", EXAMPLE)
    with pytest.raises(BadPlan, match="not an undo record"):
        read_undo(tmp_path / "plan.json")


def test_a_field_that_is_written_twice_is_refused_and_not_read_as_its_last_value():
    text = text_of(plan(change(0, 1, 2)))
    with pytest.raises(BadPlan, match="field 'why' appears twice"):
        parse_plan(text.replace('"why"', '"why": "another reason",\n "why"', 1))
