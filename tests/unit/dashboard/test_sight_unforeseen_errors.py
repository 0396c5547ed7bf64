"""What nobody foresaw while a cluster is looked at is on its pages, beside the last good look, and passes."""


def test_it_is_shown_as_the_clusters_error_until_a_look_succeeds(cluster, sight, browser, monkeypatch):
    def broken(*args, **options):
        raise KeyError("orders")

    with monkeypatch.context() as patched:
        patched.setattr(cluster, "describe_groups", broken)
        before = sight.version
        sight.look_once()
    text = browser.get("/c/main/groups").text
    assert "The last poll failed: unexpected KeyError: &#x27;orders&#x27;" in text
    assert "billing" in text
    assert sight.version != before
    sight.look_once()
    assert "The last poll failed" not in browser.get("/c/main/groups").text


def test_a_board_that_cannot_be_made_leaves_the_last_one_with_the_reason(sight, browser, monkeypatch):
    def broken(*args, **options):
        raise ZeroDivisionError("division by zero")

    with monkeypatch.context() as patched:
        patched.setattr("seamark.dashboard.sight.make_board", broken)
        sight.look_once()
    text = browser.get("/c/main/groups").text
    assert "The last poll failed: unexpected ZeroDivisionError: division by zero" in text
    assert "billing" in text
