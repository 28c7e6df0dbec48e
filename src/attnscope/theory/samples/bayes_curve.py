"""The smallest risk that any estimator reaches from n = alpha d bags, k* and v* unknown.

notation: nu = strength, D = noise^2, q_k and q_v the overlaps (state_evolution.py), R_B(nu) the
population Bayes risk, gam = gamma, pi = position probabilities.

The Bayes-optimal predictor given n bags is softmax attention with key sqrt(nu) <k> and value <v>,
the posterior means, at every alpha. A fresh bag is to it a single-location bag of strength nu q_k,
whose value is known up to the part 1 - q_v that <v> misses:

    risk = 1 - q_v (1 - R_B(nu q_k)) + D,       1 - R_B(nu) = E P(J | X)  (over lengths and pi).

Ends: q_k ~ alpha nu/L, q_v ~ alpha/(L (1 + D)) as alpha -> 0 (no threshold to be seen at all), and

    alpha (risk - D - R_B(nu)) -> D (1 - R_B)/B - R_B'(nu)/A      as alpha -> inf, A, B at q = 1.

With gam != 1 as dim -> inf a token's length alone identifies the informative one, and so does a
spike of length sqrt(dim): then A = B = 1, which is ridge regression on the informative tokens,

    risk = gam^2 u + D,    gam^2 u^2 + (D + gam^2 (alpha - 1)) u = D,    u = 1 - q_v.

Both are limits of large dim. The location error of the task without its spike decides between them:
it must be nearly 0 for the second case, and anything between is refused.

These equations are those of the replica method (docs/learning_curves_in_samples.md): checked by
message passing, not proved for this channel.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border.estimate import estimate
from attnscope.numerics.integrals.location_channel import FINE_RULE, Positions, located
from attnscope.tasks.base import checked_law, has_law, perpendicular
from attnscope.tasks.planted.random_length import RandomLength
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.samples.curve import LearningCurve
from attnscope.theory.samples.state_evolution import FixedPoint, StateEvolution

__all__ = [
    "BRANCHES",
    "SMALLEST_NOISE",
    "Bags",
    "Branch",
    "Point",
    "bags_of",
    "bayes_curve",
    "check_noise",
    "point_of",
    "ridge_point",
    "ridge_regime",
    "solution_of_branch",
]

Branch = Literal["reached", "informed", "best"]
BRANCHES = get_args(Branch)
# R_B = 1e-45: the location is known; tables grow with its square
LARGEST_BAYES_STRENGTH = 400.0
SMALLEST_NOISE = 1e-8  # its lower turn is followed in a second; far below, it is not found
KNOWN_LOCATION_ERROR = 1e-9  # location error below which the location counts as known
STATE_EVOLUTION_METHOD = "state evolution, quadrature"


class Bags(NamedTuple):
    """The law of a task's bags, as far as the curve depends on it."""

    strength: float
    noise: float
    gamma: float
    positions: Positions
    # 1 - E P(J | X) without a spike; 1 where gamma = 1, since lengths are then uninformative
    unspiked: float


class Point(NamedTuple):
    """A point of the curve: excess risk and overlaps, each with its error."""

    excess: float
    excess_error: float
    key_overlap: float
    value_overlap: float
    overlap_error: float


def bags_of(task: object, of: str) -> Bags:
    """The law of the task; raises where it has no curve."""
    known: Any = checked_law(
        task,
        (SingleLocation, RandomLength),
        of,
        "SingleLocation.spiked(dim=1000, length=3, strength=5.0, noise=0.3)",
    )
    perpendicular(known, of)
    if has_law(known, RandomLength):
        base = known.task
        positions = Positions.of_lengths(np.array(known.lengths), known.probs)
        fixed = known.fixed
    else:
        base = known
        positions = _location_law(base)
        fixed = (base,)
    if positions.longest < 2:
        raise bad(
            "length",
            of,
            "at least 2",
            "1: with one token there is no location to find, only ridge regression",
            "length=2",
        )
    if base.signal == 0:
        raise bad(
            "strength",
            of,
            "> 0",
            "0: without a spike there is no key to learn",
            "SingleLocation.spiked(dim=1000, length=3, strength=5.0)",
        )
    unspiked = 1.0
    if base.gamma != 1:
        unspiked = max(_without_spike(t).location_error().value for t in fixed)
    return Bags(base.signal**2, base.noise, base.gamma, positions, unspiked)


def _location_law(task: SingleLocation) -> Positions:
    if task.location_probs is None:
        return Positions.of_lengths(np.array([task.length]), np.ones(1))
    probs, counts = np.unique(
        task.location_probs[task.location_probs > 0], return_counts=True
    )
    return Positions.of_probs(probs, counts)


def _without_spike(task: SingleLocation) -> SingleLocation:
    return SingleLocation(
        task.dim, task.length, task.gamma, signal=0.0, location_probs=task.location_probs
    )


def bayes_curve(task: object, alpha: np.ndarray, branch: str) -> LearningCurve:
    """The curve at each of the alphas (n,); `branch` as in learning_curve."""
    of = "learning_curve"
    bags = bags_of(task, of)
    if ridge_regime(bags, float(alpha.min()), of):
        points = [ridge_point(bags, float(a)) for a in alpha]
        return _learning_curve(
            alpha, points, bags.noise, "ridge", np.ones(alpha.size, dtype=int)
        )
    check_noise(bags.noise, of)
    equations = StateEvolution(bags.strength, bags.noise**2, bags.positions)
    equations.scan(float(alpha.min()), float(alpha.max()))
    solutions = [equations.fixed_points(float(a)) for a in alpha]
    points = [point_of(bags, solution_of_branch(found, branch)) for found in solutions]
    counts = np.array([len(found) for found in solutions])
    return _learning_curve(alpha, points, bags.noise, branch, counts)


def check_noise(noise: float, of: str) -> None:
    """Raise where the noise is too small for the curve to be followed to its end."""
    if 0 < noise < SMALLEST_NOISE:
        raise bad("noise", of, f"0, or at least {SMALLEST_NOISE:g}", noise, "noise=0.0")


def _learning_curve(
    alpha: np.ndarray, points: list[Point], noise: float, branch: str, counts: np.ndarray
) -> LearningCurve:
    excess, error, key, value, overlap_error = (np.array(column) for column in zip(*points))
    return LearningCurve(
        alpha=alpha,
        risk=estimate(excess, error, STATE_EVOLUTION_METHOD, noise),
        key_overlap=key,
        value_overlap=value,
        branch=branch,
        overlap_error=overlap_error,
        fixed_points=counts,
    )


def solution_of_branch(found: list[FixedPoint], branch: str) -> FixedPoint:
    """The solution of a branch."""
    if branch == "reached":
        return found[0]
    if branch == "informed":
        return found[-1]
    return max(found, key=lambda point: point.free_energy)


def point_of(bags: Bags, solution: FixedPoint) -> Point:
    """The risk at a solution, with the errors of the overlaps and of R_B carried over."""
    q_k = solution.key_overlap
    q_v = solution.value_overlap
    here = located(math.sqrt(bags.strength * q_k), bags.positions, FINE_RULE)
    coarse = located(math.sqrt(bags.strength * q_k), bags.positions)
    # a slope over 1e-6 of q_k: good to a few digits, as an error has to be
    less = located(math.sqrt(bags.strength * q_k * (1 - 1e-6)), bags.positions, FINE_RULE)
    slope = abs(here - less) / (1e-6 * q_k) + 1e-5
    error = here * solution.value_error + q_v * (
        slope * solution.key_error + 2 * abs(here - coarse) + 1e-12
    )
    return Point(
        1 - q_v * here,
        error,
        q_k,
        q_v,
        max(solution.key_error, solution.value_error),
    )


# -- where the location is known ------------------------------------------------------------------


def ridge_regime(bags: Bags, lowest: float, of: str) -> bool:
    """Whether the deciding token is known, at every alpha >= `lowest`; one sentence where neither
    this nor the spiked law applies.
    """
    if bags.gamma == 1 and bags.strength <= LARGEST_BAYES_STRENGTH:
        return False
    if bags.gamma != 1:
        if bags.unspiked <= KNOWN_LOCATION_ERROR:
            return True
        raise bad(
            "task",
            of,
            "one whose spike alone tells the location (gamma = 1), or whose tokens' lengths do",
            f"gamma = {bags.gamma:g} with location error {bags.unspiked:.2g} without the spike",
            "SingleLocation.spiked(...), or a larger dim",
        )
    # A >= 1/L at every alpha: what the key overlap is at least
    least = lowest * bags.strength / bags.positions.longest
    strength = bags.strength * least / (1 + least)
    if (
        strength >= LARGEST_BAYES_STRENGTH
        or 1 - located(math.sqrt(strength), bags.positions) <= KNOWN_LOCATION_ERROR
    ):
        return True
    raise bad(
        "strength",
        of,
        f"at most {LARGEST_BAYES_STRENGTH:g} at this alpha",
        f"{bags.strength:g}, a spike whose length is not O(1)",
        "a larger alpha, where the location is known and the curve that of ridge regression",
    )


def ridge_point(bags: Bags, alpha: float) -> Point:
    g = bags.gamma**2
    D = bags.noise**2
    b = D + g * (alpha - 1)
    root = math.sqrt(b * b + 4 * g * D)
    # the form without cancellation; without noise u is 1 - alpha, or 0
    u = 2 * D / (b + root) if b > 0 else (root - b) / (2 * g)
    gain = alpha * bags.strength / g
    missed = bags.unspiked if bags.gamma != 1 else KNOWN_LOCATION_ERROR
    # a few roundings, and the location error
    return Point(g * u, 1e-14 * g * u + missed, gain / (1 + gain), 1 - u, 1e-14 + missed)
