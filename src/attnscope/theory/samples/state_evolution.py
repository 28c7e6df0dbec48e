"""The two equations of the Bayes-optimal estimator at n = alpha d bags, all their solutions, and
the free energy that chooses between them.

notation: nu = strength, D = noise^2, q_k and q_v the overlaps of the posterior means with k* and
v*, V = D + 1 - q_v; A, B and M = E log S of numerics.integrals.location_channel at s^2 = nu q_k.

    q_k/(1 - q_k) = alpha nu A,        q_v/(1 - q_v) = alpha B/V
    Phi = alpha [M - nu q_k/2 - log(2 pi V)/2] + (1/2) sum_{k, v} [q + log(1 - q)]

(Phi is the log evidence a dimension; its stationary points are the solutions.) Iterating from q = 0
climbs to the least solution, which is what message passing reaches; from q = 1 it falls to the
largest; the one of largest Phi is the Bayes-optimal estimator.

All solutions by one curve: for each q_v the two equations, divided, are one equation in q_k, and
then each of them determines alpha. alpha(q_v) is followed in z = logit q_v: where it rises
throughout there is one solution for every alpha; a local maximum is where the least solution ends,
a local minimum where the largest begins. B <= 1 gives alpha >= q_v (1 + D/(1 - q_v)), so beyond a
known q_v no solution of a given alpha is left.

D = 0: q_v = 1 solves the second equation for alpha > 1, with A = B = 1 and Phi = +inf: the value is
found without error, and q_k = alpha nu/(1 + alpha nu).

Approximate: the averages (their error is measured with a finer rule and carried through the 2 x 2
Jacobian), and that the scan in z sees every turn: steps are halved where its slope may change sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from attnscope.errors import AttnscopeError
from attnscope.numerics.integrals.location_channel import (
    COARSE_RULE,
    FINE_RULE,
    Averages,
    Positions,
    Rule,
    averages,
)

__all__ = ["FixedPoint", "Node", "StateEvolution", "Turn"]

Z_STEP = 0.6  # where alpha rises steadily
FINEST_Z_STEP = 0.06  # where alpha may turn: a dent much narrower than this is missed
# largest z without noise: 1 - q_v = 1e-10, where alpha - 1 ~ sqrt(1 - q_v) is 1e-5
LARGEST_NOISELESS_Z = 23.0
LOG_ALPHA_TOLERANCE = 1e-11  # residual at which iterations end
SECANT_STEPS = 40
LOGIT_DIFFERENCE = 1e-4  # for slopes: forward differences good to four digits
AVERAGES_ERROR_FLOOR = 2e-11  # relative error of the averages even where two rules agree
# closer than this to a turn (in log alpha) rounding decides whether there is a solution
FOLD_LOG_ALPHA = 1e-9
FLAT_LOG_ALPHA = 1e-8  # a smaller change of log alpha over a step of z may be rounding
OVERLAP_ROUNDING = 1e-15


class Node(NamedTuple):
    """A point of the curve: logits of q_k and q_v, and the alpha that they solve."""

    x: float
    z: float
    log_alpha: float


class Turn(NamedTuple):
    """Where alpha(q_v) turns: `highest` for a maximum."""

    node: Node
    highest: bool


@dataclass(frozen=True)
class FixedPoint:
    """A solution at this alpha, with the errors of its overlaps; Phi is inf where the value is
    found without error.
    """

    alpha: float
    key_overlap: float
    value_overlap: float
    key_error: float
    value_error: float
    free_energy: float
    energy_error: float
    rising: bool  # alpha rises with q_v: stable


@dataclass
class StateEvolution:
    """The equations of one law of bags."""

    strength: float
    noise_variance: float
    positions: Positions
    nodes: list[Node] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)

    # -- the equations -----------------------------------------------------------------------------

    def averages(self, x: float, z: float, rule: Rule = COARSE_RULE) -> Averages:
        """A, B, M at the overlaps of these logits."""
        s = math.sqrt(self.strength * float(expit(x)))
        return averages(s, float(expit(z)), self.variance(z), self.positions, rule)

    def variance(self, z: float) -> float:
        """V."""
        return self.noise_variance + float(expit(-z))

    def log_alphas(self, x: float, z: float, rule: Rule = COARSE_RULE) -> np.ndarray:
        """log of the alpha that solves the first and the second equation."""
        return self._log_alphas_from(self.averages(x, z, rule), x, z)

    def _log_alphas_from(self, found: Averages, x: float, z: float) -> np.ndarray:
        return np.array(
            [
                x - math.log(self.strength * found.A),
                z + math.log(self.variance(z) / found.B),
            ]
        )

    def free_energy(self, alpha: float, x: float, z: float, M: float) -> float:
        """Phi."""
        q_k = float(expit(x))
        q_v = float(expit(z))
        entropy = 0.5 * (q_k - np.logaddexp(0, x) + q_v - np.logaddexp(0, z))
        label = M - self.strength * q_k / 2 - math.log(2 * math.pi * self.variance(z)) / 2
        return float(alpha * label + entropy)

    # -- the curve alpha(q_v) ----------------------------------------------------------------------

    def node(self, z: float, guess: float) -> Node:
        """The point at this z: secant steps in x, kept inside what is known to hold the root."""
        low = -math.inf
        high = math.inf
        x = guess
        slope = 1.0
        last: tuple[float, float] | None = None
        first = second = 0.0
        for _ in range(SECANT_STEPS):
            first, second = self.log_alphas(x, z)
            gap = first - second
            if abs(gap) < LOG_ALPHA_TOLERANCE:
                break
            if gap > 0:
                high = x
            else:
                low = x
            if last is not None and last[0] != x:
                slope = max((gap - last[1]) / (x - last[0]), 0.1)
            last = (x, gap)
            step = -gap / slope
            x = x + max(min(step, 3.0), -3.0)
            if not low < x < high:
                x = (low + high) / 2
        return Node(x, z, (first + second) / 2)

    def scan(self, lowest: float, highest: float) -> None:
        """Follow the curve through every solution with alpha from `lowest` to `highest`."""
        longest = self.positions.longest
        D = self.noise_variance
        start = math.log(lowest / (longest * (1 + D))) - 0.5
        guess = math.log(lowest * self.strength / longest)
        first = self.node(start, guess)
        while first.log_alpha > math.log(lowest):
            first = self.node(first.z - 1.0, first.x - 1.0)
        end = _last_z(highest, D)
        self.nodes = [first]
        while self.nodes[-1].z < end:
            self.nodes.append(self._next_node(self.nodes))
        self._halve_uncertain_steps()
        self.turns = self._turning_points()

    def _next_node(self, nodes: list[Node]) -> Node:
        """One step on, from where the last two nodes point."""
        last = nodes[-1]
        drift = (last.x - nodes[-2].x) / (last.z - nodes[-2].z) if len(nodes) > 1 else 1.0
        return self.node(last.z + Z_STEP, last.x + Z_STEP * drift)

    def _node_between(self, a: Node, b: Node, z: float) -> Node:
        share = (z - a.z) / (b.z - a.z)
        return self.node(z, a.x + share * (b.x - a.x))

    def _halve_uncertain_steps(self) -> None:
        """Halve steps where the slope may change its sign between nodes: where it varies by more
        than itself from one step to the next.
        """
        step = Z_STEP
        while step > FINEST_Z_STEP:
            slopes = [
                (b.log_alpha - a.log_alpha) / (b.z - a.z) for a, b in pairwise(self.nodes)
            ]
            found = []
            for i, (a, b) in enumerate(pairwise(self.nodes)):
                near = slopes[max(i - 1, 0) : i + 2]
                unsure = max(near) - min(near) > min(abs(slope) for slope in near)
                found.append(a)
                if unsure and b.z - a.z > 0.75 * step:
                    found.append(self._node_between(a, b, (a.z + b.z) / 2))
            self.nodes = [*found, self.nodes[-1]]
            step /= 2

    def _turning_points(self) -> list[Turn]:
        """Local maxima and minima of alpha, lowest q_v first."""
        found = []
        for a, b, c in zip(self.nodes, self.nodes[1:], self.nodes[2:]):
            if (b.log_alpha - a.log_alpha) * (c.log_alpha - b.log_alpha) < 0:
                highest = b.log_alpha > a.log_alpha
                found.append(Turn(self._turning_node(a, c, highest), highest))
        return found

    def _turning_node(self, a: Node, c: Node, highest: bool) -> Node:
        sign = -1.0 if highest else 1.0
        best = minimize_scalar(
            lambda z: sign * self._node_between(a, c, z).log_alpha,
            bounds=(a.z, c.z),
            method="bounded",
            options={"xatol": 1e-5},
        )
        return self._node_between(a, c, float(best.x))

    # -- solutions at one alpha --------------------------------------------------------------------

    def fixed_points(self, alpha: float) -> list[FixedPoint]:
        """All solutions, by increasing q_v; alpha inside what was scanned."""
        target = math.log(alpha)
        path = sorted({*self.nodes, *(turn.node for turn in self.turns)}, key=lambda n: n.z)
        found = []
        for a, b in pairwise(path):
            if min(a.log_alpha, b.log_alpha) < target <= max(a.log_alpha, b.log_alpha):
                found.append(self._fixed_point(alpha, a, b))
        if self.noise_variance == 0 and alpha > 1:
            key = alpha * self.strength / (1 + alpha * self.strength)
            found.append(
                FixedPoint(alpha, key, 1.0, OVERLAP_ROUNDING, 0.0, math.inf, 0.0, True)
            )
        if not found and self.noise_variance == 0 and alpha <= 1:
            found.append(self._flat_solution(alpha, self.nodes[-1]))
        if not found:
            raise AttnscopeError(
                f"the equations of learning_curve must have a solution at alpha = {alpha:g}, got "
                "none in reach of float64; try alpha closer to 1."
            )
        return found

    def _flat_solution(self, alpha: float, a: Node) -> FixedPoint:
        """Between a node and q_v = 1: where the curve is flat up to rounding, at alpha = 1 with
        next to no noise and the location all but known.

        What a wrong token costs is of order sqrt(1 - q_v), and so is the error of q_k.
        """
        u = float(expit(-a.z))
        key = float(expit(a.x))
        return FixedPoint(alpha, key, 1 - u / 2, math.sqrt(u), u, 0.0, math.inf, True)

    def _fixed_point(self, alpha: float, a: Node, b: Node) -> FixedPoint:
        if abs(b.log_alpha - a.log_alpha) < FLAT_LOG_ALPHA:
            return self._flat_solution(alpha, a)
        target = math.log(alpha)
        x, z, slopes = self._newton_solution(target, a, b)
        best = self.averages(x, z, FINE_RULE)
        rough = self.averages(x, z)
        fine = self._log_alphas_from(best, x, z) - target
        inverse = np.linalg.inv(slopes)
        move = inverse @ fine
        # twice the linear answer covers the bend of the curve as far as it has a solution at all
        error = 2 * np.abs(inverse) @ (np.abs(fine) + AVERAGES_ERROR_FLOOR)
        if any(abs(turn.node.log_alpha - target) < FOLD_LOG_ALPHA for turn in self.turns):
            error = error + max(abs(turn.node.z - z) for turn in self.turns)
        x = x - float(move[0])
        z = z - float(move[1])
        q_k = float(expit(x))
        q_v = float(expit(z))
        return FixedPoint(
            alpha,
            q_k,
            q_v,
            min(float(error[0]) * q_k * float(expit(-x)) + OVERLAP_ROUNDING, 1.0),
            min(float(error[1]) * q_v * float(expit(-z)) + OVERLAP_ROUNDING, 1.0),
            self.free_energy(alpha, x, z, best.M),
            alpha * (2 * abs(best.M - rough.M) + AVERAGES_ERROR_FLOOR),
            b.log_alpha > a.log_alpha,
        )

    def _newton_solution(
        self, target: float, a: Node, b: Node
    ) -> tuple[float, float, np.ndarray]:
        """Newton's method in both logits between two nodes, with the slopes that it ends with; the
        curve itself where that leaves them.
        """
        share = (target - a.log_alpha) / (b.log_alpha - a.log_alpha)
        point = np.array([a.x + share * (b.x - a.x), a.z + share * (b.z - a.z)])
        value = self.log_alphas(*point) - target
        slopes = self._log_alpha_slopes(point, value + target)
        room = 0.01 * (b.z - a.z)
        for _ in range(8):
            if np.abs(value).max() < LOG_ALPHA_TOLERANCE:
                return float(point[0]), float(point[1]), slopes
            step = -np.linalg.solve(slopes, value)
            point = point + step
            if not a.z - room <= point[1] <= b.z + room:
                break
            moved = self.log_alphas(*point) - target
            slopes = slopes + np.outer(moved - value - slopes @ step, step) / (step @ step)
            value = moved
        low, high = (a, b) if a.log_alpha < b.log_alpha else (b, a)
        node = low
        for _ in range(60):  # halvings: 0.6/2^60 is rounding
            node = self._node_between(a, b, (low.z + high.z) / 2)
            if abs(node.log_alpha - target) < LOG_ALPHA_TOLERANCE:
                break
            if node.log_alpha < target:
                low = node
            else:
                high = node
        point = np.array([node.x, node.z])
        return node.x, node.z, self._log_alpha_slopes(point, self.log_alphas(*point))

    def _log_alpha_slopes(self, point: np.ndarray, here: np.ndarray) -> np.ndarray:
        """Forward differences of log_alphas."""
        x = self.log_alphas(point[0] + LOGIT_DIFFERENCE, point[1])
        z = self.log_alphas(point[0], point[1] + LOGIT_DIFFERENCE)
        return np.stack(
            [(x - here) / LOGIT_DIFFERENCE, (z - here) / LOGIT_DIFFERENCE], axis=1
        )


def _last_z(highest: float, D: float) -> float:
    """z beyond which q_v (1 + D/(1 - q_v)) > highest."""
    if highest < 1:
        return math.log(highest / (1 - highest))
    return LARGEST_NOISELESS_Z if D == 0 else math.log((highest + D) / D)
