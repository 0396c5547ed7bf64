"""Values of options that are no address, number or time: each is answered with one short sentence and code 2."""

import pytest

from seamark import Broker

HUGE = "9" * 5000
ADDRESSES = ["", "[", "[::1", "a b", "h:", ":1", "h:65536", "h:-1", f"h:{HUGE}", "h:\u00b2", "x" * 5000]


@pytest.fixture(scope="module")
def cluster():
    with Broker() as broker:
        broker.create_topic("orders")
        yield broker


def is_one_short_sentence(err):
    # A client of an earlier test in this process may still look for its broker, and say so.
    lines = [line for line in err.splitlines() if "still trying" not in line]
    return len(lines) == 1 and lines[0].startswith("seamark: ") and len(lines[0]) < 1000


@pytest.mark.parametrize(
    "words",
    [
        *(["exporter", "--listen", each] for each in ADDRESSES),
        *(["dashboard", "--listen", each] for each in ADDRESSES),
        *(["broker", "--listen", each] for each in ADDRESSES),
        *(["broker", "--listen", "127.0.0.1:0", "--metrics", each] for each in ADDRESSES[1:]),
        *(["lag", "--bootstrap", each] for each in ("h:65536", f"h:{HUGE}", "h:-1", "[::1", "h:\u00b2")),
        *(["dashboard", "--cluster", f"a={each}"] for each in ("h:65536", f"h:{HUGE}", "h:-1", "[::1")),
        *(["exporter", "--every", each] for each in ("0s", "-1s", "", "1e9s", f"{HUGE}d", "999999999d", "\u00b2s")),
        *(["exporter", "--allowed-host", each] for each in ("*", "", "a b", "a:1", "x" * 5000)),
        *(["dashboard", "--allowed-host", each] for each in ("*", "*.org", "a b")),
        *(["dashboard", "--alert-over", each] for each in ("-1", "1.5", "soon", HUGE, "\u00b2")),
        *(["consume", "orders", "--from", f"offset:{each}"] for each in ("", "-1", "\u00b2", HUGE)),
        *(["consume", "orders", "--from", f"time:{each}"] for each in ("", "noon", "99999999999", HUGE)),
        *(["consume", "orders", "--from", f"ago:{each}"] for each in ("", "soon", f"{HUGE}d")),
        *(["consume", "orders", "--limit", each] for each in ("-1",)),
        *(["dead-letters", "show", "orders", "--at", each] for each in ("0", "\u00b2:1", "1:\u00b2", f"0:{HUGE}", ":")),
        *(["groups", "reset", "g", "--topic", f"orders:{each}", "--to", "latest"] for each in ("\u00b2", HUGE, "-1")),
        *(["groups", "reset", "g", "--topic", "orders", "--to", f"offset:{each}"] for each in ("", "\u00b2", HUGE)),
        *(["migrate", "zookeeper-to-kafka", "--all", "--zookeeper", each] for each in ("h:65536", f"h:{HUGE}", ":1")),
    ],
    ids=lambda words: " ".join(word[:20] for word in words),
)  # fmt: skip
def test_a_value_that_is_none_is_one_short_sentence(run, words):
    ran = run(*words)
    assert ran.code == 2, ran
    assert is_one_short_sentence(ran.err), ran.err[:2000]
    assert ran.out == ""


@pytest.mark.parametrize("where", ["time:0001-01-01", "time:9999-12-31T23:59:59-23:59", "ago:99999999d"])
def test_times_far_away_are_times(run, where):
    assert run("consume", "orders", "--from", where) == (0, "", "")
