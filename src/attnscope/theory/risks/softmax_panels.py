"""The softmax integral where one step does not fit it all: Gauss-Legendre panels that grow away
from where the integrand is sharp.

I(tau) varies on two scales. The largest background score comes within w0 = max(1, lam)/sqrt(1 +
2 log L) of its place c0, where f0^{L-1} falls: (L-1) log f0(c0) = -1. The informative token spreads
over w1 = max(1, lam gam) around c1 = -lam s kap. Where w1/w0 is 1e5 (gam of 1e4, or 1e-4) equal
steps of size w0 over a range of size w1 take a minute. Panels with edges at c0 +- 2^j w0 and
c1 +- 2^j w1 take 1e3 evaluations: I is analytic, and at a distance x from a feature it varies on
the scale x or slower. Each panel is compared with its two halves, and halved again until they
agree; the sum of all differences, far above the error of the halves, is the reported change. Exact
up to that and to the rounding of the scores.

notation: I(tau), lam, gam, s, kap, L, f0, f1 as in softmax_integral.py; w = width of a feature, c
its place.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.theory.risks.softmax_integral import (
    CRUDE_NATS,
    FINE_NATS,
    NEGLIGIBLE_NATS,
    Array,
    Sums,
    integrand,
    token_averages,
)

__all__ = ["panel_edges", "panel_sums"]

# exact to 1e-13 for functions that are analytic within a panel's length of it
PANEL_NODES = 20
# difference of a panel and its halves that is accepted, relative to the whole integral
PANEL_AGREEMENT = 1e-12
# a tolerance above this is the rounding of the scores, beyond which nothing agrees
RESOLVED_TOLERANCE = 1e-8
HALVING_ROUNDS = 10  # the smallest panels are then 1e-3 of a feature's width
# where more panels than this disagree with their halves, the cause is rounding; the change reports
# its size
MAX_SPLIT_PANELS = 400
PANEL_POINTS, PANEL_WEIGHTS = np.polynomial.legendre.leggauss(PANEL_NODES)


def panel_edges(q: tuple[float, ...], length: float, low: float, high: float) -> Array:
    kap = q[0]
    lam = q[5]
    gam = q[6]
    s = q[7]
    doubling = 2.0 ** np.arange(-1, 60)
    edges = [np.array([low, high]), np.linspace(low, high, 9)]
    features = (
        (
            survival_fall(q, length, low, high),
            max(1.0, lam) / math.sqrt(1 + 2 * math.log(length)),
        ),
        (-lam * s * kap, max(1.0, lam * gam)),
    )
    for place, width in features:
        edges += [place - width * doubling, np.array([place]), place + width * doubling]
    found = np.unique(np.concatenate(edges))
    return found[(found >= low) & (found <= high)]


def survival_fall(q: tuple[float, ...], length: float, low: float, high: float) -> float:
    """c0, or the end of the range nearer to it: log f0 falls with tau."""
    work = np.zeros((11, 12))
    for _ in range(60):
        middle = (low + high) / 2
        if (length - 1) * token_averages(middle, q, CRUDE_NATS, work)[1] > -1:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def panel_sums(
    q: tuple[float, ...], length: float, with_gradient: bool, tolerance: float, edges: Array
) -> Sums:
    ends = np.stack([edges[:-1], edges[1:]], axis=1)
    whole = sums_of_panels(ends, q, length, with_gradient)
    scale = float(whole[1].max())
    done = np.zeros((2, 8))  # sums and sums of |.| of what is finished, in units of e^scale
    change = np.zeros(8)
    agree = PANEL_AGREEMENT if tolerance <= RESOLVED_TOLERANCE else tolerance
    for turn in range(HALVING_ROUNDS):
        middle = ends.mean(axis=1)
        halves = np.concatenate(
            [np.stack([ends[:, 0], middle], 1), np.stack([middle, ends[:, 1]], 1)]
        )
        parts = sums_of_panels(halves, q, length, with_gradient)
        top = max(scale, float(parts[1].max()))
        done *= math.exp(scale - top)
        change *= math.exp(scale - top)
        scale = top
        before = whole[0] * np.exp(whole[1] - scale)[:, None, None]
        each = parts[0] * np.exp(parts[1] - scale)[:, None, None]
        after = each[: len(ends)] + each[len(ends) :]
        apart = np.abs(after[:, 0] - before[:, 0])
        size = done[1] + after[:, 1].sum(axis=0)
        # what is below the rest by more than floats reach is not resolved for itself, as in the
        # trapezoid sums
        resolved = size > size.max() * math.exp(-NEGLIGIBLE_NATS)
        agreed = (apart <= agree * size)[:, resolved].all(axis=1)
        if turn == HALVING_ROUNDS - 1 or (~agreed).sum() > MAX_SPLIT_PANELS:
            agreed[:] = True
        done += after[agreed].sum(axis=0)
        change += apart[agreed].sum(axis=0)
        kept = np.concatenate([~agreed, ~agreed])
        if not kept.any():
            break
        ends = halves[kept]
        whole = (parts[0][kept], parts[1][kept])
    return done[0], done[1], change, scale, math.inf


def sums_of_panels(
    ends: Array, q: tuple[float, ...], length: float, with_gradient: bool
) -> tuple[Array, Array]:
    """(panels, 2, 8) sums and sums of |.| in units of e^scale, and the scales (panels,)."""
    sums = np.zeros((len(ends), 2, 8))
    scales = np.zeros(len(ends))
    fill_panels(ends, q, length, with_gradient, PANEL_POINTS, PANEL_WEIGHTS, sums, scales)
    return sums, scales


@njit(cache=True, error_model="numpy", nogil=True)
def fill_panels(
    ends: Array,
    q: tuple[float, ...],
    length: float,
    with_gradient: bool,
    points: Array,
    weights: Array,
    sums: Array,
    scales: Array,
) -> None:
    work = np.zeros((11, 12))
    out = np.zeros(8)
    logs = np.zeros(4)
    for k in range(len(ends)):
        half = (ends[k, 1] - ends[k, 0]) / 2.0
        centre = (ends[k, 1] + ends[k, 0]) / 2.0
        scale = -math.inf
        for i in range(len(points)):
            e = integrand(
                centre + half * points[i],
                q,
                length,
                FINE_NATS,
                with_gradient,
                work,
                out,
                logs,
            )
            if e > scale:
                sums[k] *= math.exp(scale - e)
                scale = e
            sums[k, 0] += weights[i] * half * out * math.exp(e - scale)
            sums[k, 1] += weights[i] * half * np.abs(out) * math.exp(e - scale)
        scales[k] = scale
