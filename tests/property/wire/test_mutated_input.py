"""A sample of ``make soak NAME=wire``: mutated frames and batches give a DecodeError or a value, and nothing else."""

from tests.soak import wire


def test_mutated_frames_and_batches_raise_nothing_but_decode_errors():
    result = wire.run(scale=0.02)
    assert result["ok"], result
    assert result["inputs"] == 20_000
    assert result["refused"] > 10_000
