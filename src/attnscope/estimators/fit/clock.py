"""How long a fit took, may take, and is expected to take.

notation: N tokens, n bags, k features; work is counted in multiply-adds.

    work of EM from all starts in k features:   P N k (k + a)  +  F k^3
    unit of richer models' work:                P N k g

with P = EM_PASS_COUNT, a = LINEAR_COST_PER_FEATURE, F = FACTORISATION_COUNT and
g = GRADIENT_COST_PER_FEATURE. One pass is an E step and its weighted Gram matrix, k^2 per token;
scores, values and weights are linear in k. Richer models are fitted by gradients, linear in k.

A fit is planned as a list of stages, each with its work. The expected time is (elapsed time) x (all
work)/(work done), so the speed of the machine is measured and not assumed. Only the decision which
models may be tried at all (`widths.MAX_EM_WORK`) uses the count alone, so it is the same on every
machine. The count is right to about a factor of two: a stage that is dropped early ends before its
expected time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Clock", "OutOfTime", "em_work", "rival_work"]

# passes of a fit with two folds for all starts and five for the best: 137 steps on four fifths of the
# bags for 300 bags x 50 tokens
EM_PASS_COUNT = 100
LINEAR_COST_PER_FEATURE = 10  # products, exponentials and copies of a token, besides k^2
FACTORISATION_COUNT = 200  # eigenvalues and matrix factors of the same steps
# gradients read every token from memory, at a fifth of the multiply-adds per second of a Gram
# matrix: they take as long as EM in 80 features (9,000 tokens x 384: ten seconds in all)
GRADIENT_COST_PER_FEATURE = 90
ASSUMED_MULTIPLY_ADDS_PER_SECOND = 5e9  # before any is measured: one core of a laptop
QUIET_SECONDS = 2.0  # a shorter fit reports no times
# share of `max_seconds` for the search; the rest is for the chosen model on all bags
SEARCH_TIME_SHARE = 0.8


class OutOfTime(Exception):
    """There is no time for the next step. The estimators catch it."""


def em_work(tokens: int, features: int) -> float:
    """Multiply-adds of EM from all starts."""
    return (
        EM_PASS_COUNT * tokens * features * (features + LINEAR_COST_PER_FEATURE)
        + FACTORISATION_COUNT * features**3
    )


def rival_work(tokens: int, features: int) -> float:
    """The unit of the work of richer models."""
    return EM_PASS_COUNT * tokens * features * GRADIENT_COST_PER_FEATURE


class Clock:
    """The plan of one fit, and the time it takes."""

    def __init__(
        self,
        max_seconds: float | None = None,
        say: Callable[[str], None] | None = None,
        show: Callable[[str, float], None] | None = None,
    ) -> None:
        self.begin = time.perf_counter()
        self.max_seconds = max_seconds
        self.say = say or (lambda line: None)
        self.show = show or (lambda stage, done: None)  # to a bar, in shares of the work
        self.planned = 0.0
        self.done = 0.0
        self.now = 0.0  # work of the stage under way
        self.ran_out = False

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.begin

    @property
    def expected(self) -> float:
        """Seconds of the whole fit, estimated from the work done so far."""
        if self.done <= 0:
            return self.elapsed + self.planned / ASSUMED_MULTIPLY_ADDS_PER_SECOND
        return self.elapsed * max(self.planned / self.done, 1.0)

    def plan(self, work: float) -> None:
        """Add this much work to the plan."""
        self.planned += work

    def stage(self, name: str, work: float = 0.0) -> None:
        """End the last stage and begin this one, with this much of the planned work."""
        self.done = min(self.done + self.now, self.planned)
        self.now = work
        expected = self.expected
        if expected > QUIET_SECONDS:
            self.say(f"[{self.elapsed:.1f} s of about {expected:.2g} s] {name}")
        self.show(name, self.done / self.planned if self.planned else 0.0)

    @property
    def over(self) -> bool:
        """Is there no time left to try another rival?"""
        if self.max_seconds is None or self.elapsed < SEARCH_TIME_SHARE * self.max_seconds:
            return False
        if not self.ran_out:
            self.ran_out = True
            self.say(f"max_seconds: the best so far is kept, after {self.elapsed:.1f} s")
        return True

    def check(self) -> None:
        """Raise `OutOfTime` if the time is over, at steps before any model is found."""
        if self.over:
            raise OutOfTime
