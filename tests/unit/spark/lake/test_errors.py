"""Errors of tasks as one sentence."""

from seamark.spark.lake.errors import TopicNotReadable, sentence_of


def test_the_sentence_of_a_task_is_found_in_sparks_pages():
    text = (
        "[PYTHON_EXCEPTION] An exception was thrown\nTraceback (most recent call last):\n  File x\n"
        "seamark.client.errors.Refused: Fetch: TOPIC_AUTHORIZATION_FAILED for partition x-0 SQLSTATE: 38000\n\n"
        "\tat org.apache.spark.Foo"
    )

    assert sentence_of(text) == "Fetch: TOPIC_AUTHORIZATION_FAILED for partition x-0"
    assert sentence_of("java.lang.OutOfMemoryError: heap") is None
    assert "use the sampler" in str(TopicNotReadable("why"))
