"""Who may see and do what: token, sessions, form secrets, and what answers tell the browser."""

import pytest

from seamark.dashboard.access import Access
from seamark.errors import ConfigError
from seamark.log_limits import LINES_OF_A_CAUSE
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


def test_an_address_with_wrong_tokens_waits_longer_each_time_and_no_other_does(dashboard_of):
    now = [0.0]
    dashboard = dashboard_of(clock=lambda: now[0])
    guesser = Browser(dashboard, "10.0.0.1")
    assert [guesser.log_in("wrong" * 5).status for _ in range(5)] == [403] * 5
    waits = []
    for _ in range(8):
        refused = guesser.log_in()
        assert refused.status == 429
        waits.append(int(refused.headers["retry-after"]))
        assert Browser(dashboard, "10.0.0.2").log_in().status == 303
        now[0] += waits[-1]
        assert guesser.log_in("wrong" * 5).status == 403
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    now[0] += 60
    assert guesser.log_in().status == 303
    # The token was right: the count starts over.
    assert guesser.log_in("wrong" * 5).status == 403
    assert guesser.log_in().status == 303


def test_wrong_tokens_are_told_in_a_few_lines_without_the_token(dashboard_of, caplog):
    now = [0.0]
    dashboard = dashboard_of(clock=lambda: now[0])
    for _ in range(30):
        now[0] += 60
        Browser(dashboard, "10.0.0.1").log_in("guess-of-the-tests")
    assert caplog.messages[0] == "the client at 10.0.0.1 sent a wrong token"
    assert len(caplog.messages) == LINES_OF_A_CAUSE
    assert "guess-of-the-tests" not in caplog.text


def test_behind_a_proxy_the_address_is_the_one_that_the_proxy_tells(dashboard_of):
    dashboard = dashboard_of(is_behind_proxy=True)
    for _ in range(5):
        Browser(dashboard).log_in("wrong" * 5, x_forwarded_for="10.0.0.2, 10.0.0.1")
    assert Browser(dashboard).log_in(x_forwarded_for="10.0.0.9, 10.0.0.1").status == 429
    assert Browser(dashboard).log_in(x_forwarded_for="10.0.0.2").status == 303
    # Without a proxy the header is anybody's word.
    dashboard = dashboard_of()
    for number in range(5):
        Browser(dashboard).log_in("wrong" * 5, x_forwarded_for=f"10.0.0.{number}")
    assert Browser(dashboard).log_in(x_forwarded_for="10.0.0.9").status == 429


@pytest.mark.parametrize(
    "host", ["evil.example.org", "evil.example.org:1", "here.evil.org", "127.0.0.1.evil.org", "x" * 9999]
)
def test_a_name_that_somebody_else_points_at_this_machine_gets_no_page(dashboard_of, host):
    browser = Browser(dashboard_of())
    answer = browser.get("/login", host=host)
    assert answer.status == 421
    assert "--allowed-host" in answer.text
    assert "secret" not in answer.text
    assert len(answer.text) < 5000
    assert answer.headers["content-security-policy"]
    assert browser.get("/healthz", host=host).status == 200


@pytest.mark.parametrize("host", ["here", "HERE:1", "localhost:8088", "127.0.0.1:8088", "[::1]:8088", "192.168.0.7"])
def test_addresses_and_the_name_that_is_listened_at_are_answered(dashboard_of, host):
    assert Browser(dashboard_of()).get("/login", host=host).status == 200


def test_an_absolute_address_is_no_page(dashboard_of):
    assert Browser(dashboard_of()).get("http://here/login").status == 400


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
    names = [access.log_in(TOKEN, "here") for _ in range(5)]
    assert [access.session(name) is not None for name in names] == [False, False, True, True, True]
