"""The dashboard as a person uses it, in a real browser over a live broker: what is clicked, typed and seen."""

import re

import pytest

from seamark.readable_text import readable
from tests.browser.conftest import HOSTILE, TOKEN, log_in


def lag_of(page, group):
    row = page.locator("tr", has=page.get_by_role("link", name=group, exact=True))
    return row.locator('td[data-title="Lag"]')


def filtered(page, text):
    page.keyboard.press("/")
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**q={text}**")


def overflow(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_a_wrong_token_is_refused_the_link_logs_in_and_the_way_out_works(new_page, address):
    page = new_page()
    page.goto(f"{address}/c/main/groups")
    page.wait_for_url("**/login")
    page.get_by_label("Token").fill("not the token at all")
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("Wrong token.").wait_for()
    log_in(page, address)
    assert TOKEN not in page.url
    assert page.evaluate("document.cookie").find("session") < 0
    # The same link again, by somebody who is logged in: a redirect would keep what follows #.
    page.goto("about:blank")
    page.goto(f"{address}/login#{TOKEN}")
    page.get_by_role("heading", name="Groups").wait_for()
    assert page.url == f"{address}/c/main/groups"
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/login")
    page.goto(f"{address}/c/main/groups")
    page.wait_for_url("**/login")


def test_from_the_list_to_a_group_to_a_topic_and_back_by_links(page, picture):
    picture("groups")
    filtered(page, "readers")
    page.get_by_role("link", name="readers", exact=True).click()
    page.get_by_role("heading", name="readers").wait_for()
    page.get_by_text("reader-one").first.wait_for()
    picture("group")
    page.get_by_role("link", name="orders-0").click()
    page.get_by_role("heading", name="orders").wait_for()
    page.get_by_role("link", name="billing").wait_for()
    picture("topic")
    page.get_by_role("link", name="Topics").first.click()
    page.get_by_role("link", name="clicks", exact=True).wait_for()
    picture("topics")
    page.go_back()
    page.get_by_role("heading", name="orders").wait_for()


def test_everything_can_be_reached_by_keys(page):
    filtered(page, "billing")
    page.keyboard.press("Escape")
    page.locator("body").press("j")
    assert page.evaluate("document.activeElement.textContent") == "billing"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="billing").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    page.keyboard.press("g")
    page.keyboard.press("g")
    page.wait_for_url(re.compile("/groups#?$"))


def test_lag_changes_on_the_open_page_without_loading_it_again(page, live):
    filtered(page, "watcher")
    page.evaluate("window.isTheSamePage = true")
    before = int(lag_of(page, "watcher").inner_text())
    live.write("watched", 5)
    page.wait_for_function(
        "lag => document.querySelector('td[data-title=Lag]').textContent === String(lag)", arg=before + 5
    )
    assert page.evaluate("window.isTheSamePage") is True
    assert page.locator("#filter").input_value() == "watcher"


def test_live_updates_can_be_stopped_and_go_on(page, live):
    filtered(page, "watcher")
    page.get_by_role("button", name="Live").click()
    shown = lag_of(page, "watcher").inner_text()
    live.write("watched", 3)
    with page.expect_response(lambda answer: "/groups" in answer.url):
        page.evaluate("fetch(location.href)")
    page.wait_for_timeout(1500)
    assert lag_of(page, "watcher").inner_text() == shown
    page.get_by_role("button", name="Live").click()
    page.wait_for_function("was => document.querySelector('td[data-title=Lag]').textContent !== was", arg=shown)


def test_the_filter_the_order_and_the_pages_are_the_servers(page):
    filtered(page, "many-")
    page.get_by_text("page 1 of 2, 60 groups").wait_for()
    page.get_by_role("link", name="next ›").click()
    page.get_by_text("page 2 of 2, 60 groups").wait_for()
    assert page.locator("tbody tr").count() == 10
    page.get_by_label("Order").select_option("lag")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**sort=lag**")
    lags = [int(text) for text in page.locator('td[data-title="Lag"]').all_inner_texts()]
    assert lags == sorted(lags, reverse=True)
    page.get_by_label("Filter").fill("no such group")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("No group matches the filter.").wait_for()


def test_a_group_beyond_the_end_and_a_blocked_record_are_explained(page, picture):
    filtered(page, "beyond")
    page.get_by_role("link", name="beyond", exact=True).click()
    page.get_by_text("the committed offset is 800 beyond the log's end: the topic was recreated").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("g")
    page.wait_for_url(re.compile("/groups#?$"))
    filtered(page, "parallel")
    page.get_by_role("link", name="parallel", exact=True).click()
    page.get_by_text("3 later records are already done").wait_for()
    picture("blocked")


def test_lost_records_are_named_in_the_list_and_explained_on_the_page_of_the_group(page, picture):
    filtered(page, "losing")
    page.get_by_text("40 records deleted before being read").wait_for()
    picture("losing-listed")
    page.get_by_role("link", name="losing", exact=True).click()
    page.get_by_text("removed by the topic's retention").wait_for()
    cells = {title: page.locator(f'td[data-title="{title}"]').inner_text() for title in ("Lag", "Lost", "Unfinished")}
    assert cells == {"Lag": "80", "Lost": "40", "Unfinished": "40"}
    picture("losing")


def test_a_reset_is_shown_made_and_taken_back(page, live, picture):
    filtered(page, "billing")
    page.get_by_role("link", name="billing", exact=True).click()
    page.get_by_role("link", name="Reset offsets").click()
    page.get_by_label("Set to").select_option("shift")
    page.get_by_label("Value").fill("-10")
    picture("reset")
    page.get_by_role("button", name="Show what would change").click()
    page.get_by_role("heading", name="What would change").wait_for()
    assert page.locator('td[data-title="Repeated"]').all_inner_texts() == ["10", "10", "10"]
    assert live.committed("billing") == [40, 50, 60]
    picture("plan")
    page.get_by_role("button", name="Make 3 changes to billing").click()
    page.get_by_role("heading", name="Done and verified").wait_for()
    assert live.committed("billing") == [30, 40, 50]
    picture("applied")
    page.get_by_role("link", name="Changes").click()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("heading", name="Undo: what would change").wait_for()
    page.get_by_text("30 records would be skipped").wait_for()
    picture("plan-skips")
    # The browser itself asks for the number.
    page.get_by_role("button", name="Make 3 changes to billing").click()
    assert live.committed("billing") == [30, 40, 50]
    page.get_by_label("To skip 30 records, type the number").fill("30")
    page.get_by_role("button", name="Make 3 changes to billing").click()
    page.get_by_role("heading", name="Done and verified").wait_for()
    assert live.committed("billing") == [40, 50, 60]
    page.get_by_role("link", name="Changes").click()
    page.get_by_text("undone").wait_for()
    picture("changes")


def test_a_slip_in_an_offset_is_refused_and_the_box_for_the_nearest_end_takes_it(page, address, live, picture):
    page.goto(f"{address}/c/main/reset?id=billing")
    page.get_by_label("Set to").select_option("offset")
    page.get_by_label("Value").fill("100000")
    page.get_by_role("button", name="Show what would change").click()
    page.get_by_text("offset 100,000 is 99,900 offsets after the end of the log (0 to 100)").first.wait_for()
    assert page.get_by_role("button", name=re.compile("^Make")).is_disabled()
    picture("plan-outside")
    page.goto(f"{address}/c/main/reset?id=billing")
    page.get_by_label("Set to").select_option("offset")
    page.get_by_label("Value").fill("100000")
    page.get_by_label("use the nearest end of the log").check()
    page.get_by_role("button", name="Show what would change").click()
    page.get_by_text("150 records would be skipped").wait_for()
    picture("plan-clamped")
    assert live.committed("billing") == [40, 50, 60]


def test_an_address_stays_in_one_line(page, address):
    page.goto(f"{address}/c/main/group?id=billing")
    tile = page.locator("strong.address")
    assert re.fullmatch(r"127\.0\.0\.1:\d+", tile.inner_text())
    # Found and measured in one step: the page replaces its parts every few seconds.
    found = "const element = document.querySelector('strong.address');"
    lines = "element.getBoundingClientRect().height / parseFloat(getComputedStyle(element).lineHeight)"
    assert page.evaluate(f"() => {{ {found} return {lines} }}") < 1.5
    assert page.evaluate(f"() => {{ {found} return element.scrollWidth <= element.clientWidth }}")


def test_a_group_with_a_consumer_is_not_reset(page, address, live):
    page.goto(f"{address}/c/main/reset?id=readers")
    page.get_by_text("refused until they are stopped").wait_for()
    page.get_by_role("button", name="Show what would change").click()
    page.get_by_text("This would be refused").wait_for()
    assert page.get_by_role("button", name=re.compile("^Make")).is_disabled()


def test_a_hostile_name_is_text_on_every_page(page):
    page.get_by_label("Filter").fill("onerror")
    page.get_by_role("button", name="Show").click()
    link = page.get_by_role("link", name=readable(HOSTILE), exact=True)
    # The page makes itself anew; a link that is just being replaced has no style, so it is asked again.
    pytest.importorskip("playwright.sync_api").expect(link).to_have_css("unicode-bidi", "isolate")
    link.click()
    page.get_by_role("heading", name=readable(HOSTILE)).wait_for()
    page.get_by_role("link", name="Reset offsets").click()
    page.get_by_label("Set to").select_option("latest")
    page.get_by_role("button", name="Show what would change").click()
    page.get_by_role("heading", name="What would change").wait_for()
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert page.locator("main img").count() == 0


def test_dark_follows_the_system_and_a_choice_outlives_the_page(new_page, address, picture):
    page = new_page(color_scheme="dark", viewport={"width": 1280, "height": 900})
    log_in(page, address)
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    picture("dark", page)
    page.get_by_role("button", name="Theme").click()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    assert page.evaluate(ground) == light
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


@pytest.mark.parametrize(
    "where", ["groups", "group?id=billing", "topics", "topic?id=orders", "reset?id=billing", "changes"]
)
def test_nothing_is_cut_off_on_a_phone(new_page, address, picture, where):
    page = new_page(viewport={"width": 360, "height": 740})
    log_in(page, address)
    page.goto(f"{address}/c/main/{where}")
    assert overflow(page) <= 0
    picture(f"phone-{where.partition('?')[0]}", page)


def test_pages_work_without_scripts(new_page, address):
    page = new_page(java_script_enabled=False)
    page.goto(f"{address}/login")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(re.compile("/groups#?$"))
    page.get_by_label("Filter").fill("billing")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="billing", exact=True).click()
    page.get_by_role("heading", name="billing").wait_for()


def test_without_permission_the_pages_offer_no_change(new_page, read_only_address):
    page = new_page()
    log_in(page, read_only_address)
    page.goto(f"{read_only_address}/c/main/group?id=billing")
    page.get_by_role("heading", name="billing").wait_for()
    assert page.get_by_role("link", name=re.compile("Reset|Changes")).count() == 0
