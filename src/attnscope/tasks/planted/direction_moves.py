"""Sequences of MultiDirection drawn where mistakes happen: halfway between two placements of the
directions.

notation: F = directions, T_l the set of directions at token l (a bit mask), p_T the law of a token
that carries T, r_T = p_T/p_0, J_f the position of f; s, gam, k_f as in multi_direction; Z(T, T') =
int sqrt(p_T p_T').

A posterior variance is small unless a second placement explains the tokens as well. Two moves lead
to the likeliest:

    one   direction f leaves J_f for another token l' (an empty one where positions are distinct)
    swap  directions f and g at two tokens change places

The tokens that a move changes from T to T' are drawn from sqrt(p_T p_T')/Z: normal, of mean (mu_T +
mu_T')/2 and variance gam^2 where neither set is empty, else mu_T/(1 + gam^2) and 2 gam^2/(1 +
gam^2). With all moves of a kind equally likely the density of a draw over the true one is

    q/p = share_0 + share_1 mean_{f,l'} t(J_f) t(l') + share_2 mean_{f<g} t(J_f) t(J_g),
        t = sqrt(r_T'/r_T)/Z(T, T'),

exactly, whatever move was made; a move that is not possible changes nothing and has t = 1. Weights
p/q are at most 1/share_0.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri

from attnscope.errors import bad
from attnscope.numerics.integrals.tilted import UNIFORM_MARGIN
from attnscope.tasks.planted.definition_checks import LARGEST_LOG_RATIO

__all__ = ["Laws", "Moved", "log_density", "moved"]

Array = np.ndarray

# nats by which one kind of move must be likelier than the other to get most of the draws
CLEAR_LEAD_NATS = 3.0
ZERO_RISK_NATS = 2000.0  # nats: a risk of e^-2000 times any number is 0 in float64


class Laws(NamedTuple):
    """What the moves need of a task: dim, gamma, signal, the keys' inner products,
    whether positions are distinct.
    """

    dim: int
    gamma: float
    signal: float
    gram: Array
    distinct: bool

    @property
    def directions(self) -> int:
        return len(self.gram)

    def parts(self, length: int) -> tuple[int, ...]:
        """Kinds of move (0: none, 1: one, 2: swap), one for each equal part of the draws,
        by how likely mistakes of each are.
        """
        F = self.directions
        one = max(2 * self.log_overlap(1 << f, 0) for f in range(F)) + math.log(length)
        pairs = [2 * self.log_overlap(1 << f, 1 << g) for f, g in combinations(range(F), 2)]
        swap = max(pairs, default=-math.inf)
        if self.distinct and length == F:
            one = -math.inf
        if swap > one + CLEAR_LEAD_NATS:
            return 0, 1, 2, 2, 2, 2
        return (0, 1, 1, 1, 1, 2) if one > swap + CLEAR_LEAD_NATS else (0, 1, 1, 1, 2, 2)

    def within_reach(self, length: int, of: str) -> None:
        """Refuse where log-likelihood ratios are so large that their rounding decides between two
        placements.

        Where no two sets that a token may carry can be taken for each other, rounding decides
        nothing: the risk is 0.
        """
        F = self.directions
        g2 = self.gamma**2
        s2 = self.signal**2
        longest = s2 * float(np.abs(self.gram).sum())
        size = (
            self.dim * abs(math.log(self.gamma))
            + longest / g2
            + abs(1 / g2 - 1) * (g2 * self.dim + longest)
        )
        if size <= LARGEST_LOG_RATIO:
            return
        sets = [1 << f for f in range(F)] if self.distinct else list(range(1, 1 << F))
        if not (self.distinct and length == F):
            sets.append(0)
        rounding = size * float(np.finfo(np.float64).eps)
        nearest = max(
            (2 * self.log_overlap(a, b) for a, b in combinations(sets, 2)), default=-math.inf
        )
        if nearest > -ZERO_RISK_NATS - 10 * rounding:
            got = f"dim={self.dim}, gamma={self.gamma:g}, signal={self.signal:g}"
            must = f"one with log-likelihood ratios of size <= {LARGEST_LOG_RATIO:g}"
            raise bad("the setting", of, must, got, "gamma and signal closer to 1")

    def log_overlap(self, a: int, b: int) -> float:
        """log Z(T, T') of two bit masks."""
        g2 = self.gamma**2
        chosen = np.array([(a >> f & 1) - (b >> f & 1) for f in range(self.directions)])
        square = self.signal**2 * float(chosen @ self.gram @ chosen)
        if a == b:
            return 0.0
        if a and b:
            return -square / (8 * g2)
        return self.dim / 2 * math.log(2 * self.gamma / (1 + g2)) - square / (4 * (1 + g2))


class Moved(NamedTuple):
    """Standard normal numbers e, coefficients of the keys and standard deviations:
    x = s sum_f c_f k_f + sd e.
    """

    noise: Array  # (n, L, axes)
    share: Array  # (n, L, F)
    scale: Array  # (n, L)


def moved(
    kind: int,
    laws: Laws,
    location: Array,
    noise: Array,
    keys: Array,
    groups: int,
    rng: np.random.Generator,
) -> Moved:
    """Tokens after a random move of this kind; location (n, F), noise (n, L, axes), keys (F, axes)
    coordinates of k_f.

    Draws come in groups (i mod groups); the coordinate that decides between the placements is
    spread evenly in each.
    """
    n, length = noise.shape[:2]
    F = laws.directions
    rows = np.arange(n)
    share = np.zeros((n, length, F))
    share[rows[:, None], location, np.arange(F)] = 1.0
    scale = np.where(share.any(2), laws.gamma, 1.0)
    if kind == 0 or (kind == 2 and F == 1):
        return Moved(noise, share, scale)
    f = rng.integers(F, size=n)
    if kind == 1:
        here = location[rows, f]
        there = rng.integers(length, size=n)
        if laws.distinct:  # a uniform empty token
            free = rng.random((n, length)) + share.any(2)
            there = free.argmin(1)
            possible = np.full(n, length > F)
        else:
            there = (here + rng.integers(1, max(length, 2), size=n)) % length
            possible = np.full(n, length > 1)
        direction = keys[f]
        before = share.copy()
        share[rows, here, f] = 0.0
        share[rows, there, f] = 1.0
    else:
        g = (f + rng.integers(1, F, size=n)) % F
        here = location[rows, f]
        there = location[rows, g]
        possible = here != there
        direction = keys[f] - keys[g]
        before = share.copy()
        share[rows, here, f] = 0.0
        share[rows, here, g] = 1.0
        share[rows, there, g] = 0.0
        share[rows, there, f] = 1.0
    changed = np.zeros((n, length), dtype=bool)
    changed[rows[possible], here[possible]] = True
    changed[rows[possible], there[possible]] = True
    g2 = laws.gamma**2
    both = np.any(before, axis=2) & np.any(share, axis=2)
    halfway = np.where(both[..., None], (before + share) / 2, (before + share) / (1 + g2))
    width = np.where(both, laws.gamma, math.sqrt(2 * g2 / (1 + g2)))
    share = np.where(changed[..., None], halfway, before)
    scale = np.where(changed, width, scale)
    return Moved(
        _stratify_noise(noise, here, there, direction, possible, groups, rng), share, scale
    )


def _stratify_noise(
    noise: Array,
    here: Array,
    there: Array,
    direction: Array,
    which: Array,
    groups: int,
    rng: np.random.Generator,
) -> Array:
    """The noise with the difference of two tokens along a direction spread evenly over its law
    within each group.
    """
    size = np.sqrt((direction**2).sum(1))
    rows = np.flatnonzero(which & (size > 0))
    unit = direction / np.where(size > 0, size, 1.0)[:, None]
    count = -(-len(noise) // groups)
    cells = np.argsort(rng.random((count, groups)), axis=0)
    even = ndtri(
        (cells + 1 - rng.random(cells.shape)) / count * (1 - UNIFORM_MARGIN)
        + UNIFORM_MARGIN / 2
    ).ravel()[: len(noise)]
    a = noise[rows, here[rows]]
    b = noise[rows, there[rows]]
    u = unit[rows]
    gap = ((a - b) * u).sum(1) / math.sqrt(2)
    push = ((even[rows] - gap) / math.sqrt(2))[:, None] * u
    noise[rows, here[rows]] = a + push
    noise[rows, there[rows]] = b - push
    return noise


def log_density(laws: Laws, location: Array, log_ratios: Array) -> Array:
    """log q/p, (n,), at sequences of true placement (n, F); log_ratios (2^F, n, L):
    log r_T, 0 for no direction.
    """
    n, length = log_ratios.shape[1:]
    F = laws.directions
    rows = np.arange(n)
    mask = np.zeros((n, length), dtype=np.int64)
    for f in range(F):
        mask[rows, location[:, f]] |= 1 << f
    sets = log_ratios.shape[0]
    overlap = np.array([[laws.log_overlap(a, b) for b in range(sets)] for a in range(sets)])
    now = np.take_along_axis(log_ratios, mask[None], 0)[0]

    def tilt(at: Array, new: Array) -> Array:
        """log t of tokens `at` (n,) that change to sets `new` (n,)."""
        old = mask[rows, at]
        return (log_ratios[new, rows, at] - now[rows, at]) / 2 - overlap[old, new]

    one = []
    column = np.arange(length)
    for f in range(F):
        here = location[:, f]
        bit = 1 << f
        leaves = tilt(here, mask[rows, here] & ~bit)
        more = np.minimum(mask | bit, sets - 1)
        arrives = (np.take_along_axis(log_ratios, more[None], 0)[0] - now) / 2 - overlap[
            mask, more
        ]
        open_to = (mask == 0) if laws.distinct else column != here[:, None]
        ways = open_to.sum(1)
        mean = logsumexp(np.where(open_to, arrives, -np.inf), axis=1) - np.log(
            np.maximum(ways, 1)
        )
        one.append(np.where(ways > 0, leaves + mean, 0.0))
    swap = [np.zeros(n)] if F == 1 else []
    for f, g in combinations(range(F), 2):
        here = location[:, f]
        there = location[:, g]
        flip = (1 << f) | (1 << g)
        apart = here != there
        both = tilt(here, mask[rows, here] ^ flip) + tilt(there, mask[rows, there] ^ flip)
        swap.append(np.where(apart, both, 0.0))
    kinds = [
        np.zeros(n),
        logsumexp(one, axis=0) - math.log(len(one)),
        logsumexp(swap, axis=0) - math.log(len(swap)),
    ]
    parts = laws.parts(length)
    return logsumexp([kinds[kind] for kind in parts], axis=0) - math.log(len(parts))
