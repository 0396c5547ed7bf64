"""Failures are counted by address, for a while, in a table that does not grow."""

from seamark.address_failures import AddressFailures


def counted(**options):
    now = [0.0]
    return AddressFailures(lambda: now[0], forgotten_after=60.0, **options), now


def test_failures_are_counted_by_address_and_forgotten_after_a_while():
    failures, now = counted()
    assert [failures.note("10.0.0.1") for _ in range(3)] == [1, 2, 3]
    assert failures.of("10.0.0.2")[0] == 0
    now[0] = 59.0
    assert failures.of("10.0.0.1") == (3, 59.0)
    assert failures.note("10.0.0.1") == 4
    now[0] = 120.0
    assert failures.of("10.0.0.1")[0] == 0
    assert len(failures) == 0


def test_the_addresses_of_one_ipv6_network_count_as_one():
    failures, _ = counted()
    assert [failures.note(f"2001:db8::{number:x}") for number in range(1, 4)] == [1, 2, 3]
    assert failures.note("2001:db8:0:1::1") == 1


def test_the_table_is_bounded_and_the_oldest_goes_first():
    failures, now = counted(most=100)
    for number in range(1000):
        now[0] += 0.001
        failures.note(f"10.0.{number >> 8}.{number & 255}")
    assert len(failures) == 100
    assert failures.of("10.0.0.0")[0] == 0
    assert failures.of("10.0.3.231")[0] == 1
