"""How many bags per dimension it takes: to recover the truth, and to reach a given risk.

notation: alpha(q_v) the curve of state_evolution.py, Phi the free energy of a solution.

Where alpha(q_v) has a local maximum and then a local minimum, there are three solutions at the
alphas between: poor, unstable, good.

    informed    the local minimum: the good solution exists from here on
    possible    Phi of the good solution exceeds that of the poor one from here on: Bayes-optimal
    reachable   the local maximum: the poor solution ends, message passing arrives at the good one

Between possible and reachable lies the hard phase: the n bags determine the truth, but no known
method finds it in polynomial time (a conjecture, not a theorem). Without noise the
good solution is the truth, informed = possible = 1 for every length and strength: as many bags as
the value has components; near it alpha - 1 is positive and of order sqrt(1 - q_v), so reachable > 1
always.

A strong spike among very many tokens has a transition of its own, at alphas far below 1: there the
key jumps, not the value. Where noise leaves that one alone, it is the one reported.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.integrals.location_channel import FINE_RULE, Positions
from attnscope.theory.samples.bayes_curve import (
    BRANCHES,
    LARGEST_BAYES_STRENGTH,
    Bags,
    Branch,
    Point,
    bags_of,
    check_noise,
    point_of,
    ridge_point,
    ridge_regime,
    solution_of_branch,
)
from attnscope.theory.samples.learning_curve import LARGEST_ALPHA, SMALLEST_ALPHA
from attnscope.theory.samples.state_evolution import StateEvolution, Turn

if TYPE_CHECKING:
    from attnscope.tasks.planted.random_length import RandomLength
    from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["BagsNeeded", "Thresholds", "bags_needed", "recovery_threshold"]

TURN_METHOD = "turns of alpha(q_v), quadrature"
# the transition is at alphas of order length, followed to 1e6
LARGEST_THRESHOLD_LENGTH = 10_000
SMALLEST_THRESHOLD_STRENGTH = 1e-4  # a weaker spike is found only at alphas beyond 1e6
SMALLEST_OVERLAP_GAP = 1e-17  # smaller values of 1 - q round to 0
CROSSING_NEWTON_STEPS = 12  # 3 to 5 are usual
TURN_ALPHA_ERROR = 1e-9  # relative; it is quadratic in the error of the turn's location


class Thresholds(NamedTuple):
    """Bags per dimension at which solutions appear; all None where one serves every alpha.

    Attributes:
        reachable: message passing arrives at the good solution from here on.
        possible: the good solution is Bayes-optimal from here on.
        informed: the good solution exists from here on.

    >>> import attnscope as at
    >>> found = at.recovery_threshold(length=5, strength=1.0)
    >>> round(found.reachable.value, 3)
    1.956
    """

    reachable: Estimate | None
    possible: Estimate | None
    informed: Estimate | None


class BagsNeeded(NamedTuple):
    """How many bags a risk takes.

    Attributes:
        bags: for this task's dim.
        alpha: bags per dimension, with its error.

    >>> import attnscope as at
    >>> task = at.SingleLocation.spiked(dim=1000, length=3, strength=5.0, noise=0.3)
    >>> needed = at.bags_needed(task, 0.5)
    >>> needed.bags, round(needed.alpha.value, 3)
    (1157, 1.156)
    """

    bags: int
    alpha: Estimate


def recovery_threshold(length: int, strength: float, noise: float = 0.0) -> Thresholds:
    """From how many bags per dimension the truth is found: by message passing, by any method, and
    when starting from the truth.

    Args:
        length: tokens of a bag, 2 to 10,000.
        strength: of the spike, 1e-4 to 400.
        noise: standard deviation of the label noise. None of the three exists where it is large:
            the risk then falls without a jump.

    >>> found = recovery_threshold(length=5, strength=1.0)
    >>> round(found.reachable.value, 3), found.possible.value, found.informed.value
    (1.956, 1.0, 1.0)
    >>> recovery_threshold(length=5, strength=1.0, noise=0.3)
    Thresholds(reachable=None, possible=None, informed=None)
    """
    of = "recovery_threshold"
    L = check.integer(length, "length", of, 2, LARGEST_THRESHOLD_LENGTH, hint="length=5")
    nu = check.real(
        strength,
        "strength",
        of,
        SMALLEST_THRESHOLD_STRENGTH,
        LARGEST_BAYES_STRENGTH,
        hint="strength=1.0",
    )
    eps = check.real(noise, "noise", of, 0, 1e3, hint="noise=0.0")
    check_noise(eps, of)
    positions = Positions.of_lengths(np.array([L]), np.ones(1))
    equations = StateEvolution(nu, eps**2, positions)
    equations.scan(0.05, LARGEST_ALPHA)
    highest = [_turn_alpha(equations, turn) for turn in equations.turns if turn.highest]
    reachable = max(highest, key=lambda alpha: alpha.value, default=None)
    if eps == 0:
        one = estimate(1.0, 0.0, "closed form")
        if reachable is None or reachable.value < 1:
            # the location is all but known: the turn is closer to 1 than the curve is followed
            off = max(abs(math.expm1(node.log_alpha)) for node in equations.nodes[-3:])
            reachable = estimate(1.0, off + TURN_ALPHA_ERROR, TURN_METHOD)
        return Thresholds(reachable, one, one)
    if reachable is None:
        return Thresholds(None, None, None)
    lower = [turn for turn in equations.turns if not turn.highest]
    if not lower:  # closer to alpha = 1 than the curve is followed
        raise bad("noise", of, "0, or large enough to differ from it", eps, "noise=0.0")
    informed = _turn_alpha(equations, lower[-1])
    return Thresholds(reachable, _crossing_alpha(equations, informed, reachable), informed)


def _turn_alpha(equations: StateEvolution, turn: Turn) -> Estimate:
    """alpha at a turn: the error of its location enters squared, that of the averages is measured
    with a finer rule.
    """
    node = turn.node
    fine = equations.log_alphas(node.x, node.z, FINE_RULE)
    # at the turn only alpha's own error counts, and x and z stay: both equations bound it
    error = float(np.abs(fine - node.log_alpha).max()) + TURN_ALPHA_ERROR
    alpha = math.exp(node.log_alpha)
    return estimate(alpha, alpha * error, TURN_METHOD)


def _crossing_alpha(equations: StateEvolution, low: Estimate, high: Estimate) -> Estimate:
    """alpha where the free energies of the first and the last solution agree, by Newton's method:
    at a solution d Phi/d alpha = Psi, and the difference of two Phi is nearly straight.
    """
    alpha = math.sqrt(low.value * high.value)
    for _ in range(CROSSING_NEWTON_STEPS):
        gain, rate, error = _free_energy_gain(equations, alpha)
        if rate <= 0:
            break
        step = gain / rate
        if abs(step) <= TURN_ALPHA_ERROR * alpha:
            return estimate(
                alpha - step, error / rate + 2 * TURN_ALPHA_ERROR * alpha, TURN_METHOD
            )
        if not low.value < alpha - step < high.value:
            break
        alpha -= step
    middle = (low.value + high.value) / 2  # two turns that have nearly met
    return estimate(middle, high.value - low.value + low.error + high.error, TURN_METHOD)


def _free_energy_gain(equations: StateEvolution, alpha: float) -> tuple[float, float, float]:
    """Phi of the last solution less that of the first, its derivative in alpha, its error."""
    poor, *_, good = equations.fixed_points(alpha)
    psi = [
        (point.free_energy - _entropy(point.key_overlap) - _entropy(point.value_overlap))
        / alpha
        for point in (poor, good)
    ]
    gain = good.free_energy - poor.free_energy
    return gain, psi[1] - psi[0], poor.energy_error + good.energy_error


def _entropy(q: float) -> float:
    """(q + log(1 - q))/2, the part of Phi that alpha does not multiply."""
    return (q + math.log(max(1 - q, SMALLEST_OVERLAP_GAP))) / 2


def bags_needed(
    task: SingleLocation | RandomLength, risk: float, branch: Branch = "reached"
) -> BagsNeeded:
    """How many bags the best estimator needs for this risk (noise^2 included).

    Args:
        task: as in learning_curve; its dim turns alpha into bags.
        risk: above task.bayes_risk() and below task.null_risk().
        branch: "reached" by message passing, "best" for any estimator whatever it costs.

    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> task = SingleLocation.spiked(dim=1000, length=3, strength=5.0, noise=0.1)
    >>> found = bags_needed(task, risk=0.2)
    >>> found.bags, round(found.alpha.value, 3)
    (1552, 1.552)
    """
    of = "bags_needed"
    bags = bags_of(task, of)
    if branch not in BRANCHES:
        raise bad("branch", of, f"one of {', '.join(BRANCHES)}", branch)
    least = task.bayes_risk()
    most = task.null_risk()
    target = check.real(risk, "risk", of, 0, strict=True, hint="risk=0.2")
    if not least.value + least.error < target < most.value:
        raise bad(
            "risk",
            of,
            f"between the least at any number of bags, {least.value:.6g}, and {most.value:.6g}",
            target,
            f"risk={(least.value + most.value) / 2:.3g}",
        )
    alpha = _alpha_of_risk(_point_function(bags, of, branch), target - bags.noise**2, of)
    return BagsNeeded(math.ceil(alpha.value * task.dim), alpha)


def _point_function(bags: Bags, of: str, branch: str) -> Any:
    """The function alpha -> Point, which scans further when needed."""
    equations = StateEvolution(bags.strength, bags.noise**2, bags.positions)
    reach = [math.inf, 0.0]

    def at(alpha: float) -> Point:
        if ridge_regime(bags, alpha, of):
            return ridge_point(bags, alpha)
        if not reach[0] <= alpha <= reach[1]:
            check_noise(bags.noise, of)
            reach[0] = min(reach[0], alpha / 4)
            reach[1] = max(reach[1], alpha * 4)
            equations.scan(*reach)
        return point_of(bags, solution_of_branch(equations.fixed_points(alpha), branch))

    return at


def _alpha_of_risk(at: Any, target: float, of: str) -> Estimate:
    """The least alpha whose risk is at most the target: the risk falls with alpha, maybe in a
    jump.
    """
    low = high = 1.0
    while at(high).excess > target:
        low = high
        high *= 4
        if high > LARGEST_ALPHA:
            raise bad(
                "risk",
                of,
                f"one that alpha = {LARGEST_ALPHA:g} reaches",
                target,
                "a larger one",
            )
    while at(low).excess <= target:
        high = low
        low /= 4
        if low < SMALLEST_ALPHA:
            raise bad(
                "risk",
                of,
                f"one that alpha = {SMALLEST_ALPHA:g} exceeds",
                target,
                "a lower one",
            )

    def gap(log_alpha: float) -> float:
        return at(math.exp(log_alpha)).excess - target

    root = brentq(gap, math.log(low), math.log(high), xtol=1e-12, rtol=1e-14)
    below = at(math.exp(root - 1e-6))
    above = at(math.exp(root + 1e-6))
    fall = below.excess - above.excess
    errors = max(below.excess_error, above.excess_error)
    # two points 2e-6 apart show how alpha changes with an error of the risk; at a jump it does not
    error = 2e-6 * errors / max(fall, 1e-300)
    alpha = math.exp(root)
    return estimate(
        alpha, alpha * (2 * min(error, 1.0) + TURN_ALPHA_ERROR), "inverse of the curve"
    )
