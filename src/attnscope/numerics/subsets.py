"""Posterior of a random subset from its items' likelihood ratios, by a forward and a backward pass.

Nothing is subtracted, so ratios of any size keep their accuracy.

notation: S a subset of {0..L-1} with P(S) = c_|S|, x_l = log r_l the log-likelihood ratio of item
l, e_j elementary symmetric polynomials.

    P(S | X) ~ c_|S| prod_{l in S} r_l
    F_l(i) = e_i(r_0 .. r_{l-1})                        forward:  F_{l+1}(i) = F_l(i) + r_l F_l(i-1)
    G_l(i) = sum over T in {l..L-1} of c_{i+|T|} prod_T r
        backward: G_l(i) = G_{l+1}(i) + r_l G_{l+1}(i+1),  G_L = c
    P(l in S | X) = r_l sum_i F_l(i) G_{l+1}(i+1) / G_0(0),
        P(l not in S | X) = sum_i F_l(i) G_{l+1}(i) / G_0(0),

and E[h_|S| 1{l in S} | X] is the first sum with c_j h_j in the backward pass. Everything is a sum
of positive terms in logarithms, so both probabilities keep their relative accuracy however close to
0 or 1 they are. Cost L times the largest possible |S|. For a fixed size m, P(l in S | X) = r_l
e_{m-1}(r without l)/e_m(r). Exact up to rounding.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

__all__ = [
    "log_inclusion",
    "log_size_moments",
    "log_subset_prior",
    "log_symmetric",
    "log_weighted_inclusion",
]

Array = np.ndarray

RESCALING_INTERVAL = (
    8  # items between two rescalings: sums grow at most by 2^8 r in between, r <= 1
)


def log_subset_prior(count_probs: Array, length: int) -> Array:
    """log c_j, j = 0 .. largest possible size:
    all subsets of one size are equally likely, sizes have the given probabilities.
    """
    p = np.asarray(count_probs, dtype=np.float64)
    j = np.arange(int(np.flatnonzero(p)[-1]) + 1)
    ways = gammaln(length + 1) - gammaln(j + 1) - gammaln(length - j + 1)
    with np.errstate(divide="ignore"):  # an impossible size has log 0
        return np.log(p[: j.size]) - ways


def log_symmetric(log_ratios: Array, order: int) -> Array:
    """log e_m(r_1, ..., r_L), m = order >= 1, of every row of log r (n, L).

    Largest items first, in units of the m-th largest: the first m divide the sums (e <- e/r +
    shifted e), the others are at most 1, so that plain numbers suffice where logarithms would cost ten
    times as much. Only the products of short subsets underflow, and no smaller item could complete
    those to a large product.

    >>> np.exp(log_symmetric(np.log([[1.0, 2.0, 3.0]]), 2)).round(12)
    array([11.])
    """
    x = -np.sort(-log_ratios, axis=1)
    unit = x[:, order - 1]
    steps = (x - unit[:, None]).T
    e = np.zeros((order + 1, len(x)))
    e[0] = 1.0
    logs = order * unit
    for i, step in enumerate(steps):
        top = min(i + 1, order)
        longer = e[:top] * (1.0 if i < order else np.exp(step))
        if i < order:
            e[:top] *= np.exp(-step)
            logs = logs + step
        e[1 : top + 1] += longer
        if i % RESCALING_INTERVAL == RESCALING_INTERVAL - 1:
            size = e.max(axis=0)
            e /= size
            logs = logs + np.log(size)
    return logs + np.log(e[order])


def log_inclusion(log_ratios: Array, log_prior: Array) -> tuple[Array, Array]:
    """(log P(l in S | X), log P(l not in S | X)), each (n, L), from log ratios (n, L) and log c
    (sizes,).

    >>> inside, outside = log_inclusion(np.log([[1.0, 2.0, 3.0]]), np.array([-np.inf, -np.inf, 0.0]))
    >>> np.exp(inside).round(6), np.exp(outside).round(6)  # pairs 12, 13, 23 with weights 2, 3, 6
    (array([[0.454545, 0.727273, 0.818182]]), array([[0.545455, 0.272727, 0.181818]]))
    """
    return _inclusion_and_tables(log_ratios, log_prior)[:2]


def log_weighted_inclusion(log_ratios: Array, log_prior: Array, weights: Array) -> Array:
    """log E[h_|S| 1{l in S} | X], (n, L), for h_j >= 0 = weights (sizes,)."""
    forward = _forward_tables(log_ratios, log_prior.size)
    total = _backward_tables(log_ratios, log_prior)[0][:, :1]
    return _log_weighted_sum(log_ratios, log_prior, weights, forward, total)


def log_size_moments(
    log_ratios: Array, log_prior: Array, weights: Array
) -> tuple[Array, Array, Array, Array]:
    """The two results of log_inclusion and log_weighted_inclusion of h and of h^2, at half the cost."""
    inside, outside, forward, total = _inclusion_and_tables(log_ratios, log_prior)
    first, second = (
        _log_weighted_sum(log_ratios, log_prior, h, forward, total)
        for h in (weights, weights**2)
    )
    return inside, outside, first, second


def _inclusion_and_tables(
    log_ratios: Array, log_prior: Array
) -> tuple[Array, Array, list[Array], Array]:
    """log_inclusion's results, the forward tables and log P(X)."""
    forward = _forward_tables(log_ratios, log_prior.size)
    backward = _backward_tables(log_ratios, log_prior)
    total = backward[0][:, :1]
    inside = _join_tables(log_ratios, forward, backward, 1) - total
    outside = _join_tables(0 * log_ratios, forward, backward, 0) - total
    # above 0 by rounding only
    return np.minimum(inside, 0.0), np.minimum(outside, 0.0), forward, total


def _log_weighted_sum(
    log_ratios: Array, log_prior: Array, weights: Array, forward: list[Array], total: Array
) -> Array:
    with np.errstate(divide="ignore"):
        log_h = np.log(weights)
    out = (
        _join_tables(log_ratios, forward, _backward_tables(log_ratios, log_prior + log_h), 1)
        - total
    )
    return np.minimum(out, log_h.max())  # above it by rounding only


def _forward_tables(x: Array, sizes: int) -> list[Array]:
    """log F_l for l = 0 .. L-1, each (n, sizes)."""
    F = np.full((len(x), sizes), -np.inf)
    F[:, 0] = 0.0
    out = [F]
    for l in range(x.shape[1] - 1):
        F = F.copy()
        F[:, 1:] = np.logaddexp(out[-1][:, 1:], x[:, l : l + 1] + out[-1][:, :-1])
        out.append(F)
    return out


def _backward_tables(x: Array, log_prior: Array) -> list[Array]:
    """log G_l for l = 0 .. L, each (n, sizes)."""
    G = np.tile(log_prior, (len(x), 1))
    out = [G]
    for l in range(x.shape[1] - 1, -1, -1):
        G = G.copy()
        G[:, :-1] = np.logaddexp(out[-1][:, :-1], x[:, l : l + 1] + out[-1][:, 1:])
        out.append(G)
    return out[::-1]


def _join_tables(x: Array, forward: list[Array], backward: list[Array], shift: int) -> Array:
    """x_l + log sum_i F_l(i) G_{l+1}(i + shift), (n, L)."""
    columns = []
    for F, G in zip(forward, backward[1:]):
        terms = F[:, : F.shape[1] - shift] + G[:, shift:]
        columns.append(
            np.logaddexp.reduce(terms, axis=1) if terms.shape[1] else np.full(len(F), -np.inf)
        )
    return x + np.stack(columns, axis=1)
