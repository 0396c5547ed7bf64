"""The confluent-kafka adapter at its end: dead letters that are not acknowledged are said to be left."""

from seamark.parallel.adapters.confluent import ConfluentPort


class NeverAcknowledged:
    def flush(self, timeout):
        return 3


class Closed:
    def close(self):
        pass


def test_dead_letters_that_are_not_acknowledged_at_the_end_are_counted_in_the_log(caplog):
    port = object.__new__(ConfluentPort)
    port._consumer, port._producer = Closed(), NeverAcknowledged()
    port.close(0.5)
    (message,) = caplog.messages
    assert message.startswith("3 dead letters were not acknowledged within 0.5 s; their records are not committed")
