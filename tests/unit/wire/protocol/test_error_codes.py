"""Error codes: the numbers and the retriable set that the requirements name."""

from kio.schema.errors import ErrorCode as KioErrorCode

from seamark.wire.protocol.error_codes import LEGACY_NAMES, RETRIABLE, ErrorCode, error_code

NAMED = {  # covers: A38, A39
    "NONE": 0,
    "REQUEST_TIMED_OUT": 7,
    "OFFSET_METADATA_TOO_LARGE": 12,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "ILLEGAL_GENERATION": 22,
    "INCONSISTENT_GROUP_PROTOCOL": 23,
    "INVALID_GROUP_ID": 24,
    "UNKNOWN_MEMBER_ID": 25,
    "INVALID_SESSION_TIMEOUT": 26,
    "REBALANCE_IN_PROGRESS": 27,
    "INVALID_COMMIT_OFFSET_SIZE": 28,
    "TOPIC_AUTHORIZATION_FAILED": 29,
    "GROUP_AUTHORIZATION_FAILED": 30,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": 53,
    "NON_EMPTY_GROUP": 68,
    "GROUP_ID_NOT_FOUND": 69,
    "FETCH_SESSION_ID_NOT_FOUND": 70,
    "INVALID_FETCH_SESSION_EPOCH": 71,
    "MEMBER_ID_REQUIRED": 79,
    "GROUP_MAX_SIZE_REACHED": 81,
    "FENCED_INSTANCE_ID": 82,
    "UNSTABLE_OFFSET_COMMIT": 88,
    "FETCH_SESSION_TOPIC_ID_ERROR": 106,
    "STALE_MEMBER_EPOCH": 113,
}


def test_the_named_codes_have_their_numbers():  # covers: A38, A39
    assert {name: ErrorCode[name].value for name in NAMED} == NAMED


def test_the_table_equals_an_independent_one():
    assert {(code.name.lower(), code.value, code.is_retriable) for code in ErrorCode} == {
        (code.name, code.value, code.retriable) for code in KioErrorCode
    }


def test_retriable_and_not_retriable_codes_are_told_apart():  # covers: A41
    assert {7, 14, 15, 16, 70, 71, 88, 106} <= RETRIABLE
    assert not {12, 22, 25, 26, 27, 28, 30, 79, 81, 82} & RETRIABLE


def test_legacy_names_map_to_the_modern_codes():  # covers: A40
    assert {name: code.value for name, code in LEGACY_NAMES.items()} == {
        "ConsumerCoordinatorNotAvailable": 15,
        "NotCoordinatorForConsumer": 16,
        "OffsetsLoadInProgress": 14,
        "OffsetMetadataTooLarge": 12,
    }


def test_an_unknown_number_reads_as_an_unknown_server_error():
    assert error_code(12345) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert error_code(16) is ErrorCode.NOT_COORDINATOR
