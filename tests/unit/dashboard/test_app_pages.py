"""What pages show, for groups of all kinds and names of all kinds."""

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.client.admin.types import GroupMember
from seamark.client.records import Offset
from seamark.dashboard.board import GroupRow
from seamark.dashboard.listing import ORDERS, Query, choose_groups
from seamark.dashboard.markup import tag
from seamark.dashboard.sight import Sight
from seamark.errors import UsageError
from seamark.monitor.history import History
from seamark.rules.status import Status
from seamark.topic_partition import TopicPartition
from seamark.wire.offsets import done_ahead
from tests.unit.dashboard.conftest import Browser

HOSTILE = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)", "javascript:alert(1)",
    "</title><script>x</script>", "a&lt;b", "%3Cscript%3E", "../../etc", "a\u202eb", "", "x" * 500, "{{7*7}}", "a\x00b",
]  # fmt: skip


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.handlers = []
        self.addresses = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]
        self.addresses += [value for name, value in attrs if name in ("href", "src", "action")]


def of_group(name):
    from urllib.parse import quote

    return f"/c/main/group?id={quote(name)}"


def test_the_list_has_status_lag_and_a_link_for_each_group(browser):
    text = browser.get("/c/main/groups").text
    assert '<a href="/c/main/group?id=billing" class="row">billing</a>' in text
    assert re.search(r'data-title="Lag">60</td>', text)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_add_no_element_no_handler_and_no_address(cluster, dashboard_of, sight, name):
    cluster.topic("plain")
    cluster.commit("friendly", plain_0=1)
    sight.look_once()
    browser = Browser(dashboard_of())
    browser.log_in()
    friendly = Elements(browser.get(of_group("friendly")).text)
    cluster.committed[name] = cluster.committed.pop("friendly")
    cluster.members[name] = (GroupMember(name, name, name, name, (), (TopicPartition("plain", 0),)),)
    cluster.committed[name] = {TopicPartition("plain", 0): Offset(1, name)}
    sight.look_once()
    pages = [browser.get("/c/main/groups"), browser.get(of_group(name)), browser.get("/c/main/topic?id=plain")]
    for page in pages:
        found = Elements(page.text)
        assert page.status == 200
        assert found.tags.count("script") == 1
        assert not found.handlers
        assert all(address.startswith(("/", "#")) for address in found.addresses)
        assert "\u202e" not in page.text
    assert set(Elements(pages[1].text).tags) - set(friendly.tags) <= {
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "caption",
    }


def test_a_group_is_found_by_its_link_whatever_its_name(cluster, sight, dashboard_of):
    import html

    cluster.topic("plain")
    for name in HOSTILE:
        cluster.committed[name] = {TopicPartition("plain", 0): Offset(1)}
    sight.look_once()
    browser = Browser(dashboard_of())
    browser.log_in()
    text = browser.get("/c/main/groups?size=200").text
    links = [html.unescape(link) for link in re.findall(r'href="(/c/main/group\?[^"]*|/c/main/group)"', text)]
    assert len(links) == len(HOSTILE) + 1
    assert [browser.get(link).status for link in links] == [200] * len(links)


def test_a_group_page_has_members_findings_and_blocked_records(cluster, sight, dashboard_of):
    map_text = done_ahead.encode(10, [12, 13]).text
    cluster.commit("parallel", orders_0=Offset(10, map_text), orders_1=500)
    cluster.members["parallel"] = (GroupMember("m-1", None, "worker", "/10.0.0.1", (), (TopicPartition("orders", 0),)),)
    sight.look_once()
    browser = Browser(dashboard_of())
    browser.log_in()
    text = browser.get(of_group("parallel")).text
    assert "worker" in text
    assert "10.0.0.1" in text
    assert re.search(r"waits for the record at offset <b>10</b>; 2 later records are already done", text)
    assert "the committed offset is 400 beyond the log&#x27;s end: the topic was recreated" in text
    assert "-400" in text
    assert "<th>Lost" not in text


def shown_numbers(text, title):
    """The cells of a column of numbers."""
    return re.findall(rf'<td[^>]*data-title="{title}"[^>]*>([^<]*)<', text)


def test_lost_and_unfinished_records_are_shown_where_there_are_some(cluster, sight, dashboard_of):
    cluster.topic("short", 2, (60, 100))
    map_text = done_ahead.encode(70, range(75, 100)).text
    cluster.commit("harmed", short_0=20, short_1=Offset(70, map_text))
    sight.look_once()
    browser = Browser(dashboard_of())
    browser.log_in()
    listed = browser.get("/c/main/groups").text
    assert "40 records deleted before being read" in listed
    assert "records lost" in listed
    text = browser.get(of_group("harmed")).text
    assert "40 records deleted before being read: removed by the topic&#x27;s retention" in text
    for title, numbers in (("Lag", ["80", "30"]), ("Lost", ["40", "0"]), ("Unfinished", ["40", "5"])):
        assert shown_numbers(text, title) == numbers
        assert f'<span class="quiet">{title}</span>' in text
    assert "110" in shown_numbers(listed, "Lag")
    assert "45" in shown_numbers(listed, "Unfinished")


def test_a_group_with_lost_records_reaches_the_webhook_whatever_its_lag(cluster, sight):
    told = []
    sight.webhook = SimpleNamespace(put=told.extend, error=None)
    cluster.topic("short", 1, (60, 100))
    cluster.commit("harmed", short_0=20)
    sight.look_once()
    sight.look_once()
    (alert,) = [each for each in told if each.group == "harmed"]
    assert (alert.state, alert.trouble.status) == ("firing", "records lost")
    assert "40 records deleted" in alert.text


def test_rebalances_and_rewinds_are_written_down_and_shown(cluster, sight, browser):
    cluster.members["billing"] = (GroupMember("m-1", None, "worker", "/h", (), (TopicPartition("orders", 0),)),)
    sight.look_once()
    cluster.members["billing"] = ()
    cluster.commit("billing", orders_0=3)
    sight.look_once()
    text = browser.get(of_group("billing")).text
    assert "joined: worker" in text
    assert "left: worker" in text
    assert "offsets went back: orders-0 from 40 to 3" in text


def test_a_wrong_name_is_answered_with_the_nearest(browser):
    answer = browser.get("/c/main/group?id=biling")
    assert answer.status == 404
    assert "did you mean &#x27;billing&#x27;?" in answer.text
    answer = browser.get("/c/main/topic?id=order")
    assert answer.status == 404
    assert "did you mean &#x27;orders&#x27;?" in answer.text
    assert browser.get("/c/other/groups").status == 404


@pytest.mark.parametrize(
    "query",
    ["sort=x", "page=x", "page=-1", "size=7", "size=1000000", "status=fine", "q=" + "x" * 400, "page=" + "9" * 40],
)
def test_an_address_that_no_page_links_to_is_answered_with_a_sentence(browser, query):
    answer = browser.get(f"/c/main/groups?{query}")
    assert answer.status == 400
    assert 'role="alert"' in answer.text


@pytest.mark.parametrize("query", ["range=2y", "show=money"])
def test_a_wrong_graph_is_answered_with_a_sentence(browser, query):
    assert browser.get(f"/c/main/group?id=billing&{query}").status == 400


def test_a_cluster_that_goes_away_leaves_the_last_look_with_the_reason(cluster, sight, browser):
    before = sight.version
    cluster.is_away = True
    sight.look_once()
    text = browser.get("/c/main/groups").text
    assert "billing" in text
    assert "The last poll failed: broker:9092: cannot be reached" in text
    assert sight.version != before
    answer = browser.get("/c/main/topics")
    assert (answer.status, "cannot be reached" in answer.text) == (502, True)


def test_before_the_first_look_pages_say_so(dashboard_of):
    browser = Browser(dashboard_of())
    browser.log_in()
    assert "first poll" in browser.get("/c/main/groups").text
    assert browser.get("/c/main/group?id=billing").status == 404


def test_topics_show_records_and_readers(browser):
    text = browser.get("/c/main/topics").text
    assert re.search(r'data-title="Records">300</td><td class="number" data-title="Groups">1</td>', text)
    text = browser.get("/c/main/topic?id=orders").text
    assert 'data-title="Lag in this topic">60</td>' in text


def test_several_clusters_have_a_first_page_with_a_card_each(cluster, dashboard_of, sight, history):
    from seamark.dashboard.sight import Sight

    sight.look_once()
    browser = Browser(dashboard_of(Sight("other", cluster, history)))
    browser.log_in()
    text = browser.get("/").text
    assert '<a href="/c/main/groups" class="row">main</a>' in text
    assert '<a href="/c/other/groups" class="row">other</a>' in text


def test_with_one_cluster_the_first_page_is_its_groups(browser):
    # An empty fragment of its own: a browser would keep the one of the printed link, which is the token.
    assert browser.get("/").headers["location"] == "/c/main/groups#"
    assert browser.get("/login").headers["location"] == "/#"


def test_ten_thousand_groups_make_a_small_page_and_one_scan(cluster, sight, dashboard_of):
    for number in range(10_000):
        cluster.commit(f"group-{number:05}-with-a-name-of-some-length", orders_0=number % 100, orders_1=3)
    sight.look_once()
    browser = Browser(dashboard_of())
    browser.log_in()
    asked = len(cluster.asked)
    answer = browser.get("/c/main/groups?size=200")
    assert answer.status == 200
    assert len(answer.text.encode()) < 400_000
    assert answer.text.count("<tr>") == 201
    assert len(cluster.asked) == asked
    assert "page 1 of 51" in answer.text
    assert answer.text.count('class="row"') == 200


ROWS = st.lists(
    st.builds(
        GroupRow, name=st.text(max_size=5), type=st.just("classic"), state=st.sampled_from(["Empty", "Stable"]),
        members=st.integers(0, 3), partitions=st.just(1), lag=st.none() | st.integers(0, 5), behind=st.none(),
        status=st.sampled_from(Status), blocked=st.just(0), remark=st.just(""),
    ),
    max_size=80,
    unique_by=lambda row: row.name,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(ROWS, st.sampled_from(sorted(ORDERS)), st.booleans())
def test_the_pages_of_a_list_have_every_row_once_and_in_order(rows, order, is_reversed):
    first = choose_groups(rows, Query(order=order, is_reversed=is_reversed, size=25))
    pages = [
        choose_groups(rows, Query(order=order, is_reversed=is_reversed, size=25, page=page))
        for page in range(1, first.pages + 1)
    ]
    shown = [row for page in pages for row in page.rows]
    assert shown == sorted(rows, key=ORDERS[order], reverse=is_reversed)
    assert choose_groups(rows, Query(order=order, is_reversed=is_reversed, size=25, page=999)) == pages[-1]


def test_the_filter_is_about_names_and_status():
    rows = [
        GroupRow(name, "classic", "Empty", 0, 1, 0, 0, 0, None, status, 0, "")
        for name, status in (("Billing", Status.OK), ("bill-2", Status.STALLED), ("other", Status.STALLED))
    ]
    assert [row.name for row in choose_groups(rows, Query.of({"q": "bill"})).rows] == ["bill-2", "Billing"]
    found = choose_groups(rows, Query.of({"q": "BILL", "status": "stalled"}))
    assert [row.name for row in found.rows] == ["bill-2"]
    with pytest.raises(UsageError, match="not one of"):
        Query.of({"sort": "colour"})


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30))
def test_text_of_any_kind_stays_text(text):
    made = Elements(tag("p", text, title=text))
    assert made.tags == ["p"]
    assert not made.handlers


def test_a_name_is_text_that_can_be_read_and_has_an_end():
    assert tag("b", "a\u202e\x9b\n<i>") == r"<b>a\u202e\x9b\n&lt;i&gt;</b>"
    long_name = "x" * 32_000
    shown = tag("a", long_name, title=long_name)
    assert f'title="{long_name}"' in shown
    assert len(shown) < 33_000
    assert "… (31500 more characters) …" in shown


def test_endless_names_are_cut_in_tables_and_in_what_is_kept_of_them(cluster, sight, dashboard_of, history):
    endless = "begin" + "x" * 30_000 + "end"
    cluster.topic("plain")
    cluster.commit(endless, plain_0=1)
    sight.look_once()
    member = GroupMember(endless, endless, endless, "/host", (), (TopicPartition("orders", 0),))
    cluster.members = {"billing": (member,), endless: (member,)}
    sight.look_once()
    browser = Browser(dashboard_of())
    browser.log_in()
    for address in ("/c/main/groups", "/c/main/group?id=billing", "/c/main/topic?id=plain", of_group(endless)):
        text = browser.get(address).text
        cells = re.findall(r"<td[^>]*>(?:<[^>]*>)*([^<]*)", text)
        assert max(map(len, cells)) <= 150, address
        assert any(cell.startswith("begin") and cell.endswith("end") for cell in cells), address
    assert "x" * 500 not in browser.get("/c/main/group?id=billing").text
    (event,) = history.events("the-cluster", "billing")
    assert len(event.text) < 200


def test_a_history_that_is_not_kept_is_said_on_the_pages_after_every_look(cluster, wording):
    history = History.in_memory("the history file h cannot be used: disk I/O error")
    sight = Sight("main", cluster, history)
    for _ in range(2):
        sight.look_once()
        assert sight.history_error == "the history file h cannot be used: disk I/O error"
    assert len(history.series("the-cluster", "billing", 0, 10)) > 0
    history.close()
