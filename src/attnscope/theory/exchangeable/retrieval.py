"""Retrieval from examples is channel coding: how often scores find the coordinate, how many
examples that takes.

notation: a SparseRetrieval of m features and noise s; X_j in R^n coordinate j of n examples, y
their values; C = 1/2 log(1 + 1/s^2) the capacity.

    "dot"      y.X_j            plain attention over coordinates
    "cosine"   y.X_j/|X_j|      keys of one length (QK norm)

The probability that the right coordinate scores highest is an integral for any m and n
(numerics.integrals.random_code). For large m it jumps from 0 to 1 as n grows:

    cosine   n C + 1/2 log n = log m at probability 1/2, so n ~ log(m)/C: Shannon's rate, which no
             scores can beat
    dot      n = 2 (1 + s^2) log m: more by the factor (1 + s^2) log(1 + 1/s^2) > 1, unbounded as
             the noise goes to 0

Why: m - 1 wrong angles come within phi of y with probability about sin^n(phi) each, and the right
one has sin(phi)^2 = s^2/(1 + s^2) = e^{-2C}. Wrong dot products over |y| are standard normal, with
maximum sqrt(2 log m), and the right one is sqrt(n/(1 + s^2)): long columns score too high.
"""

from __future__ import annotations

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.integrals.random_code import cosine_success, dot_success
from attnscope.tasks.base import checked_law
from attnscope.tasks.exchangeable.sparse_retrieval import SparseRetrieval

__all__ = ["examples_needed", "retrieval_probability"]

SUCCESS_BY_SCORE = {"cosine": cosine_success, "dot": dot_success}
# examples: beyond, rounding of the densities shows in the tenth digit
LARGEST_EXAMPLE_COUNT = 10**6
NOISE_RANGE = (1e-6, 1e6)  # beyond, one example determines everything or nothing
EXAMPLE_TASK = "at.SparseRetrieval(features=16, noise=1.0)"


def retrieval_probability(
    task: SparseRetrieval, length: int, scores: str = "cosine"
) -> Estimate:
    """P(the coordinate with the largest score is the right one) after `length` examples.

    Args:
        task: a SparseRetrieval.
        length: n >= 0 examples.
        scores: "cosine" (keys of one length) or "dot" (plain attention).

    >>> task = SparseRetrieval(features=16, noise=1.0)
    >>> [round(retrieval_probability(task, 8, s).value, 6) for s in ("cosine", "dot")]
    [0.689799, 0.581488]
    """
    of = "retrieval_probability"
    task = _checked_task(task, scores, of)
    n = check.integer(length, "length", of, 0, LARGEST_EXAMPLE_COUNT)
    return _success_probability(task, n, scores)


def examples_needed(
    task: SparseRetrieval, probability: float = 0.5, scores: str = "cosine"
) -> int:
    """The smallest number of examples at which `retrieval_probability` is at least `probability`.

    Args:
        task: a SparseRetrieval.
        probability: in [0, 1), of the right coordinate.
        scores: "cosine" (keys of one length) or "dot" (plain attention).

    >>> import math
    >>> task = SparseRetrieval(features=round(math.exp(160)), noise=1.0)
    >>> examples_needed(task, scores="cosine"), examples_needed(task, scores="dot")
    (454, 628)
    >>> round(math.log(task.features) / task.capacity, 1)
    461.7
    """
    of = "examples_needed"
    task = _checked_task(task, scores, of)
    wanted = check.real(probability, "probability", of, 0.0, 1.0, hint="probability=0.5")
    if wanted == 1.0 and task.features > 1:
        raise bad("probability", of, "below 1: no number of examples is certain", wanted)
    low = -1  # fewer than needed
    high = 0
    while _success_probability(task, high, scores).value < wanted:
        low = high
        high = max(1, 2 * high)
        if high > LARGEST_EXAMPLE_COUNT:
            must = f"one that {LARGEST_EXAMPLE_COUNT} examples reach"
            raise bad("probability", of, must, wanted, "less noise, or a smaller probability")
    while high - low > 1:
        middle = (low + high) // 2
        if _success_probability(task, middle, scores).value < wanted:
            low = middle
        else:
            high = middle
    return high


def _checked_task(task: object, scores: object, of: str) -> SparseRetrieval:
    found = checked_law(task, SparseRetrieval, of, EXAMPLE_TASK)
    if not isinstance(scores, str) or scores not in SUCCESS_BY_SCORE:
        raise bad(
            "scores", of, f"one of {tuple(SUCCESS_BY_SCORE)}", scores, 'scores="cosine"'
        )
    check.real(found.noise, "noise of the task", of, *NOISE_RANGE)
    return found


def _success_probability(task: SparseRetrieval, n: int, scores: str) -> Estimate:
    others = float(task.features - 1)
    if n == 0 or others == 0:
        return estimate(1 / (others + 1), 2e-16, "closed form")
    value, error = SUCCESS_BY_SCORE[scores](n, others, task.noise)
    return estimate(
        value, error, "integral over angles" if scores == "cosine" else "integral"
    )
