"""E[q(G, s(G))] of a standard normal G for a user's function s, on panels refined until s is resolved.

notation: s(g) = sigma(lam (mean + sd g)), phi the normal density, I the polynomial of degree 19 through s
at the 20 Gauss-Legendre nodes of a panel, q(g, s) an integrand, eps = 2^-52.

A panel carries two rules with no common node: Gauss-Legendre with 20 points, exact to degree 39, and
Gauss-Lobatto with 13, exact to degree 23, which has the ends of the panel among its points c_j. It is
accepted when, for every integrand,

    |Legendre - Lobatto|  and  SLACK sum_j w_j |q(c_j, s(c_j)) - q(c_j, I(c_j))|

are below TOLERANCE times the whole integral, or below the rounding that is there anyway; else it is cut
into four. Two integrals may agree by luck, as over a jump; the second number is a distance, has no sign
and cannot; a jump between the outermost Legendre node and the end of a panel shows at that end. In the
bulk |g| <= BULK further probes, at golden-section places, look between the nodes: a probe at which s is
not I stays in the list until its panel explains it. So a deviation that lasts over GOLDEN_GAP/DENSITY
standard deviations is noticed; a narrower one only if `scale` made the probes denser.

The error of an integral is the sum over the panels of the larger of both numbers, without signs, plus
rounding: the values of s are taken as known to ULPS eps, their argument to SHIFT eps of |mean| + sd |g|,
and every node carries that into its integrand. When the evaluations are used up, what lies in the panels
still open counts in full as error, and beyond UNRESOLVED of the integral there is a refusal instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.interpolation import COARSE, GOLDEN_GAP, golden, lobatto, through, values_at
from attnscope.numerics.quadrature import FINE, REACH, doubling_edges, legendre

__all__ = ["Resolved", "ScoreLaw", "resolve", "sigma_rules"]

EPS = 2.0**-52
ULPS = 4.0  # relative error of a library function in eps: jax.numpy.tanh has 3.5, others about 1
SHIFT = 4.0  # roundings of lam (mean + sd g) and of a first product inside sigma
TOLERANCE = 1e-14  # of the integral, per panel: a few times the rounding of a sum
# integrals below this are 0 for every sum they enter; near 1e-308 their values lose digits, and no
# number of panels would resolve them
NOTHING = 1e-290
INTEGERS = np.arange(-REACH, REACH + 1)
BULK = 8.0  # standard deviations that are probed: beyond, a bump of height 1 weighs less than 1e-15
DENSITY = 256  # probes per standard deviation: their evaluation takes about as long as the two rules
SLACK = 1.2  # the error of the Legendre rule at a jump anywhere in a panel is at most 1.11 times the sum (tested)
MOST_PROBES = 2048  # per panel; denser probes cut the panel first
# evaluations of sigma per law by the rules, and as many by probes: about 20 ms of a library function
BUDGET = 1 << 20
CAP = 16.0  # argument errors in units of the spacing: beyond, rounding has long stopped the refinement
PIECES = 4  # children of an open panel: half the rounds of bisection
NARROWEST = 64 * EPS  # of max(1, |g|): 20 nodes are then one unit in the last place apart
UNRESOLVED = 1e-3  # of the integral: beyond, the error would be the answer
# interpolation through 20 nodes multiplies rounding by at most this, away from the very ends by 3
INTERPOLATED = 8.0
SCALE_GAP = 6.0  # gap of the probes in units of `scale`: exp(-(x/scale)^2) is 1e-4 at 3 scales


class ScoreLaw(NamedTuple):
    """The score of a token: x = lam (mean + sd G)."""

    lam: float
    mean: float
    sd: float

    def score(self, g: np.ndarray) -> np.ndarray:
        return self.lam * (self.mean + self.sd * g)

    def shift(self, g: np.ndarray) -> np.ndarray:
        """How far g is moved by the rounding of the score; a score that does not vary with g moves nothing."""
        return SHIFT * EPS * ((abs(self.mean) / self.sd if self.sd else 0.0) + np.abs(g))

    def place(self, x: float) -> float:
        """The g of a score x."""
        return (x / self.lam - self.mean) / self.sd


class Resolved(NamedTuple):
    """Integrals (k,) with their errors, the nodes and weights (phi included) of both rules, and s at the fine ones."""

    value: np.ndarray
    error: np.ndarray
    g: np.ndarray
    weight: np.ndarray
    s: np.ndarray
    coarse_g: np.ndarray
    coarse_weight: np.ndarray


class _Panels(NamedTuple):
    """Panels, nodes (panels, n) and weights, phi included, of both rules; `spacing` of the Legendre nodes."""

    left: np.ndarray
    width: np.ndarray
    g: np.ndarray
    weight: np.ndarray
    spacing: np.ndarray
    coarse_g: np.ndarray
    coarse_weight: np.ndarray

    def take(self, which: np.ndarray) -> _Panels:
        return _Panels(*(x[which] for x in self))


class _Batch(NamedTuple):
    """s at the Legendre nodes (panels, 20) and sums (k, panels); off, gap: the two numbers of the module docstring."""

    panels: _Panels
    s: np.ndarray
    fine: np.ndarray
    size: np.ndarray
    off: np.ndarray
    gap: np.ndarray
    noise: np.ndarray

    def take(self, which: np.ndarray) -> _Batch:
        sums = (x[:, which] for x in self[2:])
        return _Batch(self.panels.take(which), self.s[which], *sums)


class _Probes(NamedTuple):
    """Probes that differed from I: place, s, and the stretch each of them stands for."""

    g: np.ndarray
    s: np.ndarray
    cell: np.ndarray


class _Kinks(NamedTuple):
    """Declared kinks in g, and how well rounding lets their places be known."""

    place: np.ndarray
    shift: np.ndarray


# (g, s, error of s) -> values, their errors
Integrands = Callable[[np.ndarray, np.ndarray, Any], tuple[np.ndarray, Any]]


def resolve(predictor: Any, law: ScoreLaw, integrands: Integrands) -> Resolved:
    """Integrals of q(g, s) phi for every q of `integrands`.

    Args:
        predictor: a Componentwise: its activation, turns, kinks and scale are used.
        integrands: (g, s, ds) to the values (k, ...) of the integrands and to their absolute errors (k, ...) where s is
            known to ds; ds may be None, and the errors are then not used.
    """
    kinks = _kinks(predictor, law)
    panels, places = _first(_edges(predictor, law, kinks.place).tobytes(), _density(predictor, law))
    jumps: Any = 0.0
    used = 0
    done: list[_Batch] = []
    open_mass: Any = 0.0
    probes: Any = None
    while True:
        batch, seen = _measured(predictor, law, integrands, panels, places, kinks)
        used += panels.left.size * (FINE + COARSE)
        total = sum(b.size.sum(axis=1) for b in [*done, batch])
        bar = np.maximum(np.maximum(TOLERANCE * total[:, None], batch.noise), NOTHING)
        wide_bar = np.maximum(bar, INTERPOLATED * batch.noise)
        unresolved = ((batch.off > bar) | (batch.gap > wide_bar)).any(axis=0)
        if probes is None:
            jumps = _jump_error(integrands, kinks, seen.pop())
            probes, at = _differing(integrands, batch, places, seen, bar)
            places = []
        else:
            probes, at = _unexplained(integrands, batch, probes, bar)
        unresolved[at] = True
        narrow = panels.width <= NARROWEST * np.maximum(1.0, np.abs(panels.left))
        split = unresolved & ~narrow
        if used + PIECES * (FINE + COARSE) * np.count_nonzero(split) > BUDGET:
            split[:] = False
        if not split.any():
            done.append(batch)
            open_mass = open_mass + batch.size[:, unresolved].sum(axis=1)
            return _gathered(done, open_mass, jumps, kinks)
        open_mass = open_mass + batch.size[:, unresolved & ~split].sum(axis=1)
        done.append(batch.take(~split))
        left, width = panels.left[split], panels.width[split]
        starts = left[:, None] + width[:, None] * np.arange(PIECES) / PIECES
        panels = _panels(starts.ravel(), np.repeat(width / PIECES, PIECES))


def sigma_rules(predictor: Any, law: ScoreLaw) -> list[tuple[np.ndarray, np.ndarray]]:
    """(g, weight), fine and coarse, on panels that resolve s, s^2, s g and (s g)^2: for integrals assembled elsewhere."""
    out = resolve(predictor, law, _plain)
    return [(out.g, out.weight), (out.coarse_g, out.coarse_weight)]


def _plain(g: np.ndarray, s: np.ndarray, ds: Any) -> tuple[np.ndarray, Any]:
    values = np.stack([s, s * g, s * s, (s * g) ** 2])
    if ds is None:
        return values, None
    slopes = np.stack([1 + 0 * g, np.abs(g), 2 * np.abs(s) + ds, (2 * np.abs(s) + ds) * g * g])
    return values, slopes * ds


def _density(predictor: Any, law: ScoreLaw) -> float:
    """Probes per standard deviation of the score."""
    steep = law.lam * law.sd
    if predictor.scale is None or steep == 0:
        return DENSITY
    wanted = GOLDEN_GAP * steep / (SCALE_GAP * predictor.scale)
    if 2 * BULK * wanted > BUDGET:
        least = predictor.scale * 2 * BULK * wanted / BUDGET
        must = f"at least {least:.2g} where the scores have standard deviation {steep:.3g}"
        raise bad("scale", "Componentwise", must, predictor.scale, "a smaller temperature, or method='monte-carlo'")
    return max(DENSITY, wanted)


def _kinks(predictor: Any, law: ScoreLaw) -> _Kinks:
    if law.lam * law.sd == 0 or not predictor.kinks:
        return _Kinks(np.zeros(0), np.zeros(0))
    place = np.array([law.place(x) for x in predictor.kinks])
    place = place[np.abs(place) < REACH]
    return _Kinks(place, law.shift(place))


def _jump_error(integrands: Integrands, kinks: _Kinks, s: np.ndarray) -> Any:
    """What the rounding of its place does to the integrals at a declared jump; s (2, kinks) on its two sides."""
    if not kinks.place.size:
        return 0.0
    q, _ = integrands(kinks.place, s, None)
    return np.sum(np.abs(q[:, 0] - q[:, 1]) * 2 * kinks.shift * _phi(kinks.place), axis=-1)


def _keep_sides(kinks: _Kinks, g: np.ndarray) -> np.ndarray:
    """Move the ends of panels that lie on a declared kink inside, so that sigma is asked on the right side of a jump."""
    if not kinks.place.size:
        return g
    g = g.copy()
    for place, shift in zip(*kinks):
        inside = np.minimum(8 * shift + EPS, 1e-3 * (g[:, -1] - g[:, 0]))
        g[:, 0] += inside * (np.abs(g[:, 0] - place) <= 4 * shift)
        g[:, -1] -= inside * (np.abs(g[:, -1] - place) <= 4 * shift)
    return g


def _edges(predictor: Any, law: ScoreLaw, kinks: np.ndarray) -> np.ndarray:
    """The first break points: integers, places where sigma turns, kinks."""
    steep = law.lam * law.sd
    turns = [] if steep == 0 else [(law.place(x), scale / steep) for x, scale in predictor.turns()]
    narrow = [(place, scale) for place, scale in turns if scale < 1]  # the integers resolve the others
    if not narrow and not kinks.size:
        return INTEGERS
    return doubling_edges(narrow, -REACH, REACH, [*INTEGERS, *kinks])


@lru_cache(maxsize=8)
def _first(edges: bytes, density: float) -> tuple[_Panels, list[tuple[np.ndarray, np.ndarray]]]:
    """The first panels, narrower where probes are dense, and the probes."""
    at = np.frombuffer(edges)
    if density > MOST_PROBES:
        more = np.linspace(-BULK, BULK, math.ceil(2 * BULK * density / MOST_PROBES) + 1)
        at = np.unique(np.concatenate([at, more]))
    panels = _panels(at[:-1], np.diff(at))
    return panels, _probe_places(panels.left, panels.width, density)


def _panels(left: np.ndarray, width: np.ndarray) -> _Panels:
    (x20, w20), (x13, w13) = legendre(FINE), lobatto()
    g = left[:, None] + width[:, None] * x20
    coarse_g = left[:, None] + width[:, None] * x13
    weight = width[:, None] * w20 * _phi(g)
    coarse_weight = width[:, None] * w13 * _phi(coarse_g)
    spacing = np.maximum(np.diff(g, axis=1), EPS**2)  # not 0 where a panel is a few units in the last place wide
    return _Panels(left, width, g, weight, spacing, coarse_g, coarse_weight)


def _probe_places(left: np.ndarray, width: np.ndarray, density: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """(panels, places (panels, n)) for every number n of probes per panel, a power of two."""
    inside = np.flatnonzero((left < BULK) & (left + width > -BULK))
    count = 2 ** np.ceil(np.log2(np.maximum(8.0, width[inside] * density))).astype(int)
    out = []
    for n in np.unique(count):
        panels = inside[count == n]
        out.append((panels, left[panels, None] + width[panels, None] * golden(int(n))))
    return out


def _measured(
    predictor: Any, law: ScoreLaw, integrands: Integrands, panels: _Panels, places: list, kinks: _Kinks
) -> tuple[_Batch, list[np.ndarray]]:
    """Both rules on every panel, and s at the probes and on both sides of every kink; sigma is called once."""
    g, weight = panels.g, panels.weight
    coarse_g = _keep_sides(kinks, panels.coarse_g)
    sides = kinks.place + 8 * kinks.shift * np.array([[-1.0], [1.0]])
    everywhere = [g, coarse_g, *(p for _, p in places), sides]
    flat = np.concatenate([x.ravel() for x in everywhere])
    values = predictor.activation(law.score(flat))
    pieces = np.split(values, np.cumsum([x.size for x in everywhere])[:-1])
    s, coarse_s, *seen = (v.reshape(x.shape) for v, x in zip(pieces, everywhere))
    q, dq = integrands(g, s, _error_of_s(law, panels, s, coarse_s))
    explained = through(s, lobatto()[0])
    # q may not feel s at the very end, as at g = 0: a difference there is tried at the next point, too
    inner = explained.copy()
    inner[:, [1, -2]] += (coarse_s - explained)[:, [0, -1]]
    p, _ = integrands(coarse_g, np.stack([coarse_s, explained, inner]), None)
    fine = _sums(q, weight)
    size = _sums(np.abs(q), weight)
    coarse = _sums(p[:, 0], panels.coarse_weight)
    apart = _sums(np.abs(p[:, 0] - p[:, 1]), panels.coarse_weight)
    apart += _sums(np.abs(p[:, 2] - p[:, 1])[..., [1, -2]], panels.coarse_weight[:, [0, -1]])
    # a weight is known to its exponent g^2/2 times eps, and a few roundings of products and of the pairwise sum
    noise = _sums(dq + np.abs(q) * (EPS * (g * g + 16)), weight)
    return _Batch(panels, s, fine, size, np.abs(fine - coarse), SLACK * apart, noise), seen


def _sums(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """(k, panels): sums over the nodes of every panel."""
    return np.einsum("kpn,pn->kp", values, weight)


def _error_of_s(law: ScoreLaw, panels: _Panels, s: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """ULPS eps of s, and what SHIFT eps of its argument does by the differences to the neighbouring nodes and ends."""
    shift = law.shift(panels.g)
    moved = np.abs(s[:, 1:] - s[:, :-1]) * np.minimum(CAP, shift[:, 1:] / panels.spacing)
    out = ULPS * EPS * np.abs(s)
    out[:, 1:] += moved
    out[:, :-1] += moved
    first = legendre(FINE)[0][0] * panels.width  # from an end to the next node
    for i in (0, -1):
        out[:, i] += np.abs(s[:, i] - ends[:, i]) * np.minimum(CAP, shift[:, i] / first)
    return out


def _differing(
    integrands: Integrands, batch: _Batch, places: list, seen: list[np.ndarray], bar: np.ndarray
) -> tuple[_Probes, np.ndarray]:
    """The probes whose s is not what I says, where that matters, and their panels."""
    found = []
    for (panels, g), s in zip(places, seen):
        nodes = batch.s[panels]
        explained = through(nodes, golden(g.shape[1]))
        # the rounding of 20-point interpolation; whether a difference matters is asked below
        rounding = 64 * EPS * np.abs(nodes).max(axis=1, keepdims=True)
        row, column = np.nonzero(np.abs(s - explained) > rounding)
        at = panels[row]
        some = _Probes(g[row, column], s[row, column], batch.panels.width[at] / g.shape[1])
        matters = _matters(integrands, batch, some, at, explained[row, column], bar)
        found.append((*(x[matters] for x in some), at[matters]))
    *probes, at = (np.concatenate(x) for x in zip(*found))
    return _Probes(*probes), at


def _unexplained(integrands: Integrands, batch: _Batch, probes: _Probes, bar: np.ndarray) -> tuple[_Probes, np.ndarray]:
    """The same for probes that differed before, in panels that have become narrower."""
    order = np.argsort(batch.panels.left)
    at = order[np.maximum(np.searchsorted(batch.panels.left[order], probes.g, side="right") - 1, 0)]
    part = (probes.g - batch.panels.left[at]) / batch.panels.width[at]
    inside = (part >= 0) & (part <= 1)
    at = at[inside]
    some = _Probes(*(x[inside] for x in probes))
    middle = batch.s[at, FINE // 2]
    explained = middle + np.sum(values_at(part[inside]) * (batch.s[at] - middle[:, None]), axis=1)
    matters = _matters(integrands, batch, some, at, explained, bar)
    return _Probes(*(x[matters] for x in some)), at[matters]


def _matters(
    integrands: Integrands, batch: _Batch, probes: _Probes, at: np.ndarray, explained: np.ndarray, bar: np.ndarray
) -> np.ndarray:
    """Whether q(s) - q(I), over the probe's stretch, passes the bar or the rounding there."""
    if not at.size:
        return np.zeros(0, dtype=bool)
    q, _ = integrands(probes.g, np.stack([probes.s, explained]), None)
    cell = np.minimum(probes.cell, batch.panels.width[at])
    apart = np.abs(q[:, 0] - q[:, 1]) * cell * _phi(probes.g)
    floor = np.maximum(bar[:, at], INTERPOLATED * batch.noise[:, at] * cell / batch.panels.width[at])
    return (apart > floor).any(axis=0)


def _gathered(done: list[_Batch], open_mass: Any, jumps: Any, kinks: _Kinks) -> Resolved:
    whole = done[0]
    if len(done) > 1:
        panels = _Panels(*(np.concatenate(x) for x in zip(*(b.panels for b in done))))
        sums = (np.concatenate(x, axis=1) for x in zip(*(b[2:] for b in done)))
        whole = _Batch(panels, np.concatenate([b.s for b in done]), *sums)
    value = whole.fine.sum(axis=1)
    size = whole.size.sum(axis=1)
    left_over = np.broadcast_to(np.asarray(open_mass, dtype=np.float64), size.shape)
    if (left_over > UNRESOLVED * size).any():
        share = float((left_over / np.maximum(size, 1e-300)).max())
        raise AttnscopeError(
            f"sigma of Componentwise must be resolved by {BUDGET} evaluations at this temperature, got {100 * share:.3g} % "
            "of an integral still open; try kinks= at its jumps, a smaller temperature, or method='monte-carlo'."
        )
    p = whole.panels
    # the last panels on both sides stand for what is beyond REACH
    ends = whole.size[:, (p.left == -REACH) | (p.left + p.width >= REACH)].sum(axis=1)
    apart = np.maximum(whole.off, whole.gap).sum(axis=1)
    error = apart + whole.noise.sum(axis=1) + 2 * left_over + ends + jumps
    flat = (x.ravel() for x in (p.g, p.weight, whole.s, _keep_sides(kinks, p.coarse_g), p.coarse_weight))
    return Resolved(value, error, *flat)


def _phi(g: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * g * g) / math.sqrt(2 * math.pi)
