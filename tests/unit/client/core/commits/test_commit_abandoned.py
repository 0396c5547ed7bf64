"""A blocking commit that its caller stopped waiting for is never sent again: it could overwrite a later one."""

from seamark.client.errors import ConnectionFailed, RetriableCommitFailed
from seamark.client.records import Offset
from seamark.wire.protocol.error_codes import ErrorCode
from tests.support.membership_driver import tp
from tests.unit.client.core.commits.test_commits import CommitDriver

T0 = tp("t-0")


# covers: I28
def test_a_commit_that_backs_off_is_not_retried_once_it_is_abandoned():
    driver = CommitDriver()
    commit = driver.start({T0: Offset(5)})
    driver.answer(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    driver.commits.abandon(commit)
    driver.pass_time(120_000)
    assert driver.sent == []
    assert driver.commits.is_idle


# covers: I28
def test_a_commit_that_is_under_way_is_not_retried_once_it_is_abandoned():
    driver = CommitDriver()
    commit = driver.start({T0: Offset(5)})
    driver.commits.abandon(commit)
    [sent] = driver.sent
    driver.commits.failed(sent.ticket, ConnectionFailed("b:1", "cut"), driver.now)
    driver.pass_time(120_000)
    assert driver.sent == [sent]
    assert isinstance(commit.error, RetriableCommitFailed)
    assert driver.commits.finished() == []


# covers: B24
def test_a_commit_that_waits_for_a_coordinator_goes_when_it_is_abandoned():
    driver = CommitDriver()
    driver.membership.forget_coordinator("it moved")
    first, second = driver.start({T0: Offset(5)}), driver.start({T0: Offset(9)})
    driver.commits.abandon(first)
    driver.membership.coordinator_found(driver.now)
    driver.commits.coordinator_found(driver.now)
    driver.pump()
    [sent] = driver.sent
    assert sent.request.topics[0].partitions[0].committed_offset == 9
    driver.answer()
    assert second.is_done
    assert second.error is None
