"""Derivatives of the risk of a componentwise head, by Stein's identity, on the label's weights.

notation: as in componentwise_moments.py; S_k(x) = d^k/d alpha^k E[sigma(lam u)], u ~ N(alpha, v),
alpha = a + a_x x, beta = b + b_x x; M_pn = E[sigma^p g^n].

    E[sigma w | x] = beta S_0 + cov S_1,        d/dv = (1/2) d^2/d alpha^2,
    lam d/dlam S_k = alpha S_{k+1} + k S_k + v S_{k+2},
    S_k = E[sigma He_k(z)]/a_z^k   where a_z is not small, else a_x^-k times the k-th derivative in x
                                   of the Chebyshev interpolant of S_0.

Neither differentiates sigma: kinks cost nothing. E T^2 and the tokens that are not read are
polynomials in M, whose derivatives componentwise_gradient.py has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.numerics.integrals.refined_panels import ScoreLaw
from attnscope.theory.labels.componentwise_moments import (
    COARSE_PANEL_POINTS,
    FINE_PANEL_POINTS,
    activations,
    score_edges,
)
from attnscope.theory.labels.folded import (
    COEFFICIENT_ROUNDING,
    TAIL_FOLD_SIZES,
    Folded,
    coefficients,
    fold,
    tail,
)
from attnscope.theory.labels.label_blocks import LabelBlock
from attnscope.theory.labels.label_slopes import Slopes
from attnscope.theory.labels.token_kinds import ReadToken, kind, kinds_of, read_token
from attnscope.theory.risks.componentwise_gradient import score_moments

__all__ = ["componentwise_slopes"]

# a_z relative to the whole standard deviation: below it Stein's identity would divide by rounding,
# and derivatives are taken in x
SMALLEST_STEIN_SHARE = 0.1
TAIL_TARGET = 1e-12  # relative size of an interpolant's tail at which no larger fold is tried
MOMENT_SLOPE_ERROR = 1e-11  # relative error charged for derivatives of moments
LARGEST_TAIL = 1e-5  # relative tail above which the interpolant has no usable derivative


def componentwise_slopes(
    predictor: Any, block: LabelBlock, G: np.ndarray, lam: float
) -> Slopes | None:
    kinds = kinds_of(block)
    if lam == 0 or (kinds.laws[:, -1] == 0).any() or G[0, 0] <= 0:
        return None
    label = block.weights
    read = read_token(G, block)
    edges = score_edges(predictor, lam, read, label.reach)
    found: Folded
    for size in TAIL_FOLD_SIZES:
        found = fold(label, size, block.folds)
        S, doubt = _score_derivatives(predictor, lam, read, found.points, edges, label.reach)
        # derivatives of an interpolant are polynomials: only S_0 has a tail then
        whole = np.hypot(read.a_x, read.a_z)
        by_stein = read.a_z >= SMALLEST_STEIN_SHARE * whole
        unit = whole ** np.arange(4.0)
        scale = float((np.abs(S).max(1) * unit).max())  # of sigma, also where S_0 cancels
        off = np.array(
            [tail(row, scale / u) if by_stein or k == 0 else 0.0
             for k, (row, u) in enumerate(zip(S, unit))]
        )  # fmt: skip
        if (off * unit <= TAIL_TARGET * scale).all():
            break
    if off[0] > LARGEST_TAIL * scale:
        return None
    x, W = found.points, found.weights
    alpha, beta = read.a + read.a_x * x, read.b + read.b_x * x
    v, cov = read.a_z**2, read.a_z * read.b_z
    first = beta * S[1] + cov * S[2]
    half = (beta * S[2] + cov * S[3]) / 2
    warm = beta * (alpha * S[1] + v * S[2]) + cov * (alpha * S[2] + S[1] + v * S[3])
    rows = np.stack([first, x * first, half, S[0], x * S[0], S[1], warm / lam])
    value = beta * S[0] + cov * S[1]
    # errors: label's slack, interpolation, the rules' difference
    near = np.abs(found.points) <= 9
    reach = np.abs(rows[:, near]).max(1)
    # every row is S times at most two of these factors
    factor = max(
        1.0, abs(v), abs(cov), *(float(np.abs(r[near]).max()) for r in (alpha, beta, x))
    )
    lost = 4 * label.mean_size * float((off + doubt).sum()) * factor**2 * max(1.0, 1 / lam)
    lost = lost + label.doubt_per_unit * reach
    cross = rows @ W
    each = [_kind_slopes(predictor, kind(G, law), law, lam) for law in kinds.laws]
    n = kinds.numbers
    others = n.copy()
    others[kinds.read] -= 1
    mean = float(W.sum())
    m, q = (np.array([e[i] for e in each]) for i in (0, 1))
    dm, dq = (np.array([e[i] for e in each]) for i in (2, 3))  # (A, 6)
    whole = float(n @ m)
    by_kind = n[:, None] * (dq - 2 * m[:, None] * dm) + 2 * whole * n[:, None] * dm
    by_kind -= 2 * mean * others[:, None] * dm
    output = float(n @ (q - m * m)) + whole**2
    total = output - 2 * (float(value @ W) + mean * float(others @ m))
    size_kind = n[:, None] * (
        np.abs(dq) + (2 * np.abs(m)[:, None] + 2 * abs(whole)) * np.abs(dm)
    )
    size_kind += 2 * label.mean_size * others[:, None] * np.abs(dm)
    return Slopes(total, by_kind, -2 * cross, MOMENT_SLOPE_ERROR * size_kind, 2 * lost)


def _score_derivatives(
    predictor: Any,
    lam: float,
    read: ReadToken,
    x: np.ndarray,
    edges: np.ndarray,
    reach: float,
) -> tuple[np.ndarray, np.ndarray]:
    """S_0 .. S_3 (4, N) and how far two rules differ (4,)."""
    by_stein = read.a_z >= SMALLEST_STEIN_SHARE * np.hypot(read.a_x, read.a_z)
    found = []
    for count in (FINE_PANEL_POINTS, COARSE_PANEL_POINTS):
        z, weight, s = activations(predictor, lam, read, x, edges, count)
        average = (s * weight).sum(1)
        if by_stein:
            # a constant has no derivatives: taken off, so that its rounding is not divided by a_z^k
            middle = predictor.activation(lam * (read.a + read.a_x * x))
            off = (s - middle[:, None]) * weight
            hermite = [z, z * z - 1, z * (z * z - 3)]
            slopes = [(off * h).sum(1) / read.a_z ** (k + 1) for k, h in enumerate(hermite)]
            average = np.stack([average, *slopes])
        found.append(average)
    if by_stein:
        near = np.abs(x) <= 9
        return found[0], np.abs(found[0] - found[1])[:, near].max(1)
    # coefficients below rounding are left out: a derivative would raise them
    c = coefficients(found[0])
    largest = float(np.abs(found[0]).max())
    heard = np.flatnonzero(np.abs(c) > COEFFICIENT_ROUNDING * largest)
    c = c[: heard[-1] + 1] if len(heard) else c[:1]
    out = [found[0]]
    doubts = [float(np.abs(found[0] - found[1]).max()) + 2 * COEFFICIENT_ROUNDING * largest]
    # within half of the interval a derivative of T_n is at most 1.2 n/reach
    rate = 1.2 * len(c) / (reach * abs(read.a_x))
    for k in range(1, 4):
        c = np.polynomial.chebyshev.chebder(c) / (reach * read.a_x)
        out.append(np.polynomial.chebyshev.chebval(x / reach, c))
        doubts.append(doubts[0] * len(out[0]) ** 0.5 * rate**k)
    return np.stack(out), np.array(doubts)


def _kind_slopes(
    predictor: Any, seen: Any, law: np.ndarray, lam: float
) -> tuple[float, float, np.ndarray, np.ndarray]:
    """m, q and their derivatives in (a, b, cov, vu, vw, lam)."""
    sd, b, q = seen.sd, seen.b, seen.q
    second = b * b + seen.rest  # E[w^2] at g = 0, less nothing: rest = vw - q^2
    M, d_a, d_lam = score_moments(predictor, ScoreLaw(lam, seen.a, sd))
    d_sd = (lam * d_lam - seen.a * d_a) / sd
    weigh_m = lambda T: b * T[0, 0] + q * T[0, 1]
    weigh_q = lambda T: second * T[1, 0] + 2 * b * q * T[1, 1] + q * q * T[1, 2]
    m_q = M[0, 1]
    q_q = 2 * (b * M[1, 1] + q * (M[1, 2] - M[1, 0]))
    dm = np.array([
        weigh_m(d_a), M[0, 0], m_q / sd, (weigh_m(d_sd) - m_q * q / sd) / (2 * sd), 0.0,
        weigh_m(d_lam),
    ])  # fmt: skip
    dq = np.array([
        weigh_q(d_a), 2 * b * M[1, 0] + 2 * q * M[1, 1], q_q / sd,
        (weigh_q(d_sd) - q_q * q / sd) / (2 * sd), M[1, 0], weigh_q(d_lam),
    ])  # fmt: skip
    return float(weigh_m(M)), float(weigh_q(M)), dm, dq
