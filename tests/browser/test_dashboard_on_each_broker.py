"""The dashboard over Apache Kafka and over the embedded broker alike: from the list to a group, a topic and a reset."""

import re

import pytest

from seamark.client.admin.types import NewTopic
from tests.browser.conftest import TOKEN, Live, reading, serve


@pytest.fixture(scope="module")
def cluster(kafka_like):
    """Names of its own on a broker that others use too: two topics, a group at rest, and one that is being read."""
    made = Live(kafka_like.bootstrap)
    topics = [NewTopic("browsed-orders", 2, 1), NewTopic("browsed-clicks", 1, 1)]
    made.admin.create_topics(topics).raise_if_failed()
    for topic, partition in (("browsed-orders", 0), ("browsed-orders", 1), ("browsed-clicks", 0)):
        made.write(topic, 100, partition)
    made.set("browsed-billing", "browsed-orders", 40, 50)
    where = {"bootstrap_servers": kafka_like.bootstrap, "group_id": "browsed-readers", "client_id": "a-reader"}
    with reading("browsed-clicks", **where):
        yield made
    made.admin.close()


@pytest.fixture(scope="module")
def address(cluster, tmp_path_factory):
    directory = tmp_path_factory.mktemp("dashboard")
    yield from serve(cluster, directory, plans=directory / "plans")


def test_one_finds_a_group_follows_it_and_resets_it_with_a_way_back(new_page, address, cluster):
    page = new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{address}/login#{TOKEN}")
    page.wait_for_url("**/c/main/groups")
    page.get_by_label("Filter").fill("browsed-")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**q=browsed-**")

    page.get_by_role("link", name="browsed-readers", exact=True).click()
    page.get_by_role("heading", name="browsed-readers").wait_for()
    page.get_by_text("a-reader").first.wait_for()
    page.get_by_role("link", name="browsed-clicks-0").click()
    page.get_by_role("heading", name="browsed-clicks").wait_for()

    page.goto(f"{address}/c/main/group?id=browsed-billing")
    lag = page.locator('td[data-title="Lag"]')
    lag.first.wait_for()
    assert lag.all_inner_texts() == ["60", "50"]
    cluster.write("browsed-orders", 5, 1)
    page.wait_for_function(
        "() => [...document.querySelectorAll('td[data-title=Lag]')].some(cell => cell.textContent === '55')"
    )

    page.get_by_role("link", name="Reset offsets").click()
    page.get_by_label("Set to").select_option("shift")
    page.get_by_label("Value").fill("-10")
    page.get_by_role("button", name="Show what would change").click()
    page.get_by_role("button", name=re.compile("^Make 2 changes")).click()
    page.get_by_role("heading", name="Done and verified").wait_for()
    assert cluster.committed("browsed-billing") == [30, 40]
    page.get_by_role("link", name="Changes").click()
    page.get_by_role("button", name="Undo").click()
    page.get_by_label("To skip 20 records, type the number").fill("20")
    page.get_by_role("button", name=re.compile("^Make 2 changes")).click()
    page.get_by_role("heading", name="Done and verified").wait_for()
    assert cluster.committed("browsed-billing") == [40, 50]
