"""Where E[q(G, s(G))] evaluates a user's s: panels, nodes of two rules, probes between them.

notation: s(g) = sigma(lam (mean + sd g)), G standard normal with density phi.

The line |g| <= REACH is cut at the integers, at declared kinks and, where sigma turns on a
scale below one standard deviation, at doubling distances from there. A panel has 20 Gauss-
Legendre nodes and 13 Gauss-Lobatto nodes, the ends among them; in the bulk |g| <= PROBED_SIGMAS it has
golden-section probes too, PROBES_PER_SIGMA per standard deviation or as many as the predictor's
`scale` asks for. All of this is geometry: it does not depend on values of sigma and may be
kept for the next call.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.integrals.interpolation import (
    GOLDEN_GAP,
    LOBATTO_POINTS,
    golden,
    golden_interpolation,
    lobatto,
)
from attnscope.numerics.integrals.quadrature import (
    DENSITY_REACH_SIGMAS,
    EPS,
    FINE_NODES,
    doubling_edges,
    legendre,
)

__all__ = [
    "EPS",
    "EVALUATION_BUDGET",
    "LOBATTO_ENDS",
    "First",
    "Kinks",
    "Panels",
    "Probed",
    "ScoreLaw",
    "first_panels",
    "make_panels",
    "phi",
]

SCORE_ROUNDINGS = 4.0  # roundings of lam (mean + sd g) and of a first product inside sigma
INTEGER_EDGES = np.arange(-DENSITY_REACH_SIGMAS, DENSITY_REACH_SIGMAS + 1)
PROBED_SIGMAS = (
    8.0  # standard deviations that are probed: beyond, a bump of height 1 weighs 1e-15
)
PROBES_PER_SIGMA = (
    256  # probes per standard deviation: they take about as long as the two rules
)
MOST_PANEL_PROBES = 2048  # per panel; denser probes cut the panel first
# evaluations of sigma by the rules, and as many by probes: 20 ms of a library function
EVALUATION_BUDGET = 1 << 20
SCALE_GAP = 6.0  # gap of the probes in scales: exp(-(x/scale)^2) is 1e-4 at 3 scales
CACHED_GEOMETRIES = (
    8  # geometries that are cached: 0.1 MB each, 10 MB at the narrowest `scale`
)


LOBATTO_ENDS = slice(0, LOBATTO_POINTS, LOBATTO_POINTS - 1)  # of the Lobatto nodes
LOBATTO_SECONDS = slice(1, LOBATTO_POINTS - 1, LOBATTO_POINTS - 3)  # to the ends


class ScoreLaw(NamedTuple):
    """The score of a token: x = lam (mean + sd G)."""

    lam: float
    mean: float
    sd: float

    def score(self, g: np.ndarray) -> np.ndarray:
        x = self.sd * g
        x += self.mean
        x *= self.lam
        return x

    def offset(self) -> float:
        """|mean|/sd; a score that does not vary with g has none."""
        return abs(self.mean) / self.sd if self.sd else 0.0

    def place(self, x: float) -> float:
        """The g of a score x."""
        return (x / self.lam - self.mean) / self.sd


class Kinks(NamedTuple):
    """Declared kinks in g, and how well rounding lets their places be known."""

    place: tuple[float, ...]
    shift: tuple[float, ...]


class Panels(NamedTuple):
    """Panels with nodes (panels, n) and weights, phi included, of both rules.

    `rounding`: of a weight, its exponent g^2/2 times eps, and of products and sums.
    `near` and `far` (panels, 21): rounding of the score moves g by far + near |mean|/sd, in
    units of the gap between neighbouring Legendre nodes, or between one of them and an end.
    `coarse_g` has the Lobatto nodes and again the second and the last but one of them;
    `coarse_weight` has there the weights of the ends (refined_panels.py says why).
    `last`: the panels that stand for what is beyond REACH.
    """

    left: np.ndarray
    width: np.ndarray
    g: np.ndarray
    weight: np.ndarray
    rounding: np.ndarray
    near: np.ndarray
    far: np.ndarray
    coarse_g: np.ndarray
    coarse_weight: np.ndarray
    last: np.ndarray

    def take(self, which: np.ndarray) -> Panels:
        return Panels(*(x[which] for x in self))

    def nodes(self) -> list[np.ndarray]:
        """Both rules, the Legendre nodes first."""
        return [self.g.ravel(), self.coarse_g[:, :LOBATTO_POINTS].ravel()]


class Probed(NamedTuple):
    """Probes (n,), panel after panel; (m,) of the panels: which, how many, where they start.

    A group is (panels, matrix): panels with equally many probes, and I there by s at nodes.
    """

    g: np.ndarray
    panel: np.ndarray
    many: np.ndarray
    start: np.ndarray
    groups: list[tuple[np.ndarray, np.ndarray]]


class First(NamedTuple):
    """The first panels, and every place of evaluation: nodes, probes, both sides of every kink."""

    panels: Panels
    probed: Probed
    asked: np.ndarray
    kinks: Kinks


def phi(g: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * g * g) / math.sqrt(2 * math.pi)


def first_panels(predictor: Any, law: ScoreLaw) -> First:
    """Where a Componentwise is evaluated first; its turns, kinks and scale are used."""
    steep = law.lam * law.sd
    if steep == 0:
        return _first_geometry((), Kinks((), ()), _probe_density(predictor, steep))
    turns = ((law.place(x), scale / steep) for x, scale in predictor.turns())
    narrow = tuple(turn for turn in turns if turn[1] < 1)  # the integers resolve the others
    return _first_geometry(
        narrow, _kinks_in_g(predictor, law), _probe_density(predictor, steep)
    )


def _probe_density(predictor: Any, steep: float) -> float:
    """Probes per standard deviation of the score."""
    if predictor.scale is None or steep == 0:
        return PROBES_PER_SIGMA
    wanted = GOLDEN_GAP * steep / (SCALE_GAP * predictor.scale)
    if 2 * PROBED_SIGMAS * wanted > EVALUATION_BUDGET:
        least = predictor.scale * 2 * PROBED_SIGMAS * wanted / EVALUATION_BUDGET
        must = f"at least {least:.2g} where the scores have standard deviation {steep:.3g}"
        other = "a smaller inverse temperature, or method='monte-carlo'"
        raise bad("scale", "Componentwise", must, predictor.scale, other)
    return max(PROBES_PER_SIGMA, wanted)


def _kinks_in_g(predictor: Any, law: ScoreLaw) -> Kinks:
    places = (law.place(x) for x in predictor.kinks)
    inside = tuple(g for g in places if abs(g) < DENSITY_REACH_SIGMAS)
    return Kinks(
        inside, tuple(SCORE_ROUNDINGS * EPS * (law.offset() + abs(g)) for g in inside)
    )


@lru_cache(maxsize=CACHED_GEOMETRIES)
def _first_geometry(
    narrow: tuple[tuple[float, float], ...], kinks: Kinks, density: float
) -> First:
    """The panels are narrower where probes are dense."""
    edges = INTEGER_EDGES
    if narrow or kinks.place:
        edges = doubling_edges(
            narrow,
            -DENSITY_REACH_SIGMAS,
            DENSITY_REACH_SIGMAS,
            np.append(INTEGER_EDGES, kinks.place),
        )
    if density > MOST_PANEL_PROBES:
        more = np.linspace(
            -PROBED_SIGMAS,
            PROBED_SIGMAS,
            math.ceil(2 * PROBED_SIGMAS * density / MOST_PANEL_PROBES) + 1,
        )
        edges = np.unique(np.concatenate([edges, more]))
    panels = make_panels(edges[:-1], edges[1:] - edges[:-1], kinks)
    probed = _place_probes(panels.left, panels.width, density)
    pieces = [*panels.nodes(), probed.g]
    if kinks.place:
        apart = 8 * np.array(kinks.shift)
        pieces += [kinks.place - apart, kinks.place + apart]
    asked = np.concatenate(pieces)
    begin = panels.left.size * (FINE_NODES + LOBATTO_POINTS)
    # a million probes are held once
    probed = probed._replace(g=asked[begin : begin + probed.g.size])
    return First(panels, probed, asked, kinks)


@lru_cache
def _unit_panel() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1], Legendre then Lobatto."""
    x20, w20 = legendre(FINE_NODES)
    x13, w13 = lobatto()
    return np.concatenate([x20, x13]), np.concatenate([w20, w13])


def make_panels(left: np.ndarray, width: np.ndarray, kinks: Kinks) -> Panels:
    x, w = _unit_panel()
    across = width[:, None]
    nodes = left[:, None] + across * x
    weights = across * w * phi(nodes)
    g = nodes[:, :FINE_NODES].copy()
    coarse_g = np.empty((left.size, LOBATTO_POINTS + 2))
    coarse_g[:, :LOBATTO_POINTS] = nodes[:, FINE_NODES:]
    coarse_g[:, LOBATTO_POINTS:] = coarse_g[:, LOBATTO_SECONDS]
    _keep_sides(kinks, coarse_g)
    coarse_weight = np.empty((left.size, LOBATTO_POINTS + 2))
    coarse_weight[:, :LOBATTO_POINTS] = weights[:, FINE_NODES:]
    coarse_weight[:, LOBATTO_POINTS:] = coarse_weight[:, LOBATTO_ENDS]
    gap = np.empty((left.size, FINE_NODES + 1))
    # not 0 where a panel is a few units in the last place wide
    np.maximum(g[:, 1:] - g[:, :-1], EPS**2, out=gap[:, 1:-1])
    gap[:, 0] = gap[:, -1] = x[0] * width
    near = SCORE_ROUNDINGS * EPS / gap
    far = near.copy()
    size = np.abs(g)
    far[:, :FINE_NODES] *= size
    far[:, FINE_NODES] *= size[:, -1]
    rounding = EPS * (g * g + 16)
    last = (left == -DENSITY_REACH_SIGMAS) | (left + width >= DENSITY_REACH_SIGMAS)
    weight = weights[:, :FINE_NODES].copy()
    return Panels(left, width, g, weight, rounding, near, far, coarse_g, coarse_weight, last)


def _keep_sides(kinks: Kinks, g: np.ndarray) -> None:
    """Move ends that lie on a declared kink inside: sigma is evaluated on the right side."""
    end = LOBATTO_POINTS - 1
    for place, shift in zip(*kinks):
        inside = np.minimum(8 * shift + EPS, 1e-3 * (g[:, end] - g[:, 0]))
        g[:, 0] += inside * (np.abs(g[:, 0] - place) <= 4 * shift)
        g[:, end] -= inside * (np.abs(g[:, end] - place) <= 4 * shift)


def _place_probes(left: np.ndarray, width: np.ndarray, density: float) -> Probed:
    """Per panel a power of two of probes."""
    inside = np.flatnonzero((left < PROBED_SIGMAS) & (left + width > -PROBED_SIGMAS))
    count = 2 ** np.ceil(np.log2(np.maximum(8.0, width[inside] * density))).astype(int)
    order = np.argsort(count, kind="stable")
    panel = inside[order]
    count = count[order]
    start = left[panel, None]
    across = width[panel, None]
    sizes = sorted(set(count.tolist()))
    begins = np.searchsorted(count, sizes).tolist()
    places = []
    groups = []
    for n, begin, end in zip(sizes, begins, [*begins[1:], panel.size]):
        places.append((start[begin:end] + across[begin:end] * golden(n)).ravel())
        groups.append((panel[begin:end], golden_interpolation(n)))
    return Probed(np.concatenate(places), panel, count, np.cumsum(count) - count, groups)
