"""A repeated commit is decided exactly as the same commit spelled out, whatever happened in between."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.coordinator import CommitOffsets, Settings
from seamark.coordinator.offsets.commit_patterns import CommitAgain, CommitPattern, RepeatedRecords
from seamark.coordinator.routing import Coordinator
from seamark.simulation import run_lifetime
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.coordinator_driver import Driver, codes, replayed

SETTINGS = Settings(metadata_max_bytes=12)


def again(command: CommitOffsets) -> CommitAgain:
    pattern = CommitPattern.of(command)
    assert pattern is not None
    offsets = [offset for _, partitions in command.topics for _, offset, _, _ in partitions]
    # Made of other offsets: the pattern must not remember those of the commit it was made of.
    moved = CommitPattern.of(pattern.with_offsets([-7] * len(offsets)))
    assert moved is not None
    return CommitAgain(moved, offsets)


def one(offset: int = 5, **fields: object) -> CommitOffsets:
    return CommitOffsets("g", [("t", [(0, offset, -1, "")])], **fields)  # type: ignore[arg-type]


partitions = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 2**62),
        st.integers(-1, 9),
        st.one_of(st.none(), st.text(max_size=14), st.just("\U0001f600" * 7)),
    ),
    min_size=1,
    max_size=4,
)
commits = st.builds(
    CommitOffsets,
    st.sampled_from(["g", "h", ""]),
    st.lists(st.tuples(st.sampled_from(["t", "u", "gone"]), partitions), min_size=1, max_size=3),
    st.sampled_from([-1, 0, 1, 2]),
    st.sampled_from(["", "1", "c-1", "c-2"]),
    st.sampled_from([None, "static"]),
    missing_group_is_not_found=st.booleans(),
)
steps = st.lists(
    st.one_of(
        commits.map(lambda command: ("commit", command)),
        commits.map(lambda command: ("commit", command)),
        st.sampled_from(
            [("join", None), ("delete", None), ("refuse", None), ("reload", None), ("advance", None), ("hold", None)]
        ),
        st.sampled_from([("drop", "t"), ("drop", "u")]),
    ),
    max_size=14,
)


def live(story: list[tuple[str, object]], spell: object) -> Driver:
    driver = Driver(SETTINGS)
    for what, detail in story:
        if what == "commit":
            driver.send(spell(detail))  # type: ignore[operator]
        elif what == "join" and not driver.is_holding and not driver.has_group():
            driver.form_group(None, "static")
        elif what == "delete":
            driver.delete_groups("h") if not driver.is_holding else None
        elif what == "refuse" and driver.waiting:
            driver.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        elif what == "reload":
            driver.acknowledge()
            driver.reload()
        elif what == "advance":
            driver.advance(6000)
        elif what == "hold":
            driver.hold_appends()
        elif what == "drop":
            driver.topics.pop(str(detail), None)
    driver.acknowledge()
    return driver


# covers: F26, F27, F28, F18
@settings(max_examples=300, deadline=None)
@given(steps)
def test_every_story_ends_the_same_with_commits_spelled_out_and_repeated(story):
    plain, repeated = live(story, lambda command: command), live(story, again)
    assert plain.replies == repeated.replies
    assert plain.log == repeated.log
    assert plain.shard.stored_state() == repeated.shard.stored_state() == replayed(repeated.log)
    assert plain.timers == repeated.timers
    assert plain.shard.counters() == repeated.shard.counters()


# covers: F5, F7
def test_a_repeated_commit_is_answered_and_visible_only_once_it_is_stored():
    driver = Driver()
    driver.commit({("t", 0): 1})
    driver.hold_appends()
    token = driver.send(again(one(8)))
    assert type(driver.waiting[0].records) is RepeatedRecords
    assert driver.is_waiting(token)
    driver.is_holding = False
    assert driver.fetch().offset == 1
    driver.acknowledge()
    assert codes(driver.reply(token)) == {("t", 0): ErrorCode.NONE}
    assert driver.fetch().offset == 8
    driver.reload(compacted=True)
    assert driver.fetch().offset == 8


# covers: F28
def test_a_repeated_commit_that_the_log_refuses_changes_nothing():
    driver = Driver()
    driver.commit({("t", 0): 1})
    driver.hold_appends()
    token = driver.send(again(one(8)))
    driver.refuse(ErrorCode.KAFKA_STORAGE_ERROR)
    assert codes(driver.reply(token)) == {("t", 0): ErrorCode.NOT_COORDINATOR}
    driver.is_holding = False
    assert driver.fetch().offset == 1


# covers: F26
def test_a_repeated_commit_of_an_old_generation_is_refused():
    driver = Driver()
    [member] = driver.form_group(None)
    command = one(8, generation=1, member_id=member)
    pattern = CommitPattern.of(command)
    assert codes(driver.ask(CommitAgain(pattern, (8,)))) == {("t", 0): ErrorCode.NONE}
    driver.leave(member)
    assert codes(driver.ask(CommitAgain(pattern, (9,)))) == {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}
    assert driver.fetch().offset == 8


# covers: F27
def test_a_repeated_commit_is_a_sign_of_life():
    driver = Driver()
    [member] = driver.form_group(None)
    pattern = CommitPattern.of(one(1, generation=1, member_id=member))
    for number in range(5):
        driver.advance(8000)
        assert codes(driver.ask(CommitAgain(pattern, (number,)))) == {("t", 0): ErrorCode.NONE}
    driver.advance(10_001)
    assert driver.state() == "Empty"


# covers: F26
def test_a_repeated_commit_to_a_topic_that_is_gone_names_it():
    driver = Driver()
    pattern = CommitPattern.of(CommitOffsets("g", [("t", [(0, 1, -1, "")]), ("u", [(3, 1, -1, "")])]))
    assert set(codes(driver.ask(CommitAgain(pattern, (1, 2)))).values()) == {ErrorCode.NONE}
    driver.topics["u"] = 3
    assert codes(driver.ask(CommitAgain(pattern, (3, 4)))) == {
        ("t", 0): ErrorCode.NONE,
        ("u", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert driver.fetch("t").offset == 3
    assert driver.fetch("u", 3).offset == 2


# covers: F18
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("m" * 12, ErrorCode.NONE),
        ("m" * 13, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\U0001f600" * 6, ErrorCode.NONE),
        ("\U0001f600" * 7, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ],
)
def test_the_metadata_of_a_repeated_commit_must_fit_as_well(text, code):
    driver = Driver(SETTINGS)
    driver.commit({("t", 0): 1})
    pattern = CommitPattern.of(CommitOffsets("g", [("t", [(0, 1, -1, text)])]))
    assert codes(driver.ask(CommitAgain(pattern, (2,)))) == {("t", 0): code}


@pytest.mark.parametrize(
    "command",
    [
        one(retention_ms=5),
        one(commit_times_ms={("t", 0): 5}),
        CommitOffsets(None, [("t", [(0, 1, -1, "")])]),
        CommitOffsets("g", []),
        CommitOffsets("g", [("t", [])]),
        CommitOffsets("g", [("t", [(-1, 1, -1, "")])]),
    ],
)
def test_what_is_special_has_no_pattern(command):
    assert CommitPattern.of(command) is None


# covers: A17, F6
def test_a_commit_keeps_the_time_that_its_client_gave():
    driver = Driver()
    driver.advance(500)
    times = {("t", 0): 77}
    driver.send(CommitOffsets("g", [("t", [(0, 1, -1, ""), (1, 2, -1, "")])], commit_times_ms=times))
    assert [(record.partition, record.commit_ms) for record in driver.log] == [(0, 77), (1, 500)]


# covers: N4
@pytest.mark.parametrize("scenario", ["random", "zombies", "static-members", "bad-disk", "bad-network", "crashes"])
def test_whole_lifetimes_keep_every_promise_when_all_commits_are_repeated_ones(scenario, monkeypatch):
    handle = Coordinator.handle
    converted = 0

    def convert(self, command, token, now_ms):
        nonlocal converted
        if type(command) is CommitOffsets and CommitPattern.of(command) is not None:
            command = again(command)
            converted += 1
        return handle(self, command, token, now_ms)

    monkeypatch.setattr(Coordinator, "handle", convert)
    for seed in range(3):
        run_lifetime(seed, scenario)
    assert converted > 30
