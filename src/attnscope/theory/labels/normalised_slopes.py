"""Derivatives of the risk of a normalised head, on the label's weights.

notation: as in normalised_moments.py; F_p(tau, x) = E K_p over z given x, ' the derivative in alpha
= a + a_x x, beta = b + b_x x.

    Y = sum_i W_i F_0,     C = sum_i W_i (beta F_1 + cov F_1'),     d/dv = (1/2) d^2/d alpha^2,
    lam d/dlam F = alpha F' + v F'',     lam d/dlam F' = alpha F'' + F' + v F'''.

For h = exp, F' = lam E K_p' and K_p' = p K_p - K_{p+1}: nothing is divided by a_z. For other h by
Stein's identity, F^(m) = E[K_p He_m(z)]/a_z^m, where a_z is not small. Kinds of tokens enter
through f, A, B, averages E[P(g) K_p] whose derivatives are averages of other polynomials (Stein; as
in risks/normalised_gradient.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import polynomial as poly

from attnscope.theory.labels.componentwise_slopes import SMALLEST_STEIN_SHARE
from attnscope.theory.labels.folded import Folded, fold
from attnscope.theory.labels.label_blocks import LabelBlock
from attnscope.theory.labels.label_slopes import Slopes
from attnscope.theory.labels.normalised_moments import (
    SPREAD_POINTS,
    KindTable,
    Rule,
    collected,
    fold_sizes,
    kernel_ratios,
    kernels_at,
    score_rule,
    shifted_kernels,
    shifts_only,
    tau_nodes,
)
from attnscope.theory.labels.token_kinds import Kind, ReadToken, kind, kinds_of, read_token
from attnscope.theory.risks.normalised_risk import (
    LARGEST_EXPONENT,
    LARGEST_SCORE_SPREAD,
    TAU_STEP,
    kernels,
    rules_for,
)

__all__ = ["normalised_slopes"]


# relative error charged for the integrals, in the absolute values of their terms
INTEGRAL_ERROR = 1e-11
# K_p^(m) = sum_j c_j K_j: rows m = 0..3 for p = 1, m = 0..2 for p = 0, columns j = 0..4
K1_DERIVATIVES = np.array(
    [[0, 1, 0, 0, 0], [0, 1, -1, 0, 0], [0, 1, -3, 1, 0], [0, 1, -7, 6, -1]], float
)
K0_DERIVATIVES = np.array([[1, 0, 0, 0, 0], [0, -1, 0, 0, 0], [0, -1, 1, 0, 0]], float)


class Weighed(NamedTuple):
    """sum_i W_i x_i^k F^(m) at every tau: zero (3, 3, tau), one (4, 3, tau), by m and k."""

    zero: np.ndarray
    one: np.ndarray


def normalised_slopes(
    predictor: Any, block: LabelBlock, G: np.ndarray, lam: float
) -> Slopes | None:
    kinds = kinds_of(block)
    if lam == 0 or (kinds.laws[:, -1] == 0).any() or G[0, 0] <= 0:
        return None
    seen = [kind(G, law) for law in kinds.laws]
    if lam * max(law.sd for law in seen) > LARGEST_SCORE_SPREAD:
        return None
    read = read_token(G, block)
    sizes = fold_sizes(predictor, lam, read, block.weights.reach)
    if sizes is None:
        return None
    found = fold(block.weights, sizes[0], block.folds)
    tau, _ = tau_nodes(predictor, lam, seen, kinds, read, block.weights.reach)
    weighed = _label_sums(predictor, lam, read, found, tau)
    if weighed is None:
        return None
    sink = np.exp(-predictor.sink * np.exp(np.minimum(tau, LARGEST_EXPONENT))) * TAU_STEP
    tables, changes = zip(*(_kind_slope_table(predictor, lam, law, tau) for law in seen))
    n = kinds.numbers
    others = n.copy()
    others[kinds.read] -= 1
    # -- the label's side ------------------------------------------------------------------------
    ones, zeros = weighed.one, weighed.zero
    v, cov = read.a_z**2, read.a_z * read.b_z
    line = lambda F, c0, c1, k=0: c0 * F[k] + (c1 * F[k + 1] if c1 else 0.0)
    Y = zeros[0][0]
    C = line(ones[0], read.b, read.b_x) + cov * ones[1][0]
    by_alpha = lambda k: line(ones[1], read.b, read.b_x, k) + cov * ones[2][k]
    warm_C = (
        _score_value_sum(ones[1], read) + v * line(ones[2], read.b, read.b_x)
        + cov * (line(ones[2], read.a, read.a_x) + ones[1][0] + v * ones[3][0])
    )  # fmt: skip
    warm_Y = line(zeros[1], read.a, read.a_x) + v * zeros[2][0]
    half = (line(ones[2], read.b, read.b_x) + cov * ones[3][0]) / 2
    dC = [by_alpha(0), by_alpha(1), half, ones[0][0], ones[0][1], ones[1][0], warm_C / lam]
    dY = [zeros[1][0], zeros[1][1], zeros[2][0] / 2, 0 * Y, 0 * Y, 0 * Y, warm_Y / lam]
    P, rA, rB, over = kernel_ratios(tables, n)  # (A, tau)
    P = P * sink
    Q = kernel_ratios(tables, others)[0] * sink
    added = others @ rA
    cross = np.array([float(Q @ (c + y * added)) for c, y in zip(dC, dY)])
    size = np.array([float(Q @ (np.abs(c) + np.abs(y * added))) for c, y in zip(dC, dY)])
    X_A = others[:, None] * Q * Y * over
    X_f = others[:, None] * over * Q * (C + Y * added - Y * rA)
    # -- the output's square ---------------------------------------------------------------------
    whole = n @ rA
    V = n @ (rB - rA**2) + whole**2
    O_B = n[:, None] * P * over
    O_A = n[:, None] * P * over * 2 * (whole - rA)
    O_f = n[:, None] * P * over * (V - rB + 2 * rA**2 - 2 * whole * rA)
    by_f, by_A = O_f - 2 * X_f, O_A - 2 * X_A
    pulls = np.stack([by_f, by_A, O_B], axis=1)  # (A, 3, tau)
    by_kind = np.einsum("apt,akpt->ak", pulls, changes)
    kind_size = np.einsum("apt,akpt->ak", np.abs(pulls), np.abs(changes))
    total = float(P @ V) - 2 * float(Q @ (C + Y * added))
    label = block.weights
    # |dg| <= a few of |w|, x |w| and lam |w|: the sizes of what the derivative multiplies
    reach = (abs(read.b) + 10 * (abs(read.b_x) + abs(read.b_z)) + 10) * np.array(
        [lam, 10 * lam, lam**2, 1.0, 10.0, lam, 10.0]
    )
    lost = INTEGRAL_ERROR * size + label.doubt_per_unit * reach
    return Slopes(total, by_kind, -2 * cross, INTEGRAL_ERROR * kind_size, 2 * lost)


def _score_value_sum(F: np.ndarray, read: ReadToken) -> np.ndarray:
    """sum W alpha beta F, from the sums with 1, x and x^2."""
    return (
        read.a * read.b * F[0]
        + (read.a * read.b_x + read.a_x * read.b) * F[1]
        + read.a_x * read.b_x * F[2]
    )


def _label_sums(
    predictor: Any, lam: float, read: ReadToken, found: Folded, tau: np.ndarray
) -> Weighed | None:
    rule = score_rule(lam, read, 0)
    if shifts_only(predictor, lam):
        return _label_sums_by_table(lam, read, found, rule, tau)
    if read.a_z < SMALLEST_STEIN_SHARE * np.hypot(read.a_x, read.a_z):
        return None
    return _label_sums_by_stein(predictor, lam, read, found, rule, tau)


def _label_sums_by_table(
    lam: float, read: ReadToken, found: Folded, rule: Rule, tau: np.ndarray
) -> Weighed:
    x, W = found.points, found.weights
    K, folded = shifted_kernels(
        lam, read, found, [W, W * x, W * x * x], rule, SPREAD_POINTS, tau, 5
    )
    sums = np.stack([K @ mass for mass in folded])  # (3, 5, tau)
    turn = lambda rows: np.stack(
        [lam**m * np.einsum("j,kjt->kt", c, sums) for m, c in enumerate(rows)]
    )
    return Weighed(turn(K0_DERIVATIVES), turn(K1_DERIVATIVES))


def _label_sums_by_stein(
    predictor: Any, lam: float, read: ReadToken, found: Folded, rule: Rule, tau: np.ndarray
) -> Weighed:
    z, weight = rule
    x = found.points[:, None]
    u = read.a + read.a_x * x + read.a_z * z
    hermite = [1 + 0 * z, z, z * z - 1, z * (z * z - 3)]
    W = found.weights[:, None] * weight
    masses = [W * x**k * h / read.a_z**m for m, h in enumerate(hermite) for k in range(3)]
    grid, folded = collected(u, masses, lam, SPREAD_POINTS)
    k0, k1 = kernels_at(predictor, lam, grid, tau)
    columns = np.stack(folded, axis=1)
    one = (k1 @ columns).T.reshape(4, 3, -1)
    return Weighed((k0 @ columns).T.reshape(4, 3, -1)[:3], one)


def _kind_slope_table(
    predictor: Any, lam: float, law: Kind, tau: np.ndarray
) -> tuple[KindTable, np.ndarray]:
    """f, A, B, and their derivatives (6, 3, tau) in a, b, cov, vu, vw, lam."""
    g, weight = rules_for(lam * law.sd)[0]
    got = kernels(
        predictor, lam, law.a, law.sd, g, weight[:, None] * g[:, None] ** np.arange(5), tau
    )
    K = (got.k0, got.k1, got.k2)
    w = np.array([law.b, law.q])
    square = poly.polyadd(poly.polymul(w, w), [law.rest])
    P = [np.array([1.0]), w, square]
    average = lambda p, c: K[p][:, : len(c)] @ np.asarray(c, dtype=float)
    stein = lambda c: poly.polysub(poly.polymulx(c), poly.polyder(c))
    values = [average(p, c) for p, c in enumerate(P)]
    u = np.array([law.a, law.sd])
    by_a = [average(p, stein(c)) / law.sd for p, c in enumerate(P)]
    by_lam = [average(p, stein(poly.polymul(u, c))) / (lam * law.sd) for p, c in enumerate(P)]
    by_sd = [average(p, stein(poly.polymulx(c))) / law.sd for p, c in enumerate(P)]
    zero = 0 * values[0]
    by_b = [zero, average(1, [1.0]), average(2, 2 * w)]
    # q = cov/sd, rest = vw - q^2
    by_q = [
        zero,
        average(1, [0.0, 1.0]),
        average(2, 2 * poly.polysub(poly.polymulx(w), [law.q])),
    ]
    by_vu = [(s - q * law.q / law.sd) / (2 * law.sd) for s, q in zip(by_sd, by_q)]
    by_vw = [zero, zero, average(2, [1.0])]
    by_cov = [q / law.sd for q in by_q]
    f, A, B = values
    return KindTable(f, A, B, zero, got), np.array([by_a, by_b, by_cov, by_vu, by_vw, by_lam])
