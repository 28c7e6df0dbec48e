"""Bayes risk of one informative token among L, from draws of single tokens instead of sequences.

notation: r = dp_1/dp_0 the likelihood ratio of a token (informative against background), pi_l the
probability that position l is informative, m and v the mean and the variance of the label given a
token known to be informative, E_1 and E_0 expectations over one informative, one background token.

Given X the label comes from position l with probability p_l = pi_l r_l/S, S = sum_i pi_i r_i, and
is then of mean m_l and variance v_l. The law of X has the density S against "all background", so

    R = E sum_{j<l} p_j p_l [(m_j - m_l)^2 + v_j + v_l] + E sum_j p_j^2 v_j.

One factor p turns into a likelihood, one 1/S = int_0^oo e^{-tS} dt is left, and tokens separate:

    R = int dt sum_{j<l} B_j B_l [V_j + V_l + (mu_j - mu_l)^2] prod_{i!=j,l} phi_0(pi_i t)
        + int dt sum_j pi_j^2 D(pi_j t) prod_{i!=j} phi_0(pi_i t),
    phi_0(y) = E_0 e^{-yr},  B_j = pi_j A_j,  A(y) = E_1 e^{-yr},  D(y) = E_1[v r e^{-yr}],
    mu, V: mean of m, and E[(m - mu)^2 + v], under E_1 weighted by e^{-yr}.

Only means over ONE token are sampled, all of them from the same draws of a mixture q of laws that
lead from p_1 to p_0 (numerics.integrals.tilted), with the exact weights p_1/q and p_0/q. Every pair
of draws is a pair of competing tokens: n draws see events of probability far below 1/n^2.

Exact: the formulas. Deterministic: the trapezoid rule in tau = log t; all integrands are mixtures
of e^{-tS}, for which step h errs by (4 pi e/h) e^{-pi^2/h} relative (docs/bayes_risk.md).
Sampled: the one-token means. The error is the delete-a-group jackknife of the whole integral,
enlarged so that 5 of them hold as often as 5 standard errors of a normal variable.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp

from attnscope.numerics.border.sampled_estimate import SampledLog, grouped_log_mean, widened

__all__ = ["SINGLE_TOKEN_METHOD", "Draws", "pair_risk"]

Array = np.ndarray

SINGLE_TOKEN_METHOD = "Monte Carlo over single tokens"  # the name in an Estimate
# trapezoid step in log t: relative error 43 e^{-12.3} = 2e-4, far below any sampling error
LOG_T_STEP = 0.8
LOG_T_STEP_ERROR = 2e-4  # the relative error of that step
# step of the table that is interpolated where positions have different probabilities
TABLE_STEP = 0.3
ONE_TOKEN_DEPTH_NATS = 17.0  # nats below the peak at which the integral ends: 4e-8
SEARCH_NODES = 96  # nodes of the search for its range
MOST_NODES = 4000  # a wider integrand is refined no further (the widest seen takes 700)
TABLE_BLOCK_PAIRS = 1 << 19  # (node, draw) pairs worked on at a time: 4 MB arrays
SEARCH_PROBABILITIES = 8  # distinct position probabilities in the search for the range
SEARCH_GROUPS = 8  # groups that take part in the search for the range


class Draws(NamedTuple):
    """Draws of one token from q, in groups: draw i belongs to group i mod `groups`.

    log_ratio, log_background: log r and log p_0/q; mean: m, or its mean given what r depends on;
    variance: v, or that of the label given what r depends on; own: the mean of v given that. None
    stands for 0.
    """

    log_ratio: Array
    log_background: Array
    mean: Array
    variance: Array | None
    own: Array | None
    groups: int


class _Table(NamedTuple):
    """One-token sums at nodes y = e^tau, (nodes, groups) each; those of A scaled by e^-scale."""

    scale: Array
    centre: Array  # m is measured from here
    a0: Array
    a1: Array
    a2: Array
    own: Array
    f0: Array  # E_0 e^{-yr}, scaled by e^-base
    base: Array
    q0: Array  # E_0 (1 - e^{-yr})


def pair_risk(draws: Draws, probs: Array, counts: Array) -> SampledLog:
    """log R; probs (G,): the distinct position probabilities, counts (G,):
    positions that have each.
    """
    order = np.argsort(-probs)
    log_pi = np.log(probs[order])
    n = np.asarray(counts, dtype=np.float64)[order]
    length = float(n.sum())
    if length == 1:
        return _single_position_risk(draws)
    uniform = log_pi.size == 1
    step = LOG_T_STEP if uniform else TABLE_STEP
    # terms beyond float64 do not matter; the result is checked
    with np.errstate(all="ignore"):
        low, high = _integrand_range(draws, log_pi, n)
        # the table is read at y = pi t: for the least t at the smallest pi, for the largest at the
        # largest
        low = low + log_pi[-1]
        high = high + log_pi[0]
        nodes = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1)
        table = _one_token_table(draws, nodes)
        size = len(draws.log_ratio)
        left_out = _sums_without_group(table)
        if uniform:
            whole = _log_risk_uniform(nodes, _sum_of_groups(table), length, size)
            parts = _log_risk_uniform(nodes, left_out, length, size - size / draws.groups)
            rule = 0.0
        else:
            whole = _log_risk_distinct(nodes, _sum_of_groups(table), log_pi, n, size)
            parts = _log_risk_distinct(nodes, left_out, log_pi, n, size - size / draws.groups)
            half = _Table(*(x[::2] for x in _sum_of_groups(table)))
            rule = abs(
                math.expm1(
                    float(_log_risk_distinct(nodes[::2], half, log_pi, n, size)[0] - whole[0])
                )
            )
    relative = np.exp(parts - whole[0])
    spread = float(np.sum((relative - relative.mean()) ** 2)) * (1 - 1 / draws.groups)
    error = widened(math.sqrt(spread), draws.groups)
    return SampledLog(float(whole[0]), math.hypot(error, rule + LOG_T_STEP_ERROR))


def _single_position_risk(draws: Draws) -> SampledLog:
    """L = 1: E_1 v."""
    if draws.own is None:
        return SampledLog(-math.inf, 0.0)
    with np.errstate(divide="ignore"):
        logs = draws.log_background + draws.log_ratio + np.log(draws.own)
    return grouped_log_mean(logs, draws.groups)


def _one_token_table(draws: Draws, nodes: Array) -> _Table:
    block = max(1, TABLE_BLOCK_PAIRS // len(draws.log_ratio))
    parts = [_table_block(draws, nodes[i : i + block]) for i in range(0, nodes.size, block)]
    return _Table(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def _table_block(draws: Draws, tau: Array) -> _Table:
    grown = np.exp(tau[:, None] + draws.log_ratio)  # y r
    logs = draws.log_background + draws.log_ratio - grown
    scale = logs.max(1)
    one = np.exp(logs - scale[:, None])
    centre = (one @ draws.mean) / one.sum(1)
    away = draws.mean - centre[:, None]
    square = away * away
    own = np.zeros((len(tau), draws.groups))
    if draws.variance is not None:
        square += draws.variance
    if draws.own is not None:
        own = _by_group(
            one * np.where(grown < math.inf, grown, 0.0) * draws.own, draws.groups
        )
    back = draws.log_background - grown
    base = back.max(1)
    return _Table(
        scale,
        centre,
        _by_group(one, draws.groups),
        _by_group(one * away, draws.groups),
        _by_group(one * square, draws.groups),
        own,
        _by_group(np.exp(back - base[:, None]), draws.groups),
        base,
        _by_group(-np.expm1(-grown) * np.exp(draws.log_background), draws.groups),
    )


def _by_group(x: Array, groups: int) -> Array:
    return x.reshape(len(x), -1, groups).sum(1)


def _sum_of_groups(t: _Table) -> _Table:
    return _Table(*(x if x.ndim == 1 else x.sum(1, keepdims=True) for x in t))


def _sums_without_group(t: _Table) -> _Table:
    """The sums without each of the groups."""
    return _Table(*(x if x.ndim == 1 else x.sum(1, keepdims=True) - x for x in t))


def _log_phi(t: _Table, size: float) -> Array:
    """log phi_0, (nodes, groups): from 1 - phi_0 where that is small."""
    q = t.q0 / size
    direct = t.base[:, None] + np.log(np.maximum(t.f0, 0.0) / size)
    return np.where(q < 0.5, np.log1p(-np.minimum(q, 0.5)), np.minimum(direct, 0.0))


def _log_risk_uniform(tau: Array, t: _Table, length: float, size: float) -> Array:
    """log R for pi = 1/L, (groups,): y = t/L is the variable."""
    phi = _log_phi(t, size)
    pairs = np.maximum(t.a2 * t.a0 - t.a1**2, 0.0) / size**2
    logs = np.log(pairs) + 2 * t.scale[:, None] + math.log(length - 1)
    if length > 2:
        logs = logs + (length - 2) * phi
    own = np.log(np.maximum(t.own, 0.0) / size) + t.scale[:, None] + (length - 1) * phi
    return logsumexp(np.logaddexp(logs + tau[:, None], own), axis=0) + math.log(
        tau[1] - tau[0]
    )


def _log_risk_distinct(tau: Array, t: _Table, log_pi: Array, n: Array, size: float) -> Array:
    """log R for distinct pi, (groups,): the table is interpolated at log(pi_g t); v = 0 here."""
    inner = np.arange(tau[0] - log_pi[-1], tau[-1] - log_pi[0] + 1e-9, tau[1] - tau[0])
    at = inner[:, None] + log_pi
    mean = t.centre[:, None] + t.a1 / t.a0
    spread = np.maximum(t.a2 / t.a0 - (t.a1 / t.a0) ** 2, 0.0)
    out = []
    for g in range(t.a0.shape[1]):
        log_a = _spline_values(tau, np.log(t.a0[:, g] / size) + t.scale, at)
        log_phi = _spline_values(tau, _log_phi(t, size)[:, g], at)
        mu = _spline_values(tau, mean[:, g], at)
        V = np.maximum(_spline_values(tau, spread[:, g], at), 0.0)
        out.append(_log_pair_sum(log_pi + log_a - log_phi, mu, V, n, log_phi) + inner)
    return logsumexp(np.array(out), axis=1) + math.log(tau[1] - tau[0])


def _log_pair_sum(log_b: Array, mu: Array, V: Array, n: Array, log_phi: Array) -> Array:
    """log of sum_{j<l} B_j B_l [V_j + V_l + (mu_j - mu_l)^2] prod phi_0, for every node."""
    top = log_b.max(1, keepdims=True)
    b = np.exp(log_b - top)
    total = (n * b).sum(1)
    centre = ((n * b * mu).sum(1) / total)[:, None]
    # over j != l: sum_j B_j V_j sum_{l != j} B_l, and the spread of mu over positions
    inside = (n * b * V * (_sums_of_others(n * b) + (n - 1) * b)).sum(1)
    across = total * (n * b * (mu - centre) ** 2).sum(1)
    return np.log(inside + across) + 2 * top[:, 0] + log_phi @ n


def _sums_of_others(x: Array) -> Array:
    """Sums of the other columns, (nodes, G):
    without the difference in which a rare position is lost.
    """
    zero = np.zeros((len(x), 1))
    before = np.cumsum(np.hstack([zero, x[:, :-1]]), axis=1)
    after = np.cumsum(np.hstack([zero, x[:, :0:-1]]), axis=1)[:, ::-1]
    return before + after


def _spline_values(x: Array, y: Array, at: Array) -> Array:
    """Cubic interpolation; beyond the table its value at the end."""
    good = np.isfinite(y)
    inside = np.clip(at, x[good][0], x[good][-1])
    return CubicSpline(x[good], y[good])(inside)


def _integrand_range(draws: Draws, log_pi: Array, n: Array) -> tuple[float, float]:
    """Where in log t the integrand is within ONE_TOKEN_DEPTH_NATS of its peak, from few groups; log_pi falls."""
    count = draws.groups if draws.groups < SEARCH_GROUPS else SEARCH_GROUPS
    few = Draws(
        _first_groups(draws.log_ratio, draws.groups, count),
        _first_groups(draws.log_background, draws.groups, count),
        _first_groups(draws.mean, draws.groups, count),
        None
        if draws.variance is None
        else _first_groups(draws.variance, draws.groups, count),
        None if draws.own is None else _first_groups(draws.own, draws.groups, count),
        count,
    )
    log_pi, n, margin = _merged_probabilities(log_pi, n)
    low = -float(few.log_ratio.max()) - 2 * ONE_TOKEN_DEPTH_NATS - log_pi[0]
    high = -float(few.log_ratio.min()) + 6 - log_pi[-1]
    for _ in range(60):
        u = np.linspace(low, high, SEARCH_NODES)
        t = _sum_of_groups(_one_token_table(few, (u[:, None] + log_pi).ravel()))
        values = _integrand(u, t, log_pi, n, len(few.log_ratio))
        near = np.flatnonzero(values > np.nanmax(values) - ONE_TOKEN_DEPTH_NATS)
        before = high - low
        low = u[max(near[0] - 1, 0)]
        high = u[min(near[-1] + 1, SEARCH_NODES - 1)]
        if high - low > 0.7 * before or high - low < SEARCH_NODES * LOG_T_STEP:
            break
    return low - margin, min(high, low + MOST_NODES * LOG_T_STEP) + margin


def _first_groups(x: Array, groups: int, count: int) -> Array:
    """The draws of the first `count` groups."""
    return x.reshape(-1, groups)[:, :count].ravel()


def _merged_probabilities(log_pi: Array, n: Array) -> tuple[Array, Array, float]:
    """At most SEARCH_PROBABILITIES probabilities that stand for all,
    and by how much the logarithm of one is moved.
    """
    if log_pi.size <= SEARCH_PROBABILITIES:
        return log_pi, n, 0.0
    ends = np.linspace(log_pi[0], log_pi[-1], SEARCH_PROBABILITIES)
    nearest = np.argmin(np.abs(log_pi[:, None] - ends), axis=1)
    counts = np.bincount(nearest, weights=n, minlength=SEARCH_PROBABILITIES)
    return ends[counts > 0], counts[counts > 0], float(ends[0] - ends[1])


def _integrand(u: Array, t: _Table, log_pi: Array, n: Array, size: float) -> Array:
    """log of the integrand in u = log t; t holds the one-token sums at pi t."""
    shape = (u.size, log_pi.size)
    phi = _log_phi(t, size).reshape(shape)
    mu = (t.centre + t.a1[:, 0] / t.a0[:, 0]).reshape(shape)
    spread = (t.a2 / t.a0 - (t.a1 / t.a0) ** 2).reshape(shape)
    log_a = (np.log(t.a0[:, 0] / size) + t.scale).reshape(shape)
    pairs = _log_pair_sum(log_pi + log_a - phi, mu, np.maximum(spread, 0.0), n, phi)
    own = np.log(np.maximum(t.own[:, 0], 0.0) / size) + t.scale
    alone = logsumexp(2 * log_pi + own.reshape(shape) - phi, b=n, axis=1) + phi @ n
    return np.logaddexp(pairs + u, alone + u)
