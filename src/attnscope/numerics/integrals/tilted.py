"""Draws of one token from a mixture of laws that lead from informative to background.

notation: p_1 = N(mu, P^{-1}) informative, p_0 background, p_z ~ p_1^{1-z} p_0^z, l = log p_1/p_0,
L = length; coordinates in which all precisions are diagonal, the last one standing for `rest` axes.

A mistake happens where a background token and the informative one look alike: near the p_z with
E_z l = log L if z < 1/2, else near p_{1/2} (two tokens compete, and e^{-l/2} each is the best
tilt). Where log priors differ by g, two tokens compete best at p_z and p_{1-z} with E_z l - E_{1-z}
l = g. The mixture takes p_1, p_0 and the p_z in steps of LAW_SPACING_SIGMAS standard deviations around that z;
with p_1 and p_0 among its K parts no weight exceeds K. For a Student t background p_z is replaced
by the normal law with p_0's slope at its own mean square: any q is allowed, weights are exact.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, gammaincinv, gammaln, logsumexp, ndtri

from attnscope.numerics.border.sampled_estimate import groups_of

__all__ = [
    "Background",
    "Mixed",
    "Normal",
    "bridge",
    "log_normal",
    "mixed_draws",
    "student_constant",
]

Array = np.ndarray

LAW_SPACING_SIGMAS = (
    1.5  # standard deviations between neighbours: their densities still overlap by half
)
LAWS_PER_SIDE = (
    3  # neighbours on either side of the most confusing law: 4.5 standard deviations
)
# the values of z that are compared
TILTS = np.concatenate([[0.0], expit(np.linspace(-24.0, 24.0, 193)), [1.0]])
# steps of the fixed point of the Student slope, which halves its error in each or so
SLOPE_STEPS = 60
UNIFORM_MARGIN = (
    2e-16  # keeps uniform numbers off 0 and 1, where the inverse of a law is infinite
)
MOST_LAWS = 40  # laws of one bridge: more are spread over the whole stretch


class Normal(NamedTuple):
    """Independent normal coordinates: mean (q,), precision (q,), and that of the rest;
    or rows of such.
    """

    mean: Array
    precision: Array
    rest: Any


class Background(NamedTuple):
    """Mean 0, inverse variances (q,) and of the rest, freedom n of a Student t (None: normal)."""

    precision: Array
    rest: float
    freedom: float | None


class Mixed(NamedTuple):
    """Draws from a mixture: coordinates (n, q), squares of the rest (n,),
    log p_0 and log p_0/q (n,), groups.
    """

    x: Array
    rest: Array
    log_back: Array
    log_weight: Array
    groups: int


def mixed_draws(
    laws: list[Normal], back: Background, axes: int, samples: int, seed: list[int]
) -> Mixed:
    """About `samples` tokens, equally many from p_0 and each of the laws,
    spread evenly over the groups.
    """
    rng = np.random.default_rng(seed)
    groups, each = groups_of(samples, len(laws) + 1)
    sources: list[Normal | Background] = [back, *laws]
    drawn = [_draw_coordinates(law, axes, (each, groups), rng) for law in sources]
    x = np.concatenate([part[0] for part in drawn]).reshape(
        len(drawn) * each * groups, back.precision.size
    )
    rest = np.concatenate([part[1] for part in drawn]).ravel()
    log_back = log_background(back, axes, x, rest)
    logs = [log_back, *(log_normal(law, axes, x, rest) for law in laws)]
    log_q = logsumexp(logs, axis=0) - math.log(len(logs))
    return Mixed(x, rest, log_back, log_back - log_q, groups)


def bridge(
    one: Normal, back: Background, axes: int, log_length: tuple[float, float]
) -> list[Normal]:
    """Normal laws between p_1 and p_0, p_1 first, p_0 itself left out (it may be no normal law).

    axes: how many coordinates `rest` stands for; log_length: smallest and largest log 1/pi.
    """
    laws = _tilted_laws(one, back, axes, TILTS)
    steps = np.sqrt(
        _divergence(_laws_at(laws, slice(None, -1)), _laws_at(laws, slice(1, None)), axes)
    )
    way = np.concatenate([[0.0], np.cumsum(steps)])
    level = _mean_log_ratio(laws, one, back, axes)
    ends = [_distance_of_mean(level, way, target) for target in log_length]
    low = min(ends) - LAWS_PER_SIDE * LAW_SPACING_SIGMAS
    high = max(ends) + LAWS_PER_SIDE * LAW_SPACING_SIGMAS
    count = min(max(round((high - low) / LAW_SPACING_SIGMAS), 1), MOST_LAWS) + 1
    near = _rival_stops(level, way, log_length[1] - log_length[0])
    stops = np.unique(
        np.clip(np.concatenate([np.linspace(low, high, count), near]), 0.0, way[-1])
    )
    z = np.interp(stops, way, TILTS)
    inner = _tilted_laws(one, back, axes, z[(z > 0) & (z < 1)])
    chosen = [one, *(_laws_at(inner, i) for i in range(len(inner.rest)))]
    return chosen if back.freedom is None else [*chosen, _laws_at(laws, -1)]


def _laws_at(laws: Normal, at: Any) -> Normal:
    return Normal(laws.mean[at], laws.precision[at], laws.rest[at])


def _distance_of_mean(level: Array, way: Array, target: float) -> float:
    """How far along the way l has the mean `target`, at most half way in z."""
    half = int(np.searchsorted(TILTS, 0.5))
    below = np.flatnonzero(level[: half + 1] <= target)
    return float(way[below[0]] if below.size else way[half])


def _rival_stops(level: Array, way: Array, gap: float) -> Array:
    """Stops around the laws of two tokens that compete against a gap of their log priors (none if
    0).
    """
    if gap <= 0:
        return np.empty(0)
    half = int(np.searchsorted(TILTS, 0.5))
    # TILTS is symmetric around 1/2
    first = int(np.argmax((level - level[::-1])[: half + 1] <= gap))
    centres = np.array([way[first], way[-1 - first]])
    return np.asarray((centres[:, None] + LAW_SPACING_SIGMAS * np.arange(-1, 2)).ravel())


def _tilted_laws(one: Normal, back: Background, axes: int, z: Array) -> Normal:
    """p_z for every z, rows of the result."""
    n = back.freedom
    slope = np.ones(len(z))
    for _ in range(1 if n is None else SLOPE_STEPS):
        precision = np.outer(1 - z, one.precision) + np.outer(z * slope, back.precision)
        rest = (1 - z) * one.rest + z * slope * back.rest
        laws = Normal(np.outer(1 - z, one.precision * one.mean) / precision, precision, rest)
        if n is not None:
            d = one.mean.size + axes
            slope = np.sqrt(slope * (n + d) / (n - 2 + _mean_square(laws, back, axes)))
    return laws


def _mean_square(laws: Normal, back: Background, axes: int) -> Array:
    """E of x's squared length in units of the background."""
    seen = np.sum(back.precision * (laws.mean**2 + 1 / laws.precision), axis=-1)
    return seen + axes * back.rest / laws.rest


def _mean_log_ratio(laws: Normal, one: Normal, back: Background, axes: int) -> Array:
    """E l under each law (the logarithm of a Student t taken at the mean square)."""
    q1 = np.sum(one.precision * ((laws.mean - one.mean) ** 2 + 1 / laws.precision), axis=-1)
    log_one = _half_log_det(one, axes) - (q1 + axes * one.rest / laws.rest) / 2
    return log_one - _log_back(_mean_square(laws, back, axes), back, one.mean.size, axes)


def _half_log_det(law: Normal | Background, axes: int) -> float:
    return 0.5 * float(np.sum(np.log(law.precision))) + 0.5 * axes * math.log(law.rest)


def _divergence(a: Normal, b: Normal, axes: int) -> Array:
    """Kullback-Leibler divergence, both ways together:
    the squared distance of means where precisions are 1.
    """
    scales = (a.precision - b.precision) ** 2 / (a.precision * b.precision)
    seen = 0.5 * np.sum(
        scales + (a.precision + b.precision) * (a.mean - b.mean) ** 2, axis=-1
    )
    return seen + 0.5 * axes * (a.rest - b.rest) ** 2 / (a.rest * b.rest)


# -- drawing and densities; all densities leave out (2 pi)^{-d/2} ----------------------------------


def _draw_coordinates(
    law: Normal | Background, axes: int, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[Array, Array]:
    """Coordinates (*shape, q) and squared length (*shape,) of the rest;
    a Latin hypercube along the first axis of shape.
    """
    x = ndtri(_stratified_uniforms((*shape, law.precision.size), rng)) / np.sqrt(
        law.precision
    )
    rest = (
        2 * gammaincinv(axes / 2, _stratified_uniforms(shape, rng)) / law.rest
        if axes
        else np.zeros(shape)
    )
    if isinstance(law, Normal):
        return law.mean + x, rest
    if law.freedom is None:
        return x, rest
    stretch = (law.freedom - 2) / rng.chisquare(law.freedom, shape)
    return np.sqrt(stretch)[..., None] * x, stretch * rest


def _stratified_uniforms(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Uniform numbers, one in each of shape[0] cells of (0, 1) along the first axis,
    in random order.
    """
    cells = rng.permuted(
        np.broadcast_to(np.arange(shape[0]).reshape(-1, *(1,) * (len(shape) - 1)), shape),
        axis=0,
    )
    return (cells + 1 - rng.random(shape)) / shape[0] * (
        1 - UNIFORM_MARGIN
    ) + UNIFORM_MARGIN / 2


def log_normal(law: Normal, axes: int, x: Array, rest: Array) -> Array:
    """log density of a normal law at coordinates (..., q)."""
    away = x - law.mean
    return _half_log_det(law, axes) - 0.5 * (
        np.einsum("...q,q,...q->...", away, law.precision, away) + law.rest * rest
    )


def log_background(back: Background, axes: int, x: Array, rest: Array) -> Array:
    """log density of the background at coordinates (..., q)."""
    square = np.einsum("...q,q,...q->...", x, back.precision, x) + back.rest * rest
    return _log_back(square, back, x.shape[-1], axes)


def student_constant(n: float, d: int) -> float:
    """log Gamma((n+d)/2)/Gamma(n/2) - (d/2) log((n-2)/2): 0 as n grows, without the difference of
    two large logarithms.

    Gamma(x + 1)/Gamma(x) = x makes it a sum of log(1 + (2 j + 2)/(n - 2)) over j < d/2, after half
    a step where d is odd.
    """
    odd = d % 2
    whole = float(np.sum(np.log1p((2.0 * np.arange(d // 2) + 2 + odd) / (n - 2))))
    return whole + odd * (_half_step(n / 2) + 0.5 * math.log1p(2 / (n - 2)))


def _half_step(x: float) -> float:
    """log Gamma(x + 1/2)/(Gamma(x) sqrt(x));
    the series in 1/x, whose next term is below 1e-18 from x = 50 on.
    """
    if x < 50:
        return float(gammaln(x + 0.5) - gammaln(x)) - 0.5 * math.log(x)
    y = 1 / (x * x)
    return (-1 / 8 + y * (1 / 192 - y * (1 / 640 - y * 17 / 14336))) / x


def _log_back(square: Array, back: Background, seen: int, axes: int) -> Array:
    n = back.freedom
    d = seen + axes
    log_det = _half_log_det(back, axes)
    if n is None:
        return log_det - square / 2
    return log_det + student_constant(n, d) - (n + d) / 2 * np.log1p(square / (n - 2))
