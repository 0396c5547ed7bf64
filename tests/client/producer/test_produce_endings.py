"""What becomes of records when nobody looks: programs that just end, producers that are dropped, refusals unheard."""

import asyncio
import gc
import logging
import signal
import subprocess
import sys
import threading

import pytest

from seamark.client import AsyncProducer, Producer
from seamark.client.admin.types import NewTopic
from seamark.client.errors import BrokerError, DeliveryFailed, DeliveryTimedOut, OperationTimedOut
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.waiting import eventually

# Nothing is sent before somebody waits for it: what arrives did so because of how the producer ended.
LINGERS = {"linger_ms": 60_000, "delivery_timeout_ms": 120_000}
SETTINGS = "linger_ms=60_000, delivery_timeout_ms=120_000"
TOO_LARGE = b"x" * 30_000


@pytest.fixture
def topic(admin, fresh_name):
    name = fresh_name("endings")
    admin.create_topics([NewTopic(name, 1, 1, {"max.message.bytes": "20000"})]).raise_if_failed()
    return name


@pytest.fixture
def said_of(caplog):
    """What the client logged about a topic; other clients and threads of the run may have lines of their own."""

    def find(topic):
        lines = [record for record in caplog.records if record.name == "seamark.client"]
        return [record for record in lines if f"topic {topic!r}" in record.getMessage()]

    return find


@pytest.fixture
def run_program(kafka_like, topic):
    """Run a program of its own; ``bootstrap`` and ``topic`` are defined in it."""

    def run(text, bootstrap=None, seconds=100):
        head = (
            "import asyncio, multiprocessing, os, sys, threading\n"
            "from seamark.client import AsyncProducer, Producer\n"
            f"bootstrap, topic = {bootstrap or kafka_like.bootstrap!r}, {topic!r}\n"
        )
        return subprocess.run([sys.executable, "-c", head + text], capture_output=True, text=True, timeout=seconds)

    return run


# -- the end of a program


@pytest.mark.parametrize(
    ("ending", "statuses"),
    [
        ("", {0}),
        ("sys.exit(3)", {3}),
        # Python ends itself by the signal, unless code from a text was run at the end, as a dataclass is made.
        ("raise KeyboardInterrupt", {-signal.SIGINT, 1}),
        ("raise RuntimeError('the program failed')", {1}),
    ],
)
def test_a_program_that_ends_in_any_way_delivers_what_it_sent(run_program, topic, end_of, ending, statuses):
    ran = run_program(
        f"producer = Producer(bootstrap_servers=bootstrap, {SETTINGS})\n"
        f"for number in range(1000): producer.send(topic, b'%d' % number)\n{ending}"
    )
    assert ran.returncode in statuses, ran.stderr
    assert end_of(topic) == 1000
    assert "seamark" not in ran.stderr.replace("the program failed", "")


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            "def work():\n"
            "    def send(): producer = PRODUCER; [producer.send(topic, b'x') for _ in range(1000)]\n"
            "    send()\n"
            "work()",
            id="dropped before the end",
        ),
        pytest.param("PRODUCER.send_many(topic, [b'x'] * 1000)", id="send_many"),
        pytest.param(
            "def work():\n"
            "    import time; time.sleep(1)\n"
            "    for _ in range(1000): producer.send(topic, b'x')\n"
            "producer = PRODUCER\n"
            "threading.Thread(target=work).start()",
            id="another thread outlives the main one",
        ),
        pytest.param(
            "def work():\n"
            "    import time\n"
            "    for _ in range(999): producer.send(topic, b'x'); time.sleep(0.0005)\n"
            "producer = PRODUCER\n"
            "producer.send(topic, b'x')\n"
            "threading.Thread(target=work).start()",
            id="another thread goes on sending",
        ),
        pytest.param(
            "async def work():\n"
            "    global producer\n"
            "    producer = ASYNC\n"
            "    for _ in range(1000): await producer.send(topic, b'x')\n"
            "asyncio.run(work())",
            id="an event loop that ended",
        ),
        pytest.param(
            "def work():\n"
            "    producer = PRODUCER\n"
            "    for _ in range(1000): producer.send(topic, b'x')\n"
            "process = multiprocessing.get_context('fork').Process(target=work)\n"
            "process.start(); process.join(); sys.exit(process.exitcode)",
            id="a child process of multiprocessing",
        ),
    ],
)
def test_records_sent_anywhere_in_a_program_arrive(run_program, topic, end_of, program):
    text = program.replace("PRODUCER", f"Producer(bootstrap_servers=bootstrap, {SETTINGS})")
    ran = run_program(text.replace("ASYNC", f"AsyncProducer(bootstrap_servers=bootstrap, {SETTINGS})"))
    assert ran.returncode == 0, ran.stderr
    assert end_of(topic) == 1000
    assert ran.stderr == ""


def test_callbacks_run_before_the_program_ends(run_program, topic, end_of):
    ran = run_program(
        f"producer = Producer(bootstrap_servers=bootstrap, {SETTINGS})\n"
        "for _ in range(3): producer.send(topic, b'x', on_delivery=lambda *found: print(found[0].offset))"
    )
    assert ran.stdout.split() == ["0", "1", "2"], ran.stderr


def test_a_program_that_ends_says_what_was_refused(run_program, topic):
    ran = run_program(
        "producer = Producer(bootstrap_servers=bootstrap)\n"
        "kept = [producer.send(topic, b'x' * 30_000) for _ in range(3)]"
    )
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"3 of 3 records were not delivered: 3 to topic {topic!r}: "), line
    assert "MESSAGE_TOO_LARGE" in line


def test_a_program_whose_broker_is_gone_ends_within_delivery_timeout_ms_and_says_what_was_lost(run_program, topic):
    ran = run_program(
        "from seamark import Broker\n"
        "broker = Broker()\n"
        "producer = Producer(bootstrap_servers=broker.bootstrap, linger_ms=0, delivery_timeout_ms=3000,\n"
        "                    request_timeout_ms=1000)\n"
        "producer.send(topic, b'x').result(20)\n"
        "broker.close()\n"
        "for _ in range(1000): producer.send(topic, b'x')"
    )
    assert ran.returncode == 0
    last = ran.stderr.splitlines()[-1]
    assert last.startswith(f"1000 of 1001 records were not delivered: 1000 to topic {topic!r}: "), ran.stderr
    assert "not acknowledged within 3 s" in last


def test_ctrl_c_at_the_end_of_a_program_gives_up_and_says_what_was_lost(kafka_like, topic):
    program = (
        "import signal, sys\n"
        "from seamark.client import Producer\n"
        # A shell that starts tests in the background has them ignore the signal.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "producer = Producer(bootstrap_servers=sys.argv[1])\n"
        "producer._sender._send_round = lambda now: False\n"
        "for _ in range(10): producer.send(sys.argv[2], b'x')\n"
    )
    command = [sys.executable, "-c", program, kafka_like.bootstrap, topic]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        waits = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert waits.startswith("delivering 10 records before the program ends")
    assert said.startswith(f"10 of 10 records were not delivered: 10 to topic {topic!r}: "), said
    assert "interrupted" in said


def test_what_is_sent_too_late_to_be_waited_for_is_counted_in_the_log(run_program):
    ran = run_program(
        "import atexit\n"
        f"producer = Producer(bootstrap_servers=bootstrap, {SETTINGS})\n"
        "producer.partitions_for(topic)\n"
        # As a daemon thread might send, when the last wait is over.
        "def be_late():\n"
        "    producer._sender._send_round = lambda now: False\n"
        "    producer._sender.failures.log_rest = lambda: producer.send(topic, b'x')\n"
        "atexit.register(be_late)"
    )
    assert ran.stderr.splitlines() == [
        "the program ends with 1 record in flight, which were sent during shutdown and not waited for"
    ]


# -- a producer that is dropped


@pytest.mark.parametrize("kind", [Producer, AsyncProducer])
def test_a_producer_that_is_collected_goes_on_delivering(options, topic, end_of, kind):
    async def send_and_drop():
        producer = kind(**options, **LINGERS)
        for _ in range(100):
            sent = producer.send(topic, b"x")
            if kind is AsyncProducer:
                await sent

    asyncio.run(send_and_drop())
    gc.collect()
    eventually(lambda: end_of(topic) == 100, "the delivery of what a dropped producer had")


# -- refusals that nobody looks at


def test_flush_raises_how_many_records_were_refused_and_why(options, topic, end_of):
    producer = Producer(**options)
    for _ in range(7):
        producer.send(topic, b"small")
    for _ in range(3):
        producer.send(topic, TOO_LARGE)
    with pytest.raises(
        DeliveryFailed, match=f"^3 of 10 records were not delivered: 3 to topic '{topic}': .*TOO_LARGE"
    ) as failed:
        producer.flush(30)
    assert (failed.value.count, failed.value.sent) == (3, 10)
    assert isinstance(failed.value.__cause__, BrokerError)
    assert end_of(topic) == 7
    producer.flush(30)
    producer.close()


@pytest.mark.parametrize("call", ["send", "send_many"])
def test_the_end_of_with_raises_what_was_refused(options, topic, call):
    with pytest.raises(DeliveryFailed, match=r"^1 of 1 record"), Producer(**options) as producer:
        producer.send(topic, TOO_LARGE) if call == "send" else producer.send_many(topic, [TOO_LARGE])
    assert producer.is_closed


def test_the_awaitable_producer_raises_what_was_refused(options, topic):
    async def flush():
        producer = AsyncProducer(**options)
        await producer.send(topic, TOO_LARGE)
        with pytest.raises(DeliveryFailed, match=r"^1 of 1 record"):
            await producer.flush(30)
        await producer.close()

    async def leave():
        async with AsyncProducer(**options) as producer:
            await producer.send_many(topic, [TOO_LARGE, b"small", TOO_LARGE])

    asyncio.run(flush())
    with pytest.raises(DeliveryFailed, match=r"^2 of 3 records"):
        asyncio.run(leave())


async def _awaited(delivery):
    return await delivery


@pytest.mark.parametrize("look", ["result", "exception", "await", "callback", "run"])
def test_a_refusal_that_somebody_looked_at_is_not_raised_or_logged_again(options, topic, said_of, look):
    heard = []
    with Producer(**options) as producer:
        if look == "callback":
            producer.send(topic, TOO_LARGE, on_delivery=lambda delivered, error: heard.append(error))
        elif look == "run":
            with pytest.raises(BrokerError):
                producer.send_many(topic, [TOO_LARGE, b"small", TOO_LARGE]).result(20)
        elif look == "exception":
            assert producer.send(topic, TOO_LARGE).exception(20)
        elif look == "await":
            with pytest.raises(BrokerError):
                asyncio.run(_awaited(producer.send(topic, TOO_LARGE)))
        else:
            with pytest.raises(BrokerError):
                producer.send(topic, TOO_LARGE).result(20)
        producer.flush(30)
    assert said_of(topic) == []
    assert look != "callback" or heard[0].code is ErrorCode.MESSAGE_TOO_LARGE


def test_what_flush_raised_is_still_in_the_deliveries_and_not_raised_again(options, topic, said_of):
    with Producer(**options) as producer:
        seen, unseen = producer.send(topic, TOO_LARGE), producer.send(topic, TOO_LARGE)
        assert seen.exception(20)
        with pytest.raises(DeliveryFailed, match=r"^1 of 2 records"):
            producer.flush(30)
        assert isinstance(unseen.exception(0), BrokerError)
        producer.flush(30)
    assert said_of(topic) == []


def test_each_of_two_threads_that_flush_hears_of_the_refusal(options, topic):
    producer = Producer(**options, **LINGERS)
    producer._sender._send_round = lambda now: False
    delivery = producer.send(topic, TOO_LARGE)
    raised = []

    def flush():
        with pytest.raises(DeliveryFailed, match=r"^1 of 1 record") as failed:
            producer.flush(60)
        raised.append(failed.value)

    threads = [threading.Thread(target=flush) for _ in range(2)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(delivery._outcome._waiters) == 2, "both threads waiting")
    del producer._sender._send_round
    producer._sender.nudge()
    for thread in threads:
        thread.join()
    assert len(raised) == 2
    producer.close()


def test_refusals_whose_deliveries_were_dropped_are_logged_once_per_topic_and_cause(options, topic, said_of):
    producer = Producer(**options)
    for _ in range(5):
        producer.send(topic, TOO_LARGE)
    eventually(lambda: said_of(topic), "the refusals being logged")
    for _ in range(5):
        producer.send(topic, TOO_LARGE)
    with pytest.raises(DeliveryFailed, match=r"^10 of 10 records"):
        producer.close()
    (line,) = said_of(topic)
    assert f"to topic {topic!r}: " in line.getMessage()
    assert "MESSAGE_TOO_LARGE" in line.getMessage()


def test_an_error_inside_with_is_the_one_raised_and_records_still_go_out(options, topic, end_of, said_of):
    def work():
        with Producer(**options, **LINGERS) as producer:
            producer.send(topic, b"small")
            producer.send(topic, TOO_LARGE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert end_of(topic) == 1
    (line,) = said_of(topic)
    assert line.getMessage().startswith(f"1 of 2 records were not delivered: 1 to topic {topic!r}: ")


def test_closing_early_raises_how_many_records_it_gave_up(options, topic):
    producer = Producer(**options, **LINGERS)
    # Nothing goes out, as if the brokers did not answer.
    producer._sender._send_round = lambda now: False
    kept = [producer.send(topic, b"x") for _ in range(10)]
    with pytest.raises(DeliveryFailed, match=r"^10 of 10 records .* closing the producer did not finish within 0\.2 s"):
        producer.close(0.2)
    assert isinstance(kept[0].exception(0), OperationTimedOut)
    producer.close()


def test_a_flush_in_vain_says_so_and_close_raises_what_was_lost(options, topic):
    producer = Producer(**options, linger_ms=0, request_timeout_ms=500, delivery_timeout_ms=1000)
    producer._sender._send_round = lambda now: False
    producer.send(topic, b"x")
    with pytest.raises(OperationTimedOut, match="flushing the producer"):
        producer.flush(0.1)
    with pytest.raises(DeliveryFailed, match=r"^1 of 1 record was not delivered") as failed:
        producer.close()
    assert isinstance(failed.value.__cause__, DeliveryTimedOut)


def test_an_interrupt_while_closing_ends_it_and_says_what_was_lost(options, topic, said_of, monkeypatch):
    producer = Producer(**options, **LINGERS)
    delivery = producer.send(topic, b"x")
    producer._sender._send_round = lambda now: False

    def interrupted(outcome, timeout):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(delivery._outcome), "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        producer.close()
    monkeypatch.undo()
    (line,) = said_of(topic)
    assert line.levelno == logging.ERROR
    assert line.getMessage().startswith("1 of 1 record was not delivered: ")
