"""The report as a person uses it, in a real browser: found, sorted, opened, read by pointer and by keys."""

import os
import re
import time
from pathlib import Path

import pytest

from seamark.readable_text import readable
from seamark.spark.lake.report.report import page as page_of
from tests.support.report_contents import HOSTILE, report_content

GROUPS = '#groups tbody td[data-title="Group"] a'


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The files of reports with 10 and with 5,000 groups."""
    directory = tmp_path_factory.mktemp("reports")
    for count in (10, 5_000):
        (directory / f"{count}.html").write_text(page_of(report_content(count)), encoding="utf-8")
    return directory


@pytest.fixture
def open_report(chromium, reports):
    """Open a report as a file, without any network; whatever the page complains about or asks for fails the test."""
    contexts, complaints = [], []

    def open_(count, **options):
        context = chromium.new_context(offline=True, **options)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("request", lambda asked: None if re.match("file:|data:", asked.url) else complaints.append(asked.url))
        page.goto((reports / f"{count}.html").as_uri())
        page.locator(GROUPS).first.wait_for()
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def keep(page, name):
    if directory := os.environ.get("SEAMARK_SCREENSHOTS"):
        page.screenshot(path=Path(directory) / f"{name}.png", full_page=True)


def names(page):
    return page.locator(GROUPS).all_inner_texts()


def column(page, title):
    return page.locator(f'#groups tbody td[data-title="{title}"]').all_inner_texts()


def number(text):
    """The first line of a cell; what the lag hides stands under it."""
    return int(text.splitlines()[0].replace(",", ""))


def filtered(page, text, count):
    page.keyboard.press("/")
    page.keyboard.type(text)
    page.get_by_text(re.compile(rf"^{count} of ")).wait_for()


def test_groups_are_filtered_sorted_and_paged(open_report):
    page = open_report(5_000)
    assert len(names(page)) == 50
    page.get_by_text("page 1 of 100").wait_for()
    page.get_by_role("button", name="Lag", exact=True).click()
    falling = [number(text) for text in column(page, "Lag")]
    assert falling == sorted(falling, reverse=True)
    assert falling[0] > falling[-1]
    page.get_by_role("button", name="Lag", exact=True).click()
    rising = [number(text) for text in column(page, "Lag")]
    assert rising == sorted(rising)
    assert page.locator("th[aria-sort=ascending]").inner_text().startswith("Lag")
    page.keyboard.press("]")
    page.get_by_text("page 2 of 100").wait_for()
    assert number(column(page, "Lag")[0]) >= rising[-1]
    filtered(page, "service-04321", 1)
    assert names(page) == ["team-03.service-04321"]
    page.locator("#groups-filter").fill("nothing like this")
    page.get_by_text("0 of 5,000 groups").wait_for()
    page.locator("#groups-filter").fill("")
    page.get_by_label("Show").select_option("critical")
    page.get_by_text(re.compile(r"^\d+ of 5,000 groups$")).wait_for()
    assert all("critical" in text for text in column(page, "Findings"))


def test_a_group_shows_its_charts_and_they_can_be_read(open_report):
    page = open_report(10)
    keep(page, "report-10-groups")
    lost, well = column(page, "Lag")[0], column(page, "Lag")[-1]
    assert re.search(r"^[\d,]+ lost\n[\d,]+ unfinished$", lost, re.MULTILINE)
    assert "\n" not in well
    page.get_by_role("link", name="team-00.service-00000").click()
    page.get_by_role("heading", name="team-00.service-00000").wait_for()
    for heading in (
        "Findings",
        "Lag over time",
        "Commits over time",
        "Members and rebalances",
        "Distribution of work",
        "Partitions",
    ):
        assert page.get_by_role("heading", name=heading).count() >= 1, heading
    chart = page.get_by_role("img", name=re.compile("^Lag of team-00.service-00000 over time: at most"))
    chart.hover()
    assert re.search(r"2025-11-\d\d \d\d:\d\d:\d\d\nall partitions: [\d,]+\n", page.locator("#tip").inner_text())
    curves = chart.locator("path.curve").count()
    page.get_by_role("button", name=re.compile(r"topic-\d+-0$")).first.click()
    assert page.get_by_role("img", name=re.compile("^Lag of")).locator("path.curve").count() == curves - 1
    heat = page.get_by_role("img", name=re.compile("^Commits of team-00.service-00000 over time"))
    heat.hover()
    page.locator("#tip", has_text=re.compile(r"topic-\d+-\d: \d+ commits in 6m")).wait_for()
    heat.focus()
    page.keyboard.press("ArrowLeft")
    page.locator("#tip", has_text="all partitions").wait_for()
    keep(page, "report-10-group")
    page.keyboard.press("Escape")
    page.locator(GROUPS).first.wait_for()


def test_the_numbers_of_a_partition_add_up_as_the_page_says(open_report):
    page = open_report(10)
    page.goto(page.url + "#/group/0")
    page.get_by_role("heading", name="Partitions").wait_for()
    rows = page.locator("table", has_text="First offset").locator("tbody tr")
    assert rows.count() == 4
    for row in rows.all():
        cells = {
            title: number(row.locator(f'td[data-title="{title}"]').inner_text())
            for title in ("Committed", "Lag", "Log end", "First offset", "Read", "Moved", "Last offset")
        }
        assert cells["Committed"] + cells["Lag"] == cells["Log end"]
        assert cells["First offset"] + cells["Read"] + cells["Moved"] == cells["Last offset"]
    page.get_by_text("First offset + read + moved = last offset").wait_for()
    page.get_by_role(
        "heading", name="Distribution of work: records written from the first to the last sample"
    ).wait_for()
    keep(page, "report-10-sums")


def test_a_gap_in_what_is_known_is_no_line(open_report):
    page = open_report(10)
    page.goto(page.url + "#/group/0")
    curve = page.get_by_role("img", name=re.compile("^Lag of")).locator("path.curve.s0")
    assert curve.get_attribute("d").count("M") == 2


def test_findings_are_filtered_and_lead_to_their_group(open_report):
    page = open_report(5_000)
    page.keyboard.press("f")
    page.get_by_text(re.compile(r"^\d+ of \d+ findings")).wait_for()
    kinds = page.locator("#findings .finding .badge").all_inner_texts()
    assert kinds == sorted(kinds, key=["critical", "warning", "notice"].index)
    page.get_by_label("Kind").select_option("rewind")
    page.get_by_text("rewind", exact=True).first.wait_for()
    assert set(page.locator("#findings .kind").all_inner_texts()) == {"rewind"}
    keep(page, "report-5000-findings")
    link = page.locator("#findings a").first
    name = link.inner_text()
    link.click()
    page.get_by_role("heading", name=name).wait_for()
    page.go_back()
    page.locator("#findings .finding").first.wait_for()


def test_everything_can_be_reached_by_keys(open_report):
    page = open_report(10)
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == "team-00.service-00000"
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="team-00.service-00000").wait_for()
    page.keyboard.press("g")
    page.locator(GROUPS).first.wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_a_hostile_name_is_a_name_and_nothing_more(open_report):
    page = open_report(10)
    assert readable(HOSTILE) in names(page)
    link = page.get_by_role("link", name=readable(HOSTILE))
    assert link.evaluate("link => getComputedStyle(link).unicodeBidi") == "isolate"
    keep(page, "hostile")
    link.click()
    page.get_by_role("heading", name=readable(HOSTILE)).wait_for()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    policy = page.locator('meta[http-equiv="Content-Security-Policy"]').get_attribute("content")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_a_report_of_5000_groups_is_small_and_usable_within_3_seconds(open_report, reports):
    assert (reports / "5000.html").stat().st_size < 15_000_000
    page = open_report(5_000, viewport={"width": 1280, "height": 900})
    # From the navigation to a filtered list, what a person waits for; the best of three, as other tests run beside it.
    taken = []
    while len(taken) < 3 and min(taken, default=9) >= 3.0:
        begin = time.monotonic()
        page.reload()
        page.locator(GROUPS).first.wait_for()
        filtered(page, "service-04999", 1)
        taken.append(time.monotonic() - begin)
    assert min(taken) < 3.0
    page.locator("#groups-filter").fill("")
    page.get_by_text("5,000 of 5,000 groups").wait_for()
    keep(page, "report-5000-groups")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_systems_colours_and_fits_a_narrow_screen(open_report, scheme):
    page = open_report(10, color_scheme=scheme, viewport={"width": 380, "height": 800})
    for width in (1100, 960, 700, 380):
        page.set_viewport_size({"width": width, "height": 800})
        for view in ("#/groups", "#/findings", "#/group/0"):
            page.goto(page.url.partition("#")[0] + view)
            over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert over <= 0, (width, view)
    keep(page, f"report-narrow-{scheme}")
    red, green, blue = map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor")))
    assert (red + green + blue < 200) == (scheme == "dark")
    wide = open_report(10, color_scheme=scheme, viewport={"width": 1280, "height": 900})
    wide.goto(wide.url + "#/group/0")
    keep(wide, f"report-group-{scheme}")
