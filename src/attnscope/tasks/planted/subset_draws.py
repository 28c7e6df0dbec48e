"""The Bayes risk of MultiLocation by draws: one stratum for every number of informative tokens,
tilted to mistakes.

notation: S the informative tokens, m = |S|, P(m) its probability, c_m = P(m)/binom(L, m), h_m = E[D
| m], w_l = x_l.v*, p_l = P(l in S | X), b_l = E[h_m | l in S, X], p1, p0 the laws of an informative
and a background token, r = p1/p0.

Split the posterior variance of A_l = h_m 1{l in S} by whether l is in S, and average over S given X
first:

    E sum_l w_l^2 Var(A_l | X) = sum_{m >= 1} P(m) E[ sum_{l in S} w_l^2 (b_l^2 (1 - p_l) + Var(h_m
        | l in S, X)) | m ].

Every term is positive and at most its share of the null risk, however rare the size m is, and m = 0
adds nothing: a stratum per size, weighted by the exact P(m), leaves no rare size to chance. Draws
per stratum follow the spread that a first round of draws, which is then thrown away, finds in it.

In a stratum the integrand is small unless another set explains the tokens: k tokens of S too many
(down), k too few (up), or one exchanged (swap). A share TILTED_SHARE of the draws takes the tokens of such
a move from p1^y p0^{1-y}/Z(y),

    normal, precision a = y/gam^2 + 1 - y, mean y s k*/(gam^2 a),
    log Z(y) = -(d/2)(y log gam^2 + log a) - s^2 y (1 - y)/(2 gam^2 a),

With z the tilt away from the truth (y = 1 - z for tokens in S, else z) and S' = S changed in k
tokens, S' is likelier than S with probability at most e^{z log(c_m'/c_m) + k log Z} for every z
(Chernoff); tokens tilted by the minimiser z* (1/2 in a swap) have even odds on average. The size m'
with the largest bound times the number of ways is the one that is moved to, and the moves share the
draws by their bounds. Draws are weighted by true over mixed density, at most 1/(1 - TILTED_SHARE). Terms
are bounded but skewed where few draws come near even odds: the standard error is widened by what
the skewness of the mean adds at five of them (Johnson's expansion), and for its degrees of freedom.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from attnscope.numerics.border.sampled_estimate import SampledLog, widened
from attnscope.numerics.subsets import (
    log_inclusion,
    log_size_moments,
    log_subset_prior,
    log_symmetric,
)
from attnscope.tasks.planted.pair import curvature
from attnscope.tasks.planted.subset_tokens import BLOCK_LOG_PROBS

__all__ = ["SubsetTask", "sampled_risk"]

Array = np.ndarray

TILTED_SHARE = 0.75  # share of tilted draws: no weight exceeds 1/(1 - TILTED_SHARE)
LEAST_MOVE_SHARE = (
    0.1  # share of the likeliest move's draws that any other move gets at least
)
# Johnson: t is exceeded as t + skewness (1 + 2 t^2)/6 would be; at t = 5, relative
SKEWNESS_FACTOR = (1 + 2 * 5**2) / 6 / 5
FIRST_ROUND_SHARE = 0.2  # share of the draws that only decide how many draws each size gets
# draws of every possible size: three degrees of freedom, which the error is widened for
FEWEST_STRATUM_DRAWS = 4
TILT_GRID = np.linspace(0.0, 1.0, 65)  # tilts tried for z*: a nearby one serves as well


class SubsetTask(NamedTuple):
    """What is drawn: numbers as in MultiLocation; count_probs (L+1,) P(m), weight (L+1,) h_m."""

    dim: int
    length: int
    gamma: float
    signal: float
    count_probs: Array
    weight: Array

    @property
    def varying(self) -> bool:
        """Whether h_m differs among the possible m >= 1."""
        return bool(np.ptp(self.weight[self.sizes]) > 0)

    @property
    def sizes(self) -> Array:
        """The possible m >= 1."""
        found = np.flatnonzero(self.count_probs)
        return found[found > 0]

    def log_overlap(self, y: Array) -> Array:
        """log Z(y) of the module docstring."""
        g2 = self.gamma**2
        a = y / g2 + 1 - y
        return -self.dim / 2 * (y * math.log(g2) + np.log(a)) - self.signal**2 * y * (
            1 - y
        ) / (2 * g2 * a)


class Stratum(NamedTuple):
    """Sizes that are drawn together, with these probabilities."""

    sizes: Array
    probs: Array


class Moves(NamedTuple):
    """Moves by the true size, (L+1, slots): tokens of S and others that change, the tilt z,
    the share of the moved draws.
    """

    inside: Array
    outside: Array
    tilt: Array
    share: Array  # adds up to 1, or is 0 where there is no move


def sampled_risk(task: SubsetTask, samples: int, seed: int) -> SampledLog:
    """log of E sum_l w_l^2 Var(h_m 1{l in S} | X), and its relative standard error."""
    # terms below the smallest float do not matter; a sum of them is checked
    with np.errstate(all="ignore"):
        return _stratified_risk(task, samples, seed)


def _stratified_risk(task: SubsetTask, samples: int, seed: int) -> SampledLog:
    rng = np.random.default_rng([seed, 4])
    strata = _size_strata(task, samples)
    moves = _moves_by_size(task)
    first = np.full(
        len(strata),
        max(FEWEST_STRATUM_DRAWS, int(FIRST_ROUND_SHARE * samples) // len(strata)),
    )
    tried = _drawn_logs(task, moves, strata, first, rng)
    spread = np.array([logsumexp(2 * logs) - math.log(logs.size) for logs in tried]) / 2
    found = _drawn_logs(
        task, moves, strata, _draws_per_stratum(spread, samples - int(first.sum())), rng
    )
    top = max(float(logs.max()) for logs in found)
    if not top > -math.inf:
        return SampledLog(-math.inf, 0.0)
    parts = [np.exp(logs - top) for logs in found]
    mean = sum(float(part.mean()) for part in parts)
    variances = np.array([float(part.var(ddof=1)) / part.size for part in parts])
    total = float(variances.sum())
    if total == 0:
        return SampledLog(top + math.log(mean), 0.0)
    # degrees of freedom of a sum of estimated variances (Welch and Satterthwaite)
    share = (variances / total) ** 2 / np.array([part.size - 1 for part in parts])
    freedom = max(1, math.floor(1 / float(share.sum())))
    thirds = [float(((part - part.mean()) ** 3).sum()) / part.size**3 for part in parts]
    skewness = max(sum(thirds), 0.0) / total**1.5
    error = math.sqrt(total) / mean * (1 + SKEWNESS_FACTOR * skewness)
    return SampledLog(top + math.log(mean), widened(error, freedom + 1))


def _size_strata(task: SubsetTask, samples: int) -> list[Stratum]:
    """One for every possible size; where draws do not suffice for that,
    sizes of like shares of the null risk together.
    """
    sizes = task.sizes
    log_share = (
        np.log(task.count_probs[sizes]) + np.log(sizes) + 2 * np.log(task.weight[sizes])
    )
    order = np.argsort(-log_share, kind="stable")
    out = []
    for part in np.array_split(
        order, min(sizes.size, max(1, samples // (4 * FEWEST_STRATUM_DRAWS)))
    ):
        probs = np.exp(log_share[part] - log_share[part].max())
        out.append(Stratum(sizes[part], probs / probs.sum()))
    return out


def _draws_per_stratum(log_spread: Array, samples: int) -> Array:
    """Draws per stratum: half by their spreads, half alike, at least FEWEST_STRATUM_DRAWS."""
    top = float(log_spread.max())
    even = np.full(log_spread.size, 1 / log_spread.size)
    by_spread = np.exp(log_spread - top) if top > -math.inf else even
    share = (by_spread / by_spread.sum() + even) / 2
    return np.maximum(np.floor(share * samples).astype(int), FEWEST_STRATUM_DRAWS)


def _drawn_logs(
    task: SubsetTask,
    moves: Moves,
    strata: list[Stratum],
    counts: Array,
    rng: np.random.Generator,
) -> list[Array]:
    """Logs of weighted terms times the probability of their size, a list over the strata."""
    chosen = [
        rng.choice(len(s.sizes), size=n, p=s.probs)
        for s, n in zip(strata, counts, strict=True)
    ]
    sizes = np.concatenate([s.sizes[i] for s, i in zip(strata, chosen, strict=True)])
    drawn = np.concatenate([s.probs[i] for s, i in zip(strata, chosen, strict=True)])
    rows = max(1, BLOCK_LOG_PROBS // (task.length * (int(task.sizes[-1]) + 1)))
    blocks = [
        _log_terms(task, moves, sizes[i : i + rows], rng) for i in range(0, sizes.size, rows)
    ]
    logs = np.concatenate(blocks) + np.log(task.count_probs[sizes]) - np.log(drawn)
    return np.split(logs, np.cumsum(counts)[:-1])


def _log_terms(
    task: SubsetTask, moves: Moves, sizes: Array, rng: np.random.Generator
) -> Array:
    """log of (term of the module docstring x true density/sampling density),
    a draw for each given size.
    """
    # tokens are exchangeable: S = {0 .. m-1}
    informative = np.arange(task.length) < sizes[:, None]
    log_ratios, w2 = _draw_tokens(task, _token_exponents(moves, sizes, informative, rng), rng)
    with np.errstate(divide="ignore"):
        terms = np.where(informative, np.log(w2) + _log_missed(task, log_ratios), -np.inf)
    return logsumexp(terms, axis=1) - _log_mixture(
        task, moves, sizes, log_ratios, informative
    )


def _draw_tokens(task: SubsetTask, y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """(log r, w^2), (n, L) each, of tokens from p1^y p0^{1-y};
    w^2 by its mean where r does not depend on it.
    """
    g2 = task.gamma**2
    s = task.signal
    precision = y / g2 + 1 - y
    sd = precision**-0.5
    u = y * s / (g2 * precision) + sd * rng.standard_normal(y.shape)
    log_ratios = -task.dim * math.log(task.gamma) + s * (u - s / 2) / g2
    if g2 == 1:
        return log_ratios, np.ones(y.shape)
    w2 = (sd * rng.standard_normal(y.shape)) ** 2
    rest = sd**2 * rng.chisquare(task.dim - 2, y.shape) if task.dim > 2 else 0.0
    return log_ratios - curvature(task.gamma) / 2 * (u * u + w2 + rest), w2


def _log_missed(task: SubsetTask, log_ratios: Array) -> Array:
    """log of b_l^2 (1 - p_l) + Var(h_m | l in S, X), (n, L)."""
    log_prior = log_subset_prior(task.count_probs, task.length)
    if not task.varying:
        return (
            2 * math.log(task.weight[task.sizes[0]]) + log_inclusion(log_ratios, log_prior)[1]
        )
    weight = task.weight[: log_prior.size]
    inside, outside, first, second = log_size_moments(log_ratios, log_prior, weight)
    mean = np.exp(first - inside)
    square = np.exp(second - inside)
    return np.log(mean**2 * np.exp(outside) + np.maximum(square - mean**2, 0.0))


# -- moves -----------------------------------------------------------------------------------------


def _moves_by_size(task: SubsetTask) -> Moves:
    """Down, swap and up for every size."""
    L = task.length
    possible = np.flatnonzero(task.count_probs)
    inside = np.zeros((L + 1, 3), dtype=int)
    outside = np.zeros_like(inside)
    tilt = np.full(inside.shape, 0.5)
    bound = np.full(inside.shape, -np.inf)
    even = float(task.log_overlap(np.array(0.5)))
    for m in task.sizes:
        if m < L:
            inside[m, 1] = outside[m, 1] = 1
            bound[m, 1] = 2 * even + math.log(m * (L - m))
        lower = possible[possible < m]
        upper = possible[possible > m]
        if lower.size:
            size, tilt[m, 0], bound[m, 0] = _likeliest_size(task, int(m), lower)
            inside[m, 0] = m - size
        # else a larger set that contains S makes no mistake in it
        if upper.size and task.varying:
            size, tilt[m, 2], bound[m, 2] = _likeliest_size(task, int(m), upper)
            outside[m, 2] = size - m
    top = bound.max(axis=1, keepdims=True)
    some = np.isfinite(bound)
    share = np.where(
        some,
        np.maximum(np.exp(bound - np.where(np.isfinite(top), top, 0.0)), LEAST_MOVE_SHARE),
        0.0,
    )
    return Moves(
        inside,
        outside,
        tilt,
        share / np.maximum(share.sum(axis=1, keepdims=True), LEAST_MOVE_SHARE),
    )


def _likeliest_size(task: SubsetTask, m: int, others: Array) -> tuple[int, float, float]:
    """The size that m is taken for most often, the tilt at which that happens,
    and the log of its bound.
    """
    k = np.abs(others - m)
    among = m if others[0] < m else task.length - m
    log_prior = log_subset_prior(task.count_probs, task.length)
    odds = log_prior[others] - log_prior[m]
    overlap = task.log_overlap(1 - TILT_GRID if others[0] < m else TILT_GRID)
    bounds = TILT_GRID * odds[:, None] + k[:, None] * overlap
    ways = gammaln(among + 1) - gammaln(k + 1) - gammaln(among - k + 1)
    best = int(np.argmax(bounds.min(axis=1) + ways))
    return (
        int(others[best]),
        float(TILT_GRID[bounds[best].argmin()]),
        float(bounds[best].min() + ways[best]),
    )


def _token_exponents(
    moves: Moves, sizes: Array, informative: Array, rng: np.random.Generator
) -> Array:
    """(n, L) the exponent y of p1 in the law of every token:
    1 and 0 but for the tokens of a chosen move.
    """
    n, L = informative.shape
    rows = np.arange(n)
    share = moves.share[sizes]
    chosen = (
        (np.cumsum(share, axis=1) < rng.random((n, 1)))
        .sum(axis=1)
        .clip(max=share.shape[1] - 1)
    )
    mixed = (rng.random(n) < TILTED_SHARE) & (share[rows, chosen] > 0)
    inside = moves.inside[sizes, chosen][:, None]
    outside = moves.outside[sizes, chosen][:, None]
    z = moves.tilt[sizes, chosen][:, None]
    position = np.arange(L)
    m = sizes[:, None]
    down = mixed[:, None] & (position < inside)
    up = mixed[:, None] & (position >= m) & (position < m + outside)
    return np.where(down, 1 - z, np.where(up, z, informative.astype(float)))


def _log_mixture(
    task: SubsetTask, moves: Moves, sizes: Array, log_ratios: Array, informative: Array
) -> Array:
    """log of sampling density over true density:
    symmetric in the tokens of a kind, so averages over all choices of them.
    """
    logs = []
    for slot in range(moves.tilt.shape[1]):
        inside = moves.inside[sizes, slot]
        outside = moves.outside[sizes, slot]
        z = moves.tilt[sizes, slot][:, None]
        leave = np.where(informative, -z * log_ratios - task.log_overlap(1 - z), -np.inf)
        enter = np.where(informative, -np.inf, z * log_ratios - task.log_overlap(z))
        both = _log_choice(leave, inside, sizes) + _log_choice(
            enter, outside, task.length - sizes
        )
        with np.errstate(divide="ignore"):  # a share of 0
            logs.append(both + np.log(moves.share[sizes, slot]))
    average = np.where(moves.share[sizes].any(axis=1), logsumexp(logs, axis=0), 0.0)
    return np.logaddexp(math.log(1 - TILTED_SHARE), math.log(TILTED_SHARE) + average)


def _log_choice(tilt: Array, k: Array, among: Array) -> Array:
    """log of the mean over k-subsets of the product of e^tilt, (n,);
    tilt is -inf but for `among` tokens; 0 where k = 0.
    """
    out = np.zeros(len(tilt))
    for size in np.unique(k[k > 0]):
        rows = k == size
        total = (
            logsumexp(tilt[rows], axis=1)
            if size == 1
            else log_symmetric(tilt[rows], int(size))
        )
        ways = gammaln(among[rows] + 1) - gammaln(size + 1) - gammaln(among[rows] - size + 1)
        out[rows] = total - ways
    return out
