"""User code that stays away from poll: harmless below ``max.poll.interval.ms``, the end of the membership above it."""

import pytest

from tests.soak.client_parts.slow_callers import callers_below_the_limit, seconds_until_it_has_left

SESSION_S = 6.0


# covers: C25, I17
@pytest.mark.slow
def test_code_that_sleeps_computes_or_blocks_its_loop_below_the_limit_stays_a_member(kafka_like, fresh_name):
    callers = callers_below_the_limit(
        kafka_like.bootstrap, SESSION_S * 1.25, fresh_name(""), **{"session.timeout.ms": int(SESSION_S * 1000)}
    )
    for caller in callers:
        assert caller.has_kept_its_membership, caller


# covers: C26, C32
def test_a_caller_that_stays_away_above_the_limit_leaves_by_itself(kafka_like, fresh_name):
    limit_s = 2.0
    left_after, caller = seconds_until_it_has_left(kafka_like.bootstrap, limit_s, fresh_name(""))
    # The session would have kept it for 45 seconds. It joins again when it comes back.
    assert left_after >= limit_s * 0.9, caller
    assert "lost" in caller.heard
    assert len(set(caller.generations)) == 2
