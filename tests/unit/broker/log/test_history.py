"""Leader epochs and producers: what the batches of a log say about who wrote them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.broker.log.history import LeaderEpochs, ProducerStates
from seamark.broker.refusals import RequestRefused

INT32_MAX = 2**31 - 1


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=12))
def test_epochs_say_who_wrote_an_offset_as_a_plain_list_would(steps):
    epochs, written, epoch, end = LeaderEpochs(), [], 0, 0
    for bump, records in steps:
        epoch += bump
        epochs.begin(epoch, end)
        written += [epoch] * records
        end += records
    assert [epochs.epoch_of(offset) for offset in range(end)] == written
    for asked in range(epoch + 1):
        found, last = epochs.end_of(asked, end)
        if found in written:
            assert last == len(written) - written[::-1].index(found)
            assert not [each for each in written if found < each <= asked]


def test_epochs_below_the_start_of_the_log_are_forgotten():
    epochs = LeaderEpochs()
    for epoch, start in ((0, 0), (1, 10), (2, 20)):
        epochs.begin(epoch, start)
    epochs.forget_before(15)
    assert epochs.entries == [(1, 15), (2, 20)]
    assert epochs.end_of(0, 30) == (0, 15)


def test_sequences_wrap_behind_the_largest_number():
    states = ProducerStates()
    states.note(1, 0, INT32_MAX - 1, 2, 0, 1, 5)
    assert states.check(1, 0, 0, 3) is None
    states.note(1, 0, INT32_MAX, 2, 2, 3, 5)
    assert states.check(1, 0, INT32_MAX, 2).first_offset == 2
    with pytest.raises(RequestRefused):
        states.check(1, 0, 0, 1)
    assert states.check(1, 0, 1, 1) is None


def test_a_producer_nobody_remembers_may_go_on_anywhere():
    assert ProducerStates().check(8, 3, 55, 1) is None
