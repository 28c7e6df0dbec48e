"""E[q(G, s(G))] for a standard normal G, a user's s, on panels refined until s is resolved.

notation: s(g) = sigma(lam (mean + sd g)), phi the normal density, I the polynomial of degree
19 through s at the 20 Gauss-Legendre nodes of a panel, q(g, s) an integrand, eps = 2^-52.

A panel carries two rules with no common node: Gauss-Legendre with 20 points, exact to degree
39, and Gauss-Lobatto with 13, exact to degree 23, which has the ends of the panel among its
points c_j. It is accepted when, for every integrand,

    |Legendre - Lobatto|  and  JUMP_FACTOR sum_j w_j |q(c_j, s(c_j)) - q(c_j, I(c_j))|

are below PANEL_TOLERANCE times the whole integral, or below the rounding that is there anyway; else
it is cut into four. Two integrals may agree by luck, as over a jump; the second number is a
distance, has no sign and cannot; a jump between the outermost Legendre node and the end of a
panel shows at that end. In the bulk |g| <= PROBED_SIGMAS further probes, at golden-section places
(sigma_panels.py), look between the nodes: a probe at which s is not I stays in the list until
its panel explains it. So a deviation that lasts over GOLDEN_GAP/PROBES_PER_SIGMA standard deviations
is noticed; a narrower one only if `scale` made the probes denser.

The error of an integral is the sum over the panels of the larger of both numbers, without
signs, plus rounding: the values of s are taken as known to LIBRARY_ERROR_EPS eps, their argument to
SCORE_ROUNDINGS eps of |mean| + sd |g|, and every node carries that into its integrand. When the evaluations
are used up, what lies in the panels still open counts in full as error, and beyond UNRESOLVED_SHARE
of the integral there is a refusal instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.numerics.integrals.interpolation import (
    LOBATTO_POINTS,
    explained_by,
    lobatto,
    values_at,
)
from attnscope.numerics.integrals.quadrature import FINE_NODES
from attnscope.numerics.integrals.sigma_panels import (
    EPS,
    EVALUATION_BUDGET,
    LOBATTO_ENDS,
    Kinks,
    Panels,
    Probed,
    ScoreLaw,
    first_panels,
    make_panels,
    phi,
)

__all__ = ["EPS", "Resolved", "ScoreLaw", "resolve", "sigma_rules"]

LIBRARY_ERROR_EPS = (
    4.0  # relative error of a library function in eps: jax.numpy.tanh has 3.5, others 1
)
PANEL_TOLERANCE = 1e-14  # of the integral, per panel: a few times the rounding of a sum
# integrals below this are 0 for every sum they enter; near 1e-308 values lose digits, and
# no number of panels would resolve them
NEGLIGIBLE_INTEGRAL = 1e-290
# the error of the Legendre rule at a jump in a panel is at most 1.11 times the sum (tested)
JUMP_FACTOR = 1.2
LARGEST_ARGUMENT_ERROR = (
    16.0  # argument errors in gaps: beyond, rounding has long stopped the refinement
)
PANEL_CHILDREN = 4  # children of an open panel: half the rounds of bisection
NARROWEST_PANEL = (
    64 * EPS
)  # of max(1, |g|): 20 nodes are then one unit in the last place apart
UNRESOLVED_SHARE = 1e-3  # of the integral: beyond, the error would be the answer
# interpolation through 20 nodes multiplies rounding by at most this, away from the ends by 3
INTERPOLATION_FACTOR = 8.0
NO_NUMBERS = np.zeros(0)


class Resolved(NamedTuple):
    """Integrals (k,), errors; nodes, weights (phi included) of both rules, s at the fine."""

    value: np.ndarray
    error: np.ndarray
    g: np.ndarray
    weight: np.ndarray
    s: np.ndarray
    coarse_g: np.ndarray
    coarse_weight: np.ndarray


class _Batch(NamedTuple):
    """s at the Legendre nodes (panels, 20), and for every integrand and panel five sums.

    (5, k, panels): Legendre, the same of |q|, its rounding, the two numbers above.
    """

    panels: Panels
    s: np.ndarray
    sums: np.ndarray

    def take(self, which: np.ndarray) -> _Batch:
        return _Batch(self.panels.take(which), self.s[which], self.sums[:, :, which])

    @property
    def size(self) -> np.ndarray:
        return self.sums[1]

    @property
    def noise(self) -> np.ndarray:
        return self.sums[2]


class _Probes(NamedTuple):
    """Probes that differed from I: place, s, and the stretch each of them stands for."""

    g: np.ndarray
    s: np.ndarray
    cell: np.ndarray


# (g, s, error of s) -> values, their errors
Integrands = Callable[[np.ndarray, np.ndarray, Any], tuple[np.ndarray, Any]]


def resolve(predictor: Any, law: ScoreLaw, integrands: Integrands) -> Resolved:
    """Integrals of q(g, s) phi for every q of `integrands`.

    Args:
        predictor: a Componentwise: its activation, turns, kinks and scale are used.
        integrands: (g, s, ds) to the values (k, ...) of the integrands and to their absolute
            errors (k, ...) where s is known to ds; ds may be None, without errors.
    """
    first = first_panels(predictor, law)
    panels = first.panels
    asked = first.asked
    probes: _Probes | None = None
    jumps: Any = 0.0
    settled: Any = 0.0
    open_mass: Any = 0.0
    used = 0
    done: list[_Batch] = []
    while True:
        values = predictor.activation(law.score(asked))
        batch = _measure_panels(law, integrands, panels, values)
        nodes = panels.left.size * (FINE_NODES + LOBATTO_POINTS)
        used += nodes
        total = settled + batch.size.sum(axis=1)
        bar = np.maximum(
            np.maximum(PANEL_TOLERANCE * total, NEGLIGIBLE_INTEGRAL)[:, None], batch.noise
        )
        unresolved = _disagreeing_panels(batch, bar)
        if probes is None:
            beyond = nodes + first.probed.g.size
            jumps = _jump_error(integrands, first.kinks, values[beyond:].reshape(2, -1))
            seen = values[nodes:beyond]
            probes, at = _differing_probes(integrands, batch, first.probed, seen, bar)
        else:
            probes, at = _still_differing_probes(integrands, batch, probes, bar)
        unresolved[at] = True
        split = _panels_to_split(panels, unresolved, used)
        if not split.any():
            done.append(batch)
            open_mass = open_mass + batch.size[:, unresolved].sum(axis=1)
            return _resolved_integrals(done, open_mass, jumps)
        open_mass = open_mass + batch.size[:, unresolved & ~split].sum(axis=1)
        done.append(batch.take(~split))
        settled = settled + done[-1].size.sum(axis=1)
        panels = _child_panels(panels, split, first.kinks)
        asked = np.concatenate(panels.nodes())


def sigma_rules(predictor: Any, law: ScoreLaw) -> list[tuple[np.ndarray, np.ndarray]]:
    """(g, weight), fine and coarse, on panels that resolve s, s^2, s g and (s g)^2."""
    out = resolve(predictor, law, _product_integrands)
    return [(out.g, out.weight), (out.coarse_g, out.coarse_weight)]


def _product_integrands(g: np.ndarray, s: np.ndarray, ds: Any) -> tuple[np.ndarray, Any]:
    values = np.stack([s, s * g, s * s, (s * g) ** 2])
    if ds is None:
        return values, None
    twice = 2 * np.abs(s) + ds
    slopes = np.stack([1 + 0 * g, np.abs(g), twice, twice * g * g])
    return values, slopes * ds


def _panels_to_split(panels: Panels, unresolved: np.ndarray, used: int) -> np.ndarray:
    """The unresolved panels that can be cut; none where the evaluations do not last."""
    if not unresolved.any():
        return unresolved
    narrow = panels.width <= NARROWEST_PANEL * np.maximum(1.0, np.abs(panels.left))
    split = unresolved & ~narrow
    if (
        used + PANEL_CHILDREN * (FINE_NODES + LOBATTO_POINTS) * np.count_nonzero(split)
        > EVALUATION_BUDGET
    ):
        split[:] = False
    return split


def _child_panels(panels: Panels, split: np.ndarray, kinks: Kinks) -> Panels:
    """The children of the panels that are cut."""
    left = panels.left[split]
    width = panels.width[split]
    starts = left[:, None] + width[:, None] * np.arange(PANEL_CHILDREN) / PANEL_CHILDREN
    return make_panels(
        starts.ravel(), np.repeat(width / PANEL_CHILDREN, PANEL_CHILDREN), kinks
    )


def _jump_error(integrands: Integrands, kinks: Kinks, s: np.ndarray) -> Any:
    """What rounding of the place of a declared jump does; s (2, kinks) on its two sides."""
    if not kinks.place:
        return 0.0
    place = np.array(kinks.place)
    q, _ = integrands(place, s, None)
    return np.sum(np.abs(q[:, 0] - q[:, 1]) * 2 * np.array(kinks.shift) * phi(place), axis=-1)


def _measure_panels(
    law: ScoreLaw, integrands: Integrands, panels: Panels, values: np.ndarray
) -> _Batch:
    """Both rules on every panel, from the values at their nodes."""
    g = panels.g
    rows = len(g)
    s = values[: g.size].reshape(g.shape)
    coarse_s = values[g.size : g.size + rows * LOBATTO_POINTS].reshape(rows, LOBATTO_POINTS)
    q, dq = integrands(g, s, _error_of_s(law, panels, s, coarse_s))
    p, _ = integrands(panels.coarse_g, _values_at_coarse(s, coarse_s), None)
    terms = np.empty((3, *q.shape))
    terms[0] = q
    np.abs(q, out=terms[1])
    np.multiply(terms[1], panels.rounding, out=terms[2])
    terms[2] += dq
    sums = np.empty((5, *q.shape[:2]))
    np.einsum("mkpn,pn->mkp", terms, panels.weight, out=sums[:3])
    coarse = np.einsum(
        "kpn,pn->kp", p[:, 0, :, :LOBATTO_POINTS], panels.coarse_weight[:, :LOBATTO_POINTS]
    )
    np.abs(sums[0] - coarse, out=sums[3])
    apart = np.abs(p[:, 0] - p[:, 1])
    np.einsum("kpn,pn->kp", apart, JUMP_FACTOR * panels.coarse_weight, out=sums[4])
    return _Batch(panels, s, sums)


def _values_at_coarse(s: np.ndarray, coarse_s: np.ndarray) -> np.ndarray:
    """(2, panels, 15): s and I at `coarse_g`.

    q may not feel s at the very end, as at g = 0: a difference there is tried next to it.
    """
    out = np.empty((2, len(s), LOBATTO_POINTS + 2))
    out[1] = explained_by(s, _interpolation_at_coarse())
    out[0, :, :LOBATTO_POINTS] = coarse_s
    np.subtract(
        out[0, :, LOBATTO_ENDS], out[1, :, LOBATTO_ENDS], out=out[0, :, LOBATTO_POINTS:]
    )
    out[0, :, LOBATTO_POINTS:] += out[1, :, LOBATTO_POINTS:]
    return out


@lru_cache
def _interpolation_at_coarse() -> np.ndarray:
    """(20, 15): I at `coarse_g` by the values at the nodes."""
    places = lobatto()[0]
    return np.ascontiguousarray(values_at(np.append(places, places[[1, -2]])).T)


def _error_of_s(law: ScoreLaw, panels: Panels, s: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """LIBRARY_ERROR_EPS eps of s, and SCORE_ROUNDINGS eps of its argument by the differences to its neighbours."""
    along = np.empty((len(s), FINE_NODES + 2))
    along[:, 0] = ends[:, 0]
    along[:, 1:-1] = s
    along[:, -1] = ends[:, -1]
    moved = along[:, 1:] - along[:, :-1]
    np.abs(moved, out=moved)
    offset = law.offset()
    shift = panels.far + offset * panels.near if offset else panels.far
    moved *= np.minimum(shift, LARGEST_ARGUMENT_ERROR)
    out = np.abs(s)
    out *= LIBRARY_ERROR_EPS * EPS
    out += moved[:, 1:]
    out += moved[:, :-1]
    return out


def _disagreeing_panels(batch: _Batch, bar: np.ndarray) -> np.ndarray:
    """The panels on which the rules, or s and I, differ by more than the bar."""
    off, gap = batch.sums[3:]
    return ((off > bar) | (gap > np.maximum(bar, INTERPOLATION_FACTOR * batch.noise))).any(
        axis=0
    )


def _differing_probes(
    integrands: Integrands, batch: _Batch, probed: Probed, seen: np.ndarray, bar: np.ndarray
) -> tuple[_Probes, np.ndarray]:
    """The probes whose s is not what I says, where that matters, and their panels."""
    parts = [explained_by(batch.s[some], matrix) for some, matrix in probed.groups]
    explained = np.concatenate([part.ravel() for part in parts])
    # the rounding of 20-point interpolation; whether a difference matters is asked below
    rounding = 64 * EPS * np.abs(batch.s[probed.panel]).max(axis=1)
    which = np.flatnonzero(np.abs(seen - explained) > np.repeat(rounding, probed.many))
    if not which.size:
        return _Probes(NO_NUMBERS, NO_NUMBERS, NO_NUMBERS), which
    row = np.searchsorted(probed.start, which, side="right") - 1
    at = probed.panel[row]
    some = _Probes(probed.g[which], seen[which], batch.panels.width[at] / probed.many[row])
    matters = _difference_matters(integrands, batch, some, at, explained[which], bar)
    return _Probes(*(x[matters] for x in some)), at[matters]


def _still_differing_probes(
    integrands: Integrands,
    batch: _Batch,
    probes: _Probes,
    bar: np.ndarray,
) -> tuple[_Probes, np.ndarray]:
    """The same for probes that differed before, in panels that have become narrower."""
    order = np.argsort(batch.panels.left)
    before = np.searchsorted(batch.panels.left[order], probes.g, side="right") - 1
    at = order[np.maximum(before, 0)]
    part = (probes.g - batch.panels.left[at]) / batch.panels.width[at]
    inside = (part >= 0) & (part <= 1)
    at = at[inside]
    some = _Probes(*(x[inside] for x in probes))
    if not at.size:
        return some, at
    middle = batch.s[at, FINE_NODES // 2]
    off = batch.s[at] - middle[:, None]
    explained = middle + np.sum(values_at(part[inside]) * off, axis=1)
    matters = _difference_matters(integrands, batch, some, at, explained, bar)
    return _Probes(*(x[matters] for x in some)), at[matters]


def _difference_matters(
    integrands: Integrands,
    batch: _Batch,
    probes: _Probes,
    at: np.ndarray,
    explained: np.ndarray,
    bar: np.ndarray,
) -> np.ndarray:
    """Whether q(s) - q(I), over the probe's stretch, passes the bar or the rounding there."""
    q, _ = integrands(probes.g, np.stack([probes.s, explained]), None)
    width = batch.panels.width[at]
    cell = np.minimum(probes.cell, width)
    apart = np.abs(q[:, 0] - q[:, 1]) * cell * phi(probes.g)
    floor = np.maximum(bar[:, at], INTERPOLATION_FACTOR * batch.noise[:, at] * cell / width)
    return (apart > floor).any(axis=0)


def _resolved_integrals(done: list[_Batch], open_mass: np.ndarray, jumps: Any) -> Resolved:
    whole = done[0]
    if len(done) > 1:
        panels = Panels(*(np.concatenate(x) for x in zip(*(b.panels for b in done))))
        sums = np.concatenate([b.sums for b in done], axis=2)
        whole = _Batch(panels, np.concatenate([b.s for b in done]), sums)
    value, size, noise = whole.sums[:3].sum(axis=2)
    if (open_mass > UNRESOLVED_SHARE * size).any():
        share = float((open_mass / np.maximum(size, 1e-300)).max())
        raise AttnscopeError(
            f"sigma of Componentwise must be resolved by {EVALUATION_BUDGET} evaluations "
            f"at this inverse temperature, got {100 * share:.3g} % of an integral still open; "
            "try kinks= at its jumps, a smaller inverse temperature, or method='monte-carlo'."
        )
    p = whole.panels
    beyond = whole.size[:, p.last].sum(axis=1)
    apart = np.maximum(whole.sums[3], whole.sums[4]).sum(axis=1)
    error = apart + noise + 2 * open_mass + beyond + jumps
    fine = (x.ravel() for x in (p.g, p.weight, whole.s))
    coarse = (x[:, :LOBATTO_POINTS].ravel() for x in (p.coarse_g, p.coarse_weight))
    return Resolved(value, error, *fine, *coarse)
