"""Who may see and do what: token, sessions, form secrets, and what answers tell the browser."""

import pytest

from seamark.dashboard.access import Access
from seamark.errors import ConfigError
from tests.unit.dashboard.conftest import TOKEN, Browser


@pytest.mark.parametrize("address", ["/", "/c/main/groups", "/c/main/group?id=billing", "/c/main/topics", "/nowhere"])
def test_without_a_session_every_page_leads_to_the_login(dashboard_of, sight, address):
    sight.look_once()
    answer = Browser(dashboard_of()).get(address)
    assert (answer.status, answer.headers["location"]) == (303, "/login")
    assert "billing" not in answer.text


def test_without_a_session_nothing_is_streamed_and_nothing_is_changed(dashboard_of, cluster, sight, tmp_path):
    browser = Browser(dashboard_of(plans=tmp_path))
    assert browser.get("/c/main/live").status == 403
    for action in ("plan", "apply", "undo"):
        assert browser.post(f"/c/main/{action}", {"id": "billing", "way": "earliest", "topic": "orders"}).status == 303
    assert "alter" not in cluster.asked


def test_the_token_gives_a_session_in_a_cookie_that_scripts_and_other_sites_cannot_use(dashboard_of):
    browser = Browser(dashboard_of())
    answer = browser.log_in()
    (cookie,) = [each for each in answer.set_cookies if each.startswith("seamark-session=")]
    assert answer.status == 303
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie
    assert TOKEN not in cookie


def test_over_tls_cookies_are_secure_and_the_browser_is_told_to_stay_with_it(dashboard_of):
    answer = Browser(dashboard_of(is_secure=True)).log_in()
    assert all("Secure" in each for each in answer.set_cookies if "max-age=0" not in each.lower())
    assert answer.headers["strict-transport-security"]


def test_wrong_tokens_are_refused_and_after_ten_even_the_right_one_until_a_minute_is_over(dashboard_of):
    now = [0.0]
    browser = Browser(dashboard_of(clock=lambda: now[0]))
    assert [browser.log_in("wrong" * 5).status for _ in range(10)] == [403] * 10
    assert browser.log_in().status == 429
    now[0] = 61.0
    assert browser.log_in().status == 303


def test_a_session_ends_after_twelve_hours_and_with_the_log_out(dashboard_of, sight):
    now = [0.0]
    sight.look_once()
    browser = Browser(dashboard_of(clock=lambda: now[0]))
    browser.log_in()
    now[0] = 11.9 * 3600
    assert browser.get("/c/main/groups").status == 200
    now[0] = 12 * 3600 + 1
    assert browser.get("/c/main/groups").status == 303
    browser.log_in()
    stolen = dict(browser.cookies)
    browser.get("/c/main/groups")
    assert browser.post("/logout").status == 303
    browser.cookies = stolen
    assert browser.get("/c/main/groups").status == 303


def test_a_login_form_of_another_site_is_refused(dashboard_of):
    browser = Browser(dashboard_of())
    browser.get("/login")
    assert browser.post("/login", {"token": TOKEN}, with_secret=False).status == 403
    browser.get("/login")
    assert browser.post("/login", {"token": TOKEN}, origin="http://evil").status == 403


@pytest.mark.parametrize("action", ["plan", "apply", "undo"])
@pytest.mark.parametrize("how", ["no secret", "origin", "fetch site"])
def test_a_form_that_is_not_from_this_page_changes_nothing(changing_browser, cluster, action, how):
    changing_browser.get("/c/main/groups")
    fields = {"id": "billing", "way": "earliest", "topic": "orders", "digest": "x", "plan": "x"}
    headers = {"origin": {"origin": "http://evil"}, "fetch site": {"sec_fetch_site": "cross-site"}}.get(how, {})
    answer = changing_browser.post(f"/c/main/{action}", fields, with_secret=how != "no secret", **headers)
    assert answer.status == 403
    assert "not from this page" in answer.text
    assert "alter" not in cluster.asked


def test_a_huge_form_is_not_read_to_its_end(changing_browser):
    assert changing_browser.post("/c/main/plan", {"id": "x" * 100_000}).status == 413


@pytest.mark.parametrize("address", ["/login", "/c/main/groups", "/nowhere", "/static/seamark.js", "/healthz"])
def test_every_answer_forbids_what_is_not_ours(browser, address):
    headers = browser.get(address).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert (headers.get("cache-control") == "no-store") == (not address.startswith("/static/"))


def test_a_short_token_is_not_taken():
    with pytest.raises(ConfigError) as refused:
        Access("short", lambda: 0.0)
    assert "short'" not in str(refused.value)


def test_only_so_many_sessions_are_kept(monkeypatch):
    monkeypatch.setattr("seamark.dashboard.access.MOST_SESSIONS", 3)
    access = Access(TOKEN, lambda: 0.0)
    names = [access.log_in(TOKEN) for _ in range(5)]
    assert [access.session(name) is not None for name in names] == [False, False, True, True, True]
