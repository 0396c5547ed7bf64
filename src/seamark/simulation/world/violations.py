"""A promise that was broken, with what is needed to see it again: the seed, the step and the last events."""

from __future__ import annotations

from seamark.errors import SeamarkError

SHOWN_EVENTS = 60


class InvariantViolated(SeamarkError):
    """Raised inside a lifetime; ``rule`` is one of the names in ``invariants``."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(f"{rule}: {reason}")
        self.rule = rule
        self.reason = reason

    def __reduce__(self) -> tuple[type[InvariantViolated], tuple[str, str]]:
        return type(self), (self.rule, self.reason)


class LifetimeFailed(SeamarkError):
    """A lifetime broke an invariant or ended with an error of the code under test."""

    def __init__(self, scenario: str, seed: int, step: int, reason: str, transcript: str) -> None:
        super().__init__(
            f"seed {seed} of scenario {scenario} failed at step {step}: {reason}\n"
            f"replay it with: seamark simulate --scenario {scenario} --seed {seed}"
        )
        self.scenario = scenario
        self.seed = seed
        self.step = step
        self.reason = reason
        self.transcript = transcript

    def __reduce__(self) -> tuple[type[LifetimeFailed], tuple[str, int, int, str, str]]:
        return type(self), (self.scenario, self.seed, self.step, self.reason, self.transcript)
