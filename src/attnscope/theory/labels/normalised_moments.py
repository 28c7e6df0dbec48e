"""E[y T] and E T^2 of a head with weights h(lam u_l)/(c0 + sum_m h(lam u_m)).

notation: as in moment_risk.py, token_kinds.py and risks/normalised_risk.py: t = e^tau, K_p = e^{p
y} exp(-e^y), y = tau + log h(lam u); f_a = E K_0, A_a = E[w K_1], B_a = E[w^2 K_2] of a kind of
token, P = prod_a f_a^{n_a}.

    E T^2  = int dtau e^{-c0 t} P { sum_a n_a (B_a/f_a - (A_a/f_a)^2) + (sum_a n_a A_a/f_a)^2 },
    E[y T] = int dtau e^{-c0 t} { C P/f_R + Y (P/f_R) sum_{not read} n_a A_a/f_a },
    Y = E[y K_0],    C = E[y w K_1]     of the token R that is read.

Y and C are sums over the label's points c_i and a trapezoid rule in z. They are collected on one
grid of scores first: each node gives its weight to the SPREAD_POINTS nearest grid points by
Lagrange's polynomials, since the kernels vary on the scale 1/lam of the score and the grid has
SCORE_STEP_NATS/lam. So the kernels are evaluated once per (tau, grid point), however many nodes
there are. For h = exp only y = tau + lam u counts: a table of the kernels' averages over z at equal
steps of y serves all tau and all grid points of a + a_x x.

Errors. Interpolation in x: |Im x| <= pi/(3 lam |a_x|) turns one term of the denominator by at most
60 degrees, so that |g| is at most doubled there, and Chebyshev interpolation at N points errs by
4 M r^-N/(r - 1) (Bernstein), r the ellipse within that strip; for h other than exp a smaller fold
takes its place. The error in z and of the grid is the difference of two rules; the outer rule is
that of normalised_risk.py (3e-13 of the integral of absolute terms), and so is rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from attnscope.errors import bad
from attnscope.theory.labels.folded import FOLD_SIZES, Folded, fold
from attnscope.theory.labels.label_blocks import LabelBlock
from attnscope.theory.labels.quadrature import BASE_CELL_SIGMAS, lagrange_basis
from attnscope.theory.labels.token_kinds import (
    Kind,
    Kinds,
    ReadToken,
    Terms,
    kind,
    kinds_of,
    read_token,
)
from attnscope.theory.risks.normalised_risk import (
    EXPONENT_ROUNDING,
    LARGEST_EXPONENT,
    LARGEST_SCORE_SPREAD,
    OUTER_RULE_ERROR,
    SCORE_REACH_SIGMAS,
    TAU_DEPTH_NATS,
    TAU_STEP,
    kernels,
    power,
    rules_for,
)

__all__ = [
    "KindTable",
    "Rule",
    "collected",
    "fold_sizes",
    "kernel_ratios",
    "kernels_at",
    "normalised_terms",
    "score_rule",
    "shifted_kernels",
    "shifts_only",
    "tau_nodes",
]

SCORE_STEP_NATS = 0.07  # between grid points: with 16 points a kernel is then right to 1e-16
GRID_POINTS_PER_TAU_STEP = 4  # grid points per step of tau, for h = exp: 0.0675 nats
SMALLEST_TABLE_LAMBDA = 0.05  # lambda below which the grid would be wider than the scores
# grid points that share the weight of a node, in two rules whose difference estimates the error
SPREAD_POINTS, COARSE_SPREAD_POINTS = 16, 12
STRIP_RADIANS = math.pi / 3  # largest |Im(lam u)| of the Bernstein ellipse
FOLD_ERROR_TARGET = 1e-15  # interpolation error for which the size of a fold is chosen
LARGEST_FOLD_ERROR = 1e-8  # a g that the largest fold resolves less well is left to nodes
SMALLEST_AVERAGE = 1e-290  # products of averages f below this are below rounding


Rule = tuple[np.ndarray, np.ndarray]  # nodes and weights


class KindTable(NamedTuple):
    """f, A, B and 1 - f of a kind at every tau, by two rules; |w K_1| beside."""

    f: np.ndarray
    A: np.ndarray
    B: np.ndarray
    A_size: np.ndarray
    plain: Any


def exponential_scores(predictor: Any) -> bool:
    """Whether log h is the score itself."""
    x = np.array([-3.0, 0.25, 2.0])
    return bool(np.array_equal(predictor.log_activation(x), x))


def normalised_terms(
    predictor: Any, block: LabelBlock, G: np.ndarray, lam: float
) -> Terms | None:
    """The terms of one block; None where the scores vary too fast for the label's points."""
    kinds = kinds_of(block)
    laws = [kind(G, law) for law in kinds.laws]
    if lam * max(law.sd for law in laws) > LARGEST_SCORE_SPREAD:
        return None
    read = read_token(G, block)
    label = block.weights
    sizes = fold_sizes(predictor, lam, read, label.reach)
    if sizes is None:
        return None
    tau, high = tau_nodes(predictor, lam, laws, kinds, read, label.reach)
    sink = np.exp(-predictor.sink * np.exp(np.minimum(tau, LARGEST_EXPONENT)))
    rounding = EXPONENT_ROUNDING * (4 + high)
    fine, coarse = tables(predictor, lam, laws, tau)
    output, output_size = _output_square(fine, kinds, sink)
    output_error = abs(output - _output_square(coarse, kinds, sink)[0])
    output_error += (OUTER_RULE_ERROR + rounding) * output_size
    parts = [
        _cross_moment(
            predictor, lam, block, read, size, rule, places, tables_, kinds, tau, sink
        )
        for size, rule, places, tables_ in zip(
            sizes, (0, 1), (SPREAD_POINTS, COARSE_SPREAD_POINTS), (fine, coarse)
        )
    ]
    (cross, cross_size, Yg), (other, _, _) = parts
    largest = _largest_value(laws, kinds, read, label.reach)
    off = _interpolation_bound(predictor, lam, read, label.reach, sizes[0], largest)
    off += _local_bound(lam, read, largest)
    error = (
        abs(cross - other)
        + (OUTER_RULE_ERROR + rounding) * cross_size
        + label.mean_size * off
    )
    error += 2 * float(label.slack @ Yg)
    return Terms(cross, error, output, output_error, cross_size)


def fold_sizes(
    predictor: Any, lam: float, read: ReadToken, reach: float
) -> tuple[int, int] | None:
    """Two sizes of fold: one whose bound is below FOLD_ERROR_TARGET, and the same or the one
    before.
    """
    r = _ellipse_radius(lam, read, reach)
    enough = [
        i
        for i, size in enumerate(FOLD_SIZES)
        if size * math.log(r) >= -math.log(FOLD_ERROR_TARGET)
    ]
    i = enough[0] if enough else len(FOLD_SIZES) - 1
    if FOLD_SIZES[i] * math.log(r) < -math.log(LARGEST_FOLD_ERROR):
        return None
    return FOLD_SIZES[i], FOLD_SIZES[i] if exponential_scores(predictor) else FOLD_SIZES[
        max(i - 1, 0)
    ]


def _ellipse_radius(lam: float, read: ReadToken, reach: float) -> float:
    """r of the Bernstein ellipse about [-reach, reach] within the strip."""
    turn = lam * abs(read.a_x)
    b = min(STRIP_RADIANS / max(turn, 1e-300) / reach, 10.0)
    return b + math.sqrt(1 + b * b)


def _interpolation_bound(
    predictor: Any, lam: float, read: ReadToken, reach: float, size: int, largest: float
) -> float:
    r = _ellipse_radius(lam, read, reach)
    return 4 * 2 * largest * r ** -(size - 1) / (r - 1)


def _local_bound(lam: float, read: ReadToken, largest: float) -> float:
    """Error of the polynomial of degree 15 that replaces g on a base cell."""
    b = STRIP_RADIANS / max(lam * abs(read.a_x), 1e-300) / (BASE_CELL_SIGMAS / 2)
    r = b + math.sqrt(1 + b * b)
    return 0.0 if r > 1e10 else 4 * 2 * largest * r**-15 / (r - 1)


def _largest_value(laws: list[Kind], kinds: Kinds, read: ReadToken, reach: float) -> float:
    """More than E max_l |w_l| given x, |x| <= reach, on the ellipse."""
    tokens = float(kinds.numbers.sum())
    size = max(abs(law.b) + math.sqrt(law.rest + law.q**2) * (1 + math.sqrt(2 * math.log(tokens + 1)))
               for law in laws)  # fmt: skip
    return size + abs(read.b) + 2 * abs(read.b_x) * reach + abs(read.b_z)


def tau_nodes(
    predictor: Any, lam: float, laws: list[Kind], kinds: Kinds, read: ReadToken, reach: float
) -> tuple[np.ndarray, float]:
    """Nodes from TAU_DEPTH_NATS below -log of the largest sum of h to 4 above -log of the smallest,
    and the
    largest exponent that occurs.
    """
    log_h = lambda u: float(predictor.log_activation(np.array([lam * u]))[0])
    total = float(kinds.numbers.sum())
    far = [law.a + sign * SCORE_REACH_SIGMAS * law.sd for law in laws for sign in (-1, 1)]
    wide = abs(read.a_x) * reach + SCORE_REACH_SIGMAS * read.a_z
    far += [read.a - wide, read.a + wide]
    top = max(log_h(u) for u in far) + math.log(total)
    # the largest of n scores exceeds this quantile with probability 1 - 1e-18
    low = max(
        log_h(law.a + law.sd * max(-SCORE_REACH_SIGMAS, float(ndtri(10 ** (-18 / n)))))
        for law, n in zip(laws, kinds.numbers)
        if n > 0
    )
    if kinds.numbers.sum() == 1:  # the only token may be anywhere that the label counts
        low = min(log_h(u) for u in far)
    count = math.ceil((top - low + TAU_DEPTH_NATS + 4) / TAU_STEP)
    tau = -top - TAU_DEPTH_NATS + TAU_STEP * np.arange(count + 1)
    scores = [abs(lam * u) for u in far]
    high = max(float(np.abs(tau).max()), max(abs(log_h(u)) for u in far), *scores)
    return tau, high


def tables(
    predictor: Any, lam: float, laws: list[Kind], tau: np.ndarray
) -> list[list[KindTable]]:
    """The kernels' averages of every kind by the fine and by the coarse rule."""
    found: list[list[KindTable]] = [[], []]
    for law in laws:
        for rule, (g, weight) in enumerate(rules_for(lam * law.sd)):
            w = law.b + law.q * g
            columns = np.stack(
                [weight, weight * w, weight * (w * w + law.rest), weight * np.abs(w)], 1
            )
            got = kernels(predictor, lam, law.a, law.sd, g, columns, tau)
            plain = got
            found[rule].append(
                KindTable(got.k0[:, 0], got.k1[:, 1], got.k2[:, 2], got.k1[:, 3], plain)
            )
    return found


def _survival(f: np.ndarray, plain: Any, exponent: float) -> np.ndarray:
    """f^exponent: through 1 - f where that is small (long sequences), else by f itself, which keeps
    its relative accuracy down to the smallest float.
    """
    return np.where(f > 0.5, power(plain, exponent), f**exponent)


def kernel_ratios(each: Sequence[KindTable], n: np.ndarray) -> tuple[np.ndarray, ...]:
    """P, and per kind A/f, B/f, 1/f; 0 where f is."""
    P = np.prod([_survival(x.f, x.plain, c) for x, c in zip(each, n)], axis=0)
    f, A, B = (np.array([x[i] for x in each]) for i in range(3))
    over = np.where(f > SMALLEST_AVERAGE, 1 / np.maximum(f, SMALLEST_AVERAGE), 0.0)
    return P, A * over, B * over, over


def _output_square(
    each: list[KindTable], kinds: Kinds, sink: np.ndarray
) -> tuple[float, float]:
    """E T^2, and the integral of the absolute values of its terms."""
    n = kinds.numbers
    P, A, B, over = kernel_ratios(each, n)
    size = over * [x.A_size for x in each]
    value = n @ (B - A * A) + (n @ A) ** 2
    absolute = n @ (B + size * size) + (n @ size) ** 2
    outer = P * sink * TAU_STEP
    return float(outer @ value), float(outer @ absolute)


def _cross_moment(
    predictor: Any, lam: float, block: LabelBlock, read: ReadToken, size: int, rule: int,
    places: int, each: list[KindTable], kinds: Kinds, tau: np.ndarray, sink: np.ndarray,
) -> tuple[float, float, np.ndarray]:  # fmt: skip
    """E[y T], the integral of the absolute values of its terms, and |g| on the base cells."""
    found = fold(block.weights, size, block.folds)
    spread = _sums_by_shifts if shifts_only(predictor, lam) else _sums_by_nodes
    given = score_rule(lam, read, rule)
    Y, C, Y_size, C_size = spread(predictor, lam, read, found, given, places, tau)
    n = kinds.numbers.copy()
    n[kinds.read] -= 1
    P, A, _, over = kernel_ratios(each, n)
    sizes = over * [x.A_size for x in each]
    outer = P * sink * TAU_STEP
    value = float(outer @ (C + Y * (n @ A)))
    absolute = float(outer @ (C_size + Y_size * (n @ sizes)))
    bound = np.full(len(block.weights.centres), 0.0)
    if rule == 0:
        bound = _value_bounds_on_cells(found, read, kinds, block)
    return value, absolute, bound


def score_rule(lam: float, read: ReadToken, rule: int) -> Rule:
    """Nodes and weights in z, fine (0) or coarse (1)."""
    if read.a_z == 0:
        return np.zeros(1), np.ones(1)
    return rules_for(lam * read.a_z)[rule]


def shifts_only(predictor: Any, lam: float) -> bool:
    """Whether one table in y = tau + lam u serves all tau and all scores."""
    return exponential_scores(predictor) and lam > SMALLEST_TABLE_LAMBDA


def kernels_at(
    predictor: Any, lam: float, grid: np.ndarray, tau: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(tau, grid): K_0 and K_1 at the scores of a grid."""
    y = tau[:, None] + predictor.log_activation(lam * grid)
    e = np.exp(np.minimum(y, LARGEST_EXPONENT))
    k0 = np.exp(-e)
    return k0, e * k0


def _sums_by_nodes(
    predictor: Any, lam: float, read: ReadToken, found: Folded, rule: Rule, places: int,
    tau: np.ndarray,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Y, C and their absolute sizes at every tau, for any h."""
    z, weight = rule
    u = read.a + read.a_x * found.points[:, None] + read.a_z * z
    w = read.b + read.b_x * found.points[:, None] + read.b_z * z
    W = found.weights[:, None] * weight
    grid, (first, second) = collected(u, [W, W * w], lam, places)
    k0, k1 = kernels_at(predictor, lam, grid, tau)
    return k0 @ first, k1 @ second, k0 @ np.abs(first), k1 @ np.abs(second)


def _sums_by_shifts(
    predictor: Any, lam: float, read: ReadToken, found: Folded, rule: Rule, places: int,
    tau: np.ndarray,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """The same for h = exp; E[z K_1] = lam a_z E[K_1 - K_2] by Stein's identity."""
    W = found.weights
    masses = [W, W * (read.b + read.b_x * found.points)]
    K, (first, second) = shifted_kernels(lam, read, found, masses, rule, places, tau, 3)
    across = read.b_z * lam * read.a_z * (K[1] - K[2])
    C = K[1] @ second + across @ first
    C_size = K[1] @ np.abs(second) + np.abs(across) @ np.abs(first)
    return K[0] @ first, C, K[0] @ np.abs(first), C_size


def shifted_kernels(
    lam: float, read: ReadToken, found: Folded, masses: list[np.ndarray], rule: Rule,
    places: int, tau: np.ndarray, orders: int,
) -> tuple[np.ndarray, list[np.ndarray]]:  # fmt: skip
    """E K_p over z (orders, tau, grid) for h = exp, from a table in y = tau + lam (a + a_x x), and
    the masses of the label's points on the grid.
    """
    z, weight = rule
    step = TAU_STEP / GRID_POINTS_PER_TAU_STEP
    grid, folded = collected(
        read.a + read.a_x * found.points, masses, lam, places, step / lam
    )
    count = len(grid) + GRID_POINTS_PER_TAU_STEP * (len(tau) - 1)
    y = tau[0] + lam * grid[0] + step * np.arange(count)
    K = np.empty((orders, count))
    for part in np.array_split(np.arange(count), max(1, count * len(z) // (1 << 19))):
        e = np.exp(np.minimum(y[part, None] + lam * read.a_z * z, LARGEST_EXPONENT))
        k = np.exp(-e)
        for p in range(orders):
            K[p, part] = k @ weight
            k *= e
    windows = np.lib.stride_tricks.sliding_window_view(K, len(grid), axis=1)
    return windows[:, ::GRID_POINTS_PER_TAU_STEP], folded


def _value_bounds_on_cells(
    found: Folded, read: ReadToken, kinds: Kinds, block: LabelBlock
) -> np.ndarray:
    """(b,) more than |g| on the base cells: weights are shares, so |g| <= E[max_l |w_l| | x]."""
    x = np.abs(block.weights.centres) + BASE_CELL_SIGMAS
    scale = float(np.max(kinds.laws[:, -1]))
    values = abs(read.b) + abs(read.b_x) * x
    mean = float(np.abs(kinds.laws[:, :-1]).sum(1).max())
    tokens = float(kinds.numbers.sum())
    return values + mean + scale * (1 + math.sqrt(2 * math.log(tokens + 1)))


def collected(
    u: np.ndarray, masses: list[np.ndarray], lam: float, places: int, step: float = 0.0
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Weights at scores u, given to the `places` nearest points of a grid."""
    low, high = float(u.min()), float(u.max())
    widest = max((high - low) / 40, 1e-3 * (1 + abs(high)))
    step = step or min(SCORE_STEP_NATS / max(lam, 1e-300), widest)
    count = int((high - low) / step) + places + 2
    if count > 1 << 20:
        raise bad("inverse_temperature", "risk", "smaller", lam)
    start = low - step * (places // 2)
    at = (u.ravel() - start) / step
    first = np.floor(at).astype(int) - (places // 2 - 1)
    part = at - first  # from places/2 - 1 to places/2
    j = np.arange(places)
    heft = (-1.0) ** j * np.array([math.comb(places - 1, int(k)) for k in j])
    shares = lagrange_basis(part, j, heft)
    index = (first[:, None] + np.arange(places)).ravel()
    folded = [
        np.bincount(index, (mass.ravel()[:, None] * shares).ravel(), count)[:count]
        for mass in masses
    ]
    return start + step * np.arange(count), folded
