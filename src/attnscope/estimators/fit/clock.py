"""How long a fit has taken, may take, and is expected to take.

notation: N tokens, n bags, k features; work is counted in multiply-adds.

    work of EM from all starts in k features:   PASSES N k (k + LINEAR)  +  CUBES k^3
    unit of richer models' work:                PASSES N k WALKED

(a pass: one E step and its weighted Gram matrix, k^2 a token; scores, values and weights, linear in
k; the cubes are factorisations; richer models are walked to by gradients, linear in k). A fit is
planned as a list of stages, each with its work; what is expected is (elapsed time) x (all work)/
(work done), so that the machine's speed is measured and not assumed: only what may be tried at all
(`widths.WHOLE`) rests on the count alone, and is therefore the same on every machine. The count is
right to a factor of two or so: stages that are dropped early end before they are expected to.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Clock", "OutOfTime", "em_work", "rival_work"]

# of a fit with two folds for all starts and five for the best: 137 steps of four fifths of the bags
# for 300 bags x 50 tokens
PASSES = 100
LINEAR = 10  # products, exponentials and copies of a token beside its k^2
CUBES = 200  # eigenvalues and factors of the same steps
# gradients read every token from memory, at a fifth of the multiply-adds per second of a Gram
# matrix: as long as EM itself in 80 features (9,000 tokens x 384: ten seconds for all of them)
WALKED = 90
RATE = 5e9  # multiply-adds per second before any was measured: one core of a laptop
SHORT = 2.0  # seconds below which nothing is said of time
# of `max_seconds`: what is left when no further rival is tried, for the chosen model on all bags
EXPLORING = 0.8


class OutOfTime(Exception):
    """No time for the next step. Never leaves the estimators."""


def em_work(tokens: int, features: int) -> float:
    """Multiply-adds of EM from all starts."""
    return PASSES * tokens * features * (features + LINEAR) + CUBES * features**3


def rival_work(tokens: int, features: int) -> float:
    """The unit of the work of richer models."""
    return PASSES * tokens * features * WALKED


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
        """Seconds of the whole fit, from what was done so far."""
        if self.done <= 0:
            return self.elapsed + self.planned / RATE
        return self.elapsed * max(self.planned / self.done, 1.0)

    def plan(self, work: float) -> None:
        """So much more work is intended."""
        self.planned += work

    def stage(self, name: str, work: float = 0.0) -> None:
        """The stage before is done; this one, of so much of the planned work, begins."""
        self.done = min(self.done + self.now, self.planned)
        self.now = work
        expected = self.expected
        if expected > SHORT:
            self.say(f"[{self.elapsed:.1f} s of about {expected:.2g} s] {name}")
        self.show(name, self.done / self.planned if self.planned else 0.0)

    @property
    def over(self) -> bool:
        """Is there no time left to try another rival?"""
        if self.max_seconds is None or self.elapsed < EXPLORING * self.max_seconds:
            return False
        if not self.ran_out:
            self.ran_out = True
            self.say(f"max_seconds: the best so far is kept, after {self.elapsed:.1f} s")
        return True

    def check(self) -> None:
        """Raise `OutOfTime` if it is over: where nothing is found yet, so nothing can be kept."""
        if self.over:
            raise OutOfTime
