"""E[y T] and E T^2 of a head whose weights act on each score alone.

notation: as in moment_risk.py and token_kinds.py; x the standard normal behind what is read.

    g(x) = E[sigma(lam (a + a_x x + a_z z)) (b + b_x x + b_z z)] + sum_{not read} m_a

is evaluated at the Chebyshev points of folded.py. The average over z uses Gauss-Legendre panels
whose ends are whole standard deviations and the places around which sigma varies: those it names
(erf: doubling distances from 0), or the panels on which refined_panels.py has resolved it.
FINE_PANEL_POINTS and COARSE_PANEL_POINTS points per panel differ by the error that is stated. m_a
and q_a are integrals of refined_panels.py, with their own errors.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from attnscope.numerics.integrals.refined_panels import EPS, ScoreLaw, resolve
from attnscope.theory.labels.folded import TAIL_FOLD_SIZES, Folded, cell_sizes, fold, tail
from attnscope.theory.labels.label_blocks import LabelBlock
from attnscope.theory.labels.token_kinds import (
    Kind,
    ReadToken,
    Terms,
    kind,
    kinds_of,
    read_token,
)
from attnscope.theory.risks.normalised_risk import SCORE_REACH_SIGMAS

__all__ = ["KindMoments", "averaged", "componentwise_terms", "kind_moments", "score_edges"]

# Gauss-Legendre points of a panel in z; the difference of the two rules estimates the error
FINE_PANEL_POINTS, COARSE_PANEL_POINTS = 16, 12
# panels of z, each 1.5 standard deviations wide
PANEL_ENDS_SIGMAS = np.linspace(-SCORE_REACH_SIGMAS, SCORE_REACH_SIGMAS, 13)
# relative size of the interpolation error at which no larger fold is tried
INTERPOLATION_TARGET = 1e-13
LEGENDRE_RULES = {
    n: np.polynomial.legendre.leggauss(n)
    for n in (FINE_PANEL_POINTS, COARSE_PANEL_POINTS, 20)
}


class KindMoments(NamedTuple):
    """E sigma w, E sigma^2 w^2 of one token, and their errors."""

    mean: float
    square: float
    mean_error: float
    square_error: float


def componentwise_terms(
    predictor: Any, block: LabelBlock, G: np.ndarray, lam: float
) -> Terms | None:
    """The terms of one block; None where g has no smooth interpolant."""
    kinds = kinds_of(block)
    each = [kind_moments(predictor, kind(G, law), lam) for law in kinds.laws]
    n = kinds.numbers
    m, q, dm, dq = (np.array([x[i] for x in each]) for i in range(4))
    whole, whole_error = float(n @ m), float(n @ dm)
    output = float(n @ (q - m * m)) + whole**2
    output_error = float(n @ (dq + 2 * np.abs(m) * dm)) + 2 * abs(whole) * whole_error
    output_error += 8 * EPS * float(n @ (q + m * m) + whole**2)
    others = n.copy()
    others[kinds.read] -= 1
    added, added_error = float(others @ m), float(others @ dm)
    read = read_token(G, block)
    edges = score_edges(predictor, lam, read, block.weights.reach)
    label = block.weights
    kept = block.folds
    for size in TAIL_FOLD_SIZES:
        found = fold(label, size, kept)
        values, doubt, scale = averaged(predictor, lam, read, found.points, edges)
        off = tail(values, scale)
        if off <= INTERPOLATION_TARGET * scale or size == TAIL_FOLD_SIZES[-1]:
            break
    values = values + added
    cross = float(found.weights @ values)
    sizes = cell_sizes(found, values, off)
    absolute = float(np.abs(label.weights).sum(1) @ sizes)
    error = 2 * float(label.slack @ sizes) + label.mean_size * (off + added_error)
    error += _cross_moment_doubt(found, label, doubt)
    return Terms(cross, error, output, output_error, absolute)


def _cross_moment_doubt(found: Folded, label: Any, doubt: np.ndarray) -> float:
    """E|y| |doubt|, by the largest doubt in and beside each base cell."""
    return float(np.abs(label.weights).sum(1) @ _largest_nearby_doubt(found, label, doubt))


def _largest_nearby_doubt(found: Folded, label: Any, doubt: np.ndarray) -> np.ndarray:
    """(b,) the largest doubt at the points beside each base cell."""
    after = np.clip(np.searchsorted(found.points, label.centres), 1, len(doubt) - 1)
    lower, upper = np.maximum(after - 2, 0), np.minimum(after + 1, len(doubt) - 1)
    return np.maximum.reduce([doubt[lower], doubt[after - 1], doubt[after], doubt[upper]])


def kind_moments(predictor: Any, law: Kind, lam: float) -> KindMoments:
    if law.sd == 0:
        s = float(predictor.activation(np.array([lam * law.a]))[0])
        square = s * s * (law.b**2 + law.rest)
        return KindMoments(s * law.b, square, 8 * EPS * abs(s * law.b), 8 * EPS * square)
    found = resolve(
        predictor, ScoreLaw(lam, law.a, law.sd), partial(_weighted_value_moments, law)
    )
    (m, q), (dm, dq) = found.value, found.error
    return KindMoments(float(m), float(q), float(dm), float(dq))


def _weighted_value_moments(
    law: Kind, g: np.ndarray, s: np.ndarray, ds: Any
) -> tuple[np.ndarray, Any]:
    """s E[w | g] and s^2 E[w^2 | g]."""
    w = law.b + law.q * g
    second = w * w + law.rest
    values = np.stack([s * w, s * s * second])
    if ds is None:
        return values, None
    size = abs(law.b) + abs(law.q) * np.abs(g)
    twice = (2 * np.abs(s) + ds) * ds
    moved = 4 * EPS * np.abs(s) * size
    square = twice * second + 8 * EPS * s * s * (size**2 + law.rest)
    return values, np.stack([ds * np.abs(w) + moved, square])


def score_edges(predictor: Any, lam: float, read: ReadToken, reach: float) -> np.ndarray:
    """Scores u at which panels end: around the places where sigma varies."""
    wide = abs(read.a_x) * reach + SCORE_REACH_SIGMAS * read.a_z
    if lam == 0 or wide == 0:
        return np.zeros(0)
    if not predictor.tame:
        found = resolve(
            predictor, ScoreLaw(lam, read.a, wide / SCORE_REACH_SIGMAS), _activation_moments
        )
        g = found.g.reshape(-1, 20)
        half = (g[:, -1] - g[:, 0]) / 2 / LEGENDRE_RULES[20][0][-1]
        centre = (g[:, -1] + g[:, 0]) / 2
        ends = np.unique(np.round(np.concatenate([centre - half, centre + half]), 12))
        return np.asarray(read.a + wide / SCORE_REACH_SIGMAS * ends)
    parts = []
    for place, scale in predictor.turns():
        unit = scale / lam
        count = int(np.ceil(np.log2(max(2 * wide + abs(read.a), unit) / unit))) + 1
        away = unit * 2.0 ** np.arange(min(count, 60))
        parts.append(place / lam + np.concatenate([-away[::-1], [0.0], away]))
    u = np.concatenate(parts)
    return np.unique(u[np.abs(u - read.a) < wide])


def _activation_moments(g: np.ndarray, s: np.ndarray, ds: Any) -> tuple[np.ndarray, Any]:
    values = np.stack([s, s * g])
    return values, None if ds is None else np.stack([ds, ds * np.abs(g)])


def averaged(
    predictor: Any, lam: float, read: ReadToken, x: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """(N,) averages over z at x, by how much two rules differ, rounding included, and the largest
    average of absolute values.
    """
    found = [
        _average_over_scores(predictor, lam, read, x, edges, n)
        for n in (FINE_PANEL_POINTS, COARSE_PANEL_POINTS)
    ]
    (fine, size), (coarse, _) = found
    return fine, np.abs(fine - coarse) + 16 * EPS * size, float(size.max())


def _average_over_scores(
    predictor: Any, lam: float, read: ReadToken, x: np.ndarray, edges: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    z, weight, s = activations(predictor, lam, read, x, edges, count)
    terms = s * ((read.b + read.b_x * x)[:, None] + read.b_z * z) * weight
    return terms.sum(1), np.abs(terms).sum(1)


def activations(
    predictor: Any, lam: float, read: ReadToken, x: np.ndarray, edges: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N, n) nodes z for each x, their weights with the normal density, and sigma there."""
    if read.a_z == 0:
        z, weight = np.zeros((len(x), 1)), np.ones((len(x), 1))
    else:
        z, weight = _panels_of(read, x, edges, count)
    u = (read.a + read.a_x * x)[:, None] + read.a_z * z
    return z, weight, predictor.activation((lam * u).ravel()).reshape(u.shape)


def _panels_of(
    read: ReadToken, x: np.ndarray, edges: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """(N, n) nodes z for each x, and their weights with the normal density."""
    node, heft = LEGENDRE_RULES[count]
    at = (edges - (read.a + read.a_x * x)[:, None]) / read.a_z
    ends = np.concatenate(
        [np.broadcast_to(PANEL_ENDS_SIGMAS, (len(x), len(PANEL_ENDS_SIGMAS))), at], axis=1
    )
    ends = np.sort(np.clip(ends, -SCORE_REACH_SIGMAS, SCORE_REACH_SIGMAS), axis=1)
    half = np.diff(ends, axis=1) / 2
    used = (half > 0).any(0)
    middle = (ends[:, 1:] + ends[:, :-1]) / 2
    z = (middle[:, used, None] + half[:, used, None] * node).reshape(len(x), -1)
    weight = (half[:, used, None] * heft).reshape(len(x), -1)
    return z, weight * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
