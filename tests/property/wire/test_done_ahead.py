"""A done-ahead map says "done" for what was done, for nothing else, and for nothing that it was not written for."""

from hypothesis import given, settings
from hypothesis import strategies as st

from seamark.wire.offsets.done_ahead import MAX_LENGTH, DoneAhead, decode, encode, encoded_size

bases = st.integers(0, 1 << 20) | st.integers(0, (1 << 62))


@st.composite
def maps(draw):
    """Few long runs, scattered offsets, dense windows with holes, repeated patterns."""
    base = draw(bases)
    widths = draw(st.sampled_from([2, 5, 130, 20_000, 1 << 40]))
    gaps = st.integers(1, draw(st.sampled_from([1, 2, 9, 200, 1 << 35])))
    pairs = draw(st.lists(st.tuples(gaps, st.integers(1, widths)), max_size=60))
    pairs *= draw(st.sampled_from([1, 1, 1, 7, 40]))
    position = base + draw(st.integers(0, 3))
    ranges = []
    for gap, width in pairs:
        start = position + gap
        position = start + width
        ranges.append((start, position))
    return DoneAhead(base, ranges)


def head(done, count):
    """The map of the lowest ``count`` offsets, by the definition."""
    ranges = []
    for start, stop in done.ranges:
        taken = min(stop - start, count)
        if not taken:
            break
        ranges.append((start, start + taken))
        count -= taken
    return DoneAhead(done.base, ranges)


@settings(max_examples=400, deadline=None)
@given(maps())
def test_what_is_written_is_read_and_its_size_was_known(done):
    encoded = encode(done.base, done, MAX_LENGTH)
    assert (encoded.kept, encoded.dropped) == (done.count, 0)
    assert len(encoded.text) == encoded_size(done.base, done)
    assert encoded.text.isascii()
    assert (decode(encoded.text, done.base) or DoneAhead(done.base)) == done


@settings(max_examples=300, deadline=None)
@given(bases, st.sets(st.integers(1, 400)))
def test_exactly_the_done_offsets_are_in_the_map(base, distances):
    done = {base + distance for distance in distances}
    found = decode(encode(base, done).text, base) or DoneAhead(base)
    assert {offset for offset in range(base - 1, base + 402) if offset in found} == done
    assert list(found) == sorted(done)
    assert found.count == len(done)
    assert found == DoneAhead.of_offsets(base, done)


@settings(max_examples=400, deadline=None)
@given(maps(), st.integers(0, 300) | st.sampled_from([126, 4096]))
def test_under_a_limit_the_lowest_offsets_are_kept(done, limit):
    encoded = encode(done.base, done, limit)
    assert len(encoded.text) <= limit
    assert encoded.kept + encoded.dropped == done.count
    assert (decode(encoded.text, done.base) or DoneAhead(done.base)) == head(done, encoded.kept)
    if encoded_size(done.base, done) <= limit:
        assert encoded.dropped == 0


@settings(max_examples=200, deadline=None)
@given(bases, st.sets(st.integers(1, 300), min_size=1), st.integers(10, 60))
def test_no_more_of_the_lowest_offsets_would_have_fitted_undeflated(base, distances, limit):
    done = sorted(base + distance for distance in distances)
    kept = encode(base, done, limit).kept
    for more in range(kept + 1, len(done) + 1):
        assert encoded_size(base, done[:more]) > limit or encode(base, done[:more]).text[3].isupper()


@settings(max_examples=500, deadline=None)
@given(st.text() | st.text().map("sm1".__add__) | st.text("sm12rdhbRDHB0az~", max_size=40).map("sm1r".__add__), bases)
def test_foreign_text_is_no_map(text, base):
    assert decode(text, base) is None


@settings(max_examples=400, deadline=None)
@given(maps().filter(bool), st.data())
def test_a_changed_text_is_no_map(done, data):
    text = encode(done.base, done).text
    position = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.characters())
    changed = text[:position] + character + text[position + 1 :]
    assert decode(changed, done.base) in (None, done)
    if changed != text:
        assert decode(changed, done.base) is None
    assert decode(text[:position], done.base) is None
    # librdkafka ends metadata with a null character.
    assert decode(text + character, done.base) == (done if character == "\0" else None)


@settings(max_examples=300, deadline=None)
@given(maps().filter(bool), bases)
def test_a_map_is_only_applied_to_the_offset_it_was_written_for(done, other):
    if other != done.base:
        assert decode(encode(done.base, done).text, other) is None
