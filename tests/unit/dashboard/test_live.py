"""The stream that tells open pages of new looks."""

import asyncio
from types import SimpleNamespace

from seamark.dashboard import live
from seamark.dashboard.live import Streams
from tests.unit.dashboard.conftest import Browser


def lines_of(streams, sight, steps, is_allowed=lambda: True):
    """What one stream says while ``steps`` are done, one after each line."""

    async def listen():
        found = []
        stream = streams.of(sight, is_allowed)
        left = list(steps)
        async for line in stream:
            found.append(line)
            if not left:
                break
            left.pop(0)()
        await stream.aclose()
        return found

    return asyncio.run(listen())


def test_each_look_is_told_once(monkeypatch):
    monkeypatch.setattr(live, "_LOOK_S", 0.001)
    sight = SimpleNamespace(version="1.0")
    found = lines_of(Streams(), sight, [lambda: None, lambda: setattr(sight, "version", "2.0")])
    assert found[0].startswith(b"retry:")
    assert [line.split(b"data: ")[1] for line in found[1:]] == [b'{"version": "1.0"}\n\n', b'{"version": "2.0"}\n\n']


def test_a_quiet_stream_has_a_line_now_and_then(monkeypatch):
    monkeypatch.setattr(live, "_LOOK_S", 0.001)
    monkeypatch.setattr(live, "_BEAT_S", 0.005)
    found = lines_of(Streams(), SimpleNamespace(version="1.0"), [lambda: None, lambda: None])
    assert found[2].startswith(b":")


def test_a_stream_ends_with_its_session_and_with_the_server(monkeypatch):
    monkeypatch.setattr(live, "_LOOK_S", 0.001)
    sight = SimpleNamespace(version="1.0")
    allowed = [True]
    streams = Streams()
    steps = [lambda: None, lambda: allowed.clear(), lambda: None]
    assert len(lines_of(streams, sight, steps, lambda: bool(allowed))) == 2
    steps = [lambda: None, streams.end, lambda: None]
    assert len(lines_of(streams, sight, steps)) == 2
    assert streams.open == 0


def test_more_streams_than_there_may_be_are_refused(dashboard_of, monkeypatch):
    monkeypatch.setattr(live, "MOST_STREAMS", 0)
    browser = Browser(dashboard_of())
    browser.log_in()
    answer = browser.get("/c/main/live")
    assert (answer.status, answer.headers["retry-after"]) == (503, "30")


def test_a_stream_of_no_cluster_is_not_found(browser):
    assert browser.get("/c/none/live").status == 404


def test_the_stream_of_a_page_is_made_for_events_and_is_not_kept(dashboard_of, sight):
    sight.look_once()
    dashboard = dashboard_of()
    browser = Browser(dashboard)
    browser.log_in()
    dashboard.streams.end()
    answer = browser.get("/c/main/live")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
