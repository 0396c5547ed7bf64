"""Resets from the pages: shown first, made once, verified, taken back; and off unless they are allowed."""

import re

import pytest

from seamark.client.admin.types import GroupMember
from seamark.client.records import Offset
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets import done_ahead
from tests.unit.dashboard.conftest import Browser


def committed(cluster, group="billing"):
    return [offset.offset for _, offset in sorted(cluster.committed[group].items())]


def planned(browser, **fields):
    browser.get("/c/main/reset?id=billing")
    return browser.post("/c/main/plan", {"id": "billing", "topic": "orders", **fields})


def made(browser, answer):
    """Press the button, having typed the number of skipped records where that is asked for."""
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', answer.text)[1]
    skipped = re.search(r"To skip ([\d,]+) record", answer.text)
    return browser.post("/c/main/apply", {"digest": digest, "confirmed": skipped[1] if skipped else ""})


def test_without_permission_there_is_no_way_to_change_anything(browser, cluster):
    assert "Reset" not in browser.get("/c/main/group?id=billing").text
    assert browser.get("/c/main/reset?id=billing").status == 403
    assert browser.get("/c/main/changes").status == 403
    for action in ("plan", "undo", "apply"):
        answer = browser.post(f"/c/main/{action}", {"id": "billing", "way": "earliest", "topic": "orders"})
        assert (answer.status, "--allow-changes" in answer.text) == (403, True)
    assert "alter" not in cluster.asked


def test_a_reset_is_shown_then_made_then_taken_back(changing_browser, cluster, tmp_path):
    cluster.commit("billing", orders_0=Offset(40, "mine"))
    shown = planned(changing_browser, way="offset", value="10")
    assert re.findall(r'data-title="Repeated">(\d+)<', shown.text) == ["30", "90", "90"]
    assert committed(cluster) == [40, 100, 100]
    done = made(changing_browser, shown)
    assert "Done and verified" in done.text
    assert committed(cluster) == [10, 10, 10]
    name = re.search(r'name="plan" value="([^"]+)"', changing_browser.get("/c/main/changes").text)[1]
    assert (tmp_path / "plans" / f"{name}.undo.json").exists()
    back = changing_browser.post("/c/main/undo", {"plan": name})
    assert "Undo: what would change" in back.text
    assert committed(cluster) == [10, 10, 10]
    assert "Done and verified" in made(changing_browser, back).text
    assert committed(cluster) == [40, 100, 100]
    assert cluster.committed["billing"][TopicPartition("orders", 0)].metadata == "mine"
    assert "undone" in changing_browser.get("/c/main/changes").text


def test_an_offset_behind_the_log_is_a_problem_and_cannot_be_made(changing_browser, cluster):
    cluster.topic("orders", 3, (0, 20))
    cluster.commit("billing", orders_0=0, orders_1=0, orders_2=0)
    shown = planned(changing_browser, way="offset", value="100000")
    assert (
        "This would be refused: orders-0: offset 100,000 is 99,980 offsets after the end of the log (0 to 20)"
        in shown.text
    )
    assert "nearest end of the log" in shown.text
    assert re.search(r"<button[^>]* disabled>Make", shown.text)
    assert made(changing_browser, shown).status == 400
    assert committed(cluster) == [0, 0, 0]


def test_a_shift_over_the_start_of_the_log_is_refused_with_the_way_out(changing_browser, cluster):
    answer = planned(changing_browser, way="shift", value="-60")
    assert answer.status == 409
    assert "orders-0: offset -20 is 20 offsets before the start of the log (0 to 100)" in answer.text
    assert "nearest end of the log" in answer.text


def test_whoever_ticks_the_box_gets_the_nearest_end_and_is_told(changing_browser, cluster):
    assert 'name="clamp"' in changing_browser.get("/c/main/reset?id=billing").text
    shown = planned(changing_browser, way="shift", value="-60", clamp="yes")
    assert (
        "orders-0: offset -20 is 20 offsets before the start of the log (0 to 100): the start of the log, 0, is used"
        in shown.text
    )
    assert "Done and verified" in made(changing_browser, shown).text
    assert committed(cluster) == [0, 40, 40]


def test_a_log_that_moved_after_the_plan_was_shown_refuses_it(changing_browser, cluster):
    shown = planned(changing_browser, way="offset", value="10")
    cluster.topic("orders", 3, (30, 100))
    answer = made(changing_browser, shown)
    assert (answer.status, "before the start of the log (30 to 100)" in answer.text) == (409, True)
    assert committed(cluster) == [40, 100, 100]


def test_skipped_and_repeated_records_are_told_before_the_button(changing_browser, cluster):
    cluster.topic("orders", 3, (0, 100_000))
    cluster.commit("billing", orders_0=0, orders_1=500, orders_2=500)
    text = planned(changing_browser, way="offset", value="499").text
    assert "<strong>499 records would be skipped</strong>: the group would never read them." in text
    assert "<strong>2 records would be repeated</strong>: the group would read them again." in text
    assert text.index("would be skipped") < text.index("<table") < text.index('<button class="primary danger"')
    one = planned(changing_browser, way="offset", value="1", topic="orders:0").text
    assert "<strong>1 record would be skipped</strong>: the group would never read it." in one
    far = planned(changing_browser, way="latest").text
    assert 'data-title="Change">+100,000<' in far
    assert 'data-title="After">100,000<' in far


@pytest.mark.parametrize("typed", ["", "59", "yes", "billing"])
def test_records_are_skipped_only_by_one_who_types_their_number(changing_browser, cluster, typed):
    shown = planned(changing_browser, way="latest")
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', shown.text)[1]
    answer = changing_browser.post("/c/main/apply", {"digest": digest, "confirmed": typed})
    assert (answer.status, "skips 60 records: type 60 to confirm it" in answer.text) == (400, True)
    assert committed(cluster) == [40, 100, 100]
    assert "Done and verified" in made(changing_browser, shown).text


def test_the_way_back_is_there_after_a_restart(changing_browser, cluster, dashboard_of, tmp_path):
    made(changing_browser, planned(changing_browser, way="latest"))
    assert committed(cluster) == [100, 100, 100]
    again = Browser(dashboard_of(plans=tmp_path / "plans"))
    again.log_in()
    name = re.search(r'name="plan" value="([^"]+)"', again.get("/c/main/changes").text)[1]
    made(again, again.post("/c/main/undo", {"plan": name}))
    assert committed(cluster) == [40, 100, 100]


def test_a_plan_gone_stale_changes_nothing(changing_browser, cluster):
    shown = planned(changing_browser, way="earliest")
    cluster.commit("billing", orders_2=55)
    answer = made(changing_browser, shown)
    assert answer.status == 409
    assert "stale" in answer.text
    assert committed(cluster) == [40, 100, 55]


def test_a_group_in_use_is_refused_before_and_at_the_change(changing_browser, cluster, sight):
    shown = planned(changing_browser, way="earliest")
    cluster.members["billing"] = (GroupMember("m", None, "worker", "/h"),)
    answer = made(changing_browser, shown)
    assert (answer.status, "worker" in answer.text) == (409, True)
    shown = planned(changing_browser, way="earliest")
    assert "This would be refused" in shown.text
    assert "disabled" in shown.text
    assert committed(cluster) == [40, 100, 100]
    sight.look_once()
    assert "refused until they are stopped" in changing_browser.get("/c/main/reset?id=billing").text


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"way": "offset"}, "value is required"),
        ({"way": "offset", "value": "ten"}, "not an integer"),
        ({"way": "time", "value": "noon"}, "not a time"),
        ({"way": "ago", "value": "1 hour"}, "not a duration"),
        ({"way": "file", "value": "/etc/passwd"}, "not a valid target"),
        ({"way": "latest", "topic": "ordres"}, "did you mean"),
        ({"way": "latest", "topic": "orders:9"}, "partitions 0 to 2"),
        ({"way": "latest", "topic": ""}, "at least one topic"),
    ],
)  # fmt: skip
def test_a_wrong_form_is_answered_with_a_sentence_and_changes_nothing(changing_browser, cluster, fields, sentence):
    answer = planned(changing_browser, **fields)
    assert 400 <= answer.status < 500
    assert sentence in answer.text
    assert "--to" not in answer.text
    assert committed(cluster) == [40, 100, 100]


def test_a_wrong_form_is_shown_again_with_what_was_given_to_it(changing_browser):
    answer = planned(changing_browser, way="offset", value="ten", topic="orders:0", clamp="yes", others="orders:1")
    assert ">&#x27;ten&#x27; is not an integer." in answer.text
    assert '<option value="offset" selected>' in answer.text
    assert 'value="ten"' in answer.text
    assert 'name="others" value="orders:1"' in answer.text
    assert 'name="clamp" value="yes" checked' in answer.text
    # The topic was not ticked: one of its partitions was asked for.
    assert 'name="topic" value="orders">' in answer.text


def test_a_wrong_confirmation_shows_the_plan_again(changing_browser, cluster):
    shown = planned(changing_browser, way="latest")
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', shown.text)[1]
    answer = changing_browser.post("/c/main/apply", {"digest": digest, "confirmed": "1"})
    assert (answer.status, "type 60 to confirm it" in answer.text) == (400, True)
    assert made(changing_browser, answer).status == 200
    assert committed(cluster) == [100, 100, 100]


def test_what_a_parallel_consumer_has_done_beyond_its_offset_is_counted_and_said(changing_browser, cluster):
    cluster.commit("billing", orders_0=Offset(40, done_ahead.encode(40, range(50, 60)).text))
    shown = planned(changing_browser, way="shift", value="-5", topic="orders:0")
    assert "15 records would be repeated" in shown.text
    assert "10 records of those repeated had been done beyond the committed offset" in shown.text
    shown = planned(changing_browser, way="offset", value="45", topic="orders:0")
    assert "5 records would be skipped" in shown.text
    assert made(changing_browser, shown).status == 200
    after = cluster.committed["billing"][TopicPartition("orders", 0)]
    assert after == Offset(45, done_ahead.encode(45, range(50, 60)).text)


def test_a_form_without_a_topic_does_not_mean_all_topics(changing_browser):
    changing_browser.get("/c/main/reset?id=billing")
    answer = changing_browser.post("/c/main/plan", {"id": "billing", "way": "latest"})
    assert (answer.status, "at least one topic" in answer.text) == (400, True)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "*", "seamark-plan-0"])
def test_only_plans_of_the_directory_can_be_taken_back(changing_browser, name):
    changing_browser.get("/c/main/changes")
    assert changing_browser.post("/c/main/undo", {"plan": name}).status == 404


def test_a_plan_that_was_never_shown_cannot_be_made(changing_browser):
    changing_browser.get("/c/main/changes")
    assert changing_browser.post("/c/main/apply", {"digest": "0" * 64}).status == 404


def test_a_cluster_that_goes_away_between_plan_and_change_is_a_sentence(changing_browser, cluster):
    shown = planned(changing_browser, way="earliest")
    cluster.is_away = True
    answer = made(changing_browser, shown)
    assert (answer.status, "cannot be reached" in answer.text) == (502, True)
    cluster.is_away = False
    assert "Done and verified" in made(changing_browser, shown).text
