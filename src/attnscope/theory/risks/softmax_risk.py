"""The exact population risk of softmax attention on single-location regression, and its gradient.

T(X) = sum_l softmax_l(temperature X.k)_l X_l.v predicts Y = X_J.v*; the tokens are X_J ~ N(signal
k*, gamma^2 I) and N(0, I) elsewhere. The risk E(Y - T)^2 (label noise excluded) depends on the
data's dimension only through the five overlaps kappa = k.k*, eta = k.v*, theta = v.k*, nu = v.v*,
rho = k.v (|k| = |v| = 1) and the alignment k*.v*.

Exact up to quadrature: a one-dimensional integral over the scale of the softmax denominator
(softmax_integral.py, softmax_panels.py) of products of one-token Gaussian averages
(softmax_moments.py). Both converge exponentially and carry exponents, so the relative accuracy is
about 1e-13 for risks of order one and for risks of exp(-20000) alike. The number of tokens enters
only as a power: length 10^6 costs the same as 10. `softmax_excess_jax` is the same integral on a
fixed grid, for users who want to differentiate through it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError, bad
from attnscope.theory.law import Law
from attnscope.theory.risks.softmax_panels import integrate
from attnscope.theory.risks.softmax_trapezoid import outer_bound

if TYPE_CHECKING:
    from jax import Array

__all__ = [
    "SoftmaxRisk",
    "softmax_excess",
    "softmax_excess_gradient",
    "softmax_excess_jax",
    "softmax_excess_with_gradient",
]

SLACK = 1e-9  # overlaps of unit vectors exceed 1 by rounding, never by more than this
# scores of this size carry an absolute error of 1e-8, the worst the error estimate will report
WIDEST = 1e8
# relative change accepted at the last halving; errors measured then are below 1e-11, see the tests
CHANGE = 1e-8
# relative error of the token averages (quadrature and rounding), measured against 30 digits
ROUNDING = 3e-13
REFUSED = 1e-6  # a relative error above this is a refusal, not a result


Sums = tuple[np.ndarray, np.ndarray, np.ndarray, float, float]  # what integrate returns


class SoftmaxRisk(NamedTuple):
    """Excess E(Y - T)^2 over the label noise, its log (finite where it underflows),
    absolute error.
    """

    excess: float
    log_excess: float
    error: float


def softmax_excess(overlaps: Sequence[float], temperature: float, law: Law) -> SoftmaxRisk:
    """Excess risk of softmax attention at the given overlaps.

    Args:
        overlaps: kappa, eta, theta, nu, rho = k.k*, k.v*, v.k*, v.v*, k.v of unit vectors; jointly
        feasible. temperature: lambda >= 0, multiplies the scores; 0 is mean pooling.
        law: of the tokens.
    """
    q = _checked(overlaps, temperature, law)
    if law.length == 1:
        return _one_token(q)[0]
    return _value(q, integrate(q, float(law.length), False, _tolerance(q)))


def softmax_excess_gradient(
    overlaps: Sequence[float], temperature: float, law: Law
) -> np.ndarray:
    """Derivatives (6,) of the excess in kappa, eta, theta, nu, rho (as free variables) and
    temperature.

    Accurate to about 1e-10 of the integral of the absolute integrand: a derivative in kappa or
    temperature that is exponentially smaller than the excess itself comes with an absolute error of
    about 1e-15 temperature*signal*excess.
    """
    q = _checked(overlaps, temperature, law)
    return _with_gradient(q, int(law.length))[1]


def softmax_excess_with_gradient(
    overlaps: Sequence[float], temperature: float, law: Law
) -> tuple[SoftmaxRisk, np.ndarray]:
    """Excess and gradient together, for about the price of the gradient;
    arguments as softmax_excess.
    """
    q = _checked(overlaps, temperature, law)
    return _with_gradient(q, int(law.length))


def _with_gradient(q: tuple[float, ...], length: int) -> tuple[SoftmaxRisk, np.ndarray]:
    if length == 1:
        return _one_token(q)
    result = integrate(q, float(length), True, _tolerance(q))
    sums, _, _, scale, _ = result
    gradient = sums[1:7] * math.exp(scale)
    if not np.all(np.isfinite(gradient)):
        raise AttnscopeError(
            f"The gradient of the softmax risk is not finite at {_described(q)}."
        )
    # too far below the gradient to be resolved with it: integrate it on its own
    if not sums[0] > 1e-200:
        result = integrate(q, float(length), False, _tolerance(q))
    return _value(q, result), gradient


def _value(q: tuple[float, ...], result: Sums) -> SoftmaxRisk:
    """The value and its error: the change at the last halving,
    and rounding beside the sum of |products|.
    """
    sums, magnitude, change, scale, step = result
    if not sums[0] > 0.0:
        raise AttnscopeError(
            f"The softmax risk must have a positive integrand, got none at {_described(q)}: the "
            "overlaps are not those of unit "
            "vectors, or the risk is too small to resolve; try Overlaps.of(task, k, v) or a "
            "smaller signal."
        )
    log_excess = math.log(sums[0]) + scale
    halving = change[0] / sums[0]
    # 300: the largest measured is 36
    halving = min(halving, 300.0 * halving**1.5, outer_bound(step))
    rounding = ROUNDING + 4e-16 * (_score_size(q) + abs(scale))
    relative = float(halving + rounding * magnitude[7] / sums[0])
    if not relative < REFUSED:
        raise AttnscopeError(
            f"The softmax risk at {_described(q)} is known only to a relative error of "
            f"{relative:.0e}: "
            "the scores (temperature times signal) are too large, or gamma is too small, for this "
            "integral."
        )
    excess = math.exp(log_excess)
    return SoftmaxRisk(excess, log_excess, excess * relative)


def _one_token(q: tuple[float, ...]) -> tuple[SoftmaxRisk, np.ndarray]:
    """length = 1: T = X.v whatever the temperature, so the risk is E(X.(v* - v))^2."""
    _, _, theta, nu, _, _, gamma, signal, c = q
    excess = (signal * (c - theta)) ** 2 + 2.0 * gamma**2 * max(0.0, 1.0 - nu)
    gradient = np.array([0.0, 0.0, -2.0 * signal**2 * (c - theta), -2.0 * gamma**2, 0.0, 0.0])
    return SoftmaxRisk(
        excess, math.log(excess) if excess > 0.0 else -math.inf, 1e-15 * excess
    ), gradient


def _score_size(q: tuple[float, ...]) -> float:
    """Size of the scores lam u that matter, whose rounding limits the accuracy at large
    temperatures.
    """
    kappa = q[0]
    temperature = q[5]
    gamma = q[6]
    signal = q[7]
    return temperature * (abs(signal * kappa) + 10.0 * max(1.0, gamma))


def _tolerance(q: tuple[float, ...]) -> float:
    return max(CHANGE, 1e-15 * _score_size(q))


def _described(q: tuple[float, ...]) -> str:
    names = (
        "kappa",
        "eta",
        "theta",
        "nu",
        "rho",
        "temperature",
        "gamma",
        "signal",
        "alignment",
    )
    return ", ".join(f"{name}={value:.6g}" for name, value in zip(names, q, strict=True))


def _checked(overlaps: Sequence[float], temperature: float, law: Law) -> tuple[float, ...]:
    """The nine parameters as floats, after the checks of the border."""
    gamma, signal, length, alignment = law
    cosines = dict(zip(("kappa", "eta", "theta", "nu", "rho"), overlaps, strict=True))
    cosines["alignment"] = alignment
    scales = {"temperature": temperature, "gamma": gamma, "signal": signal, "length": length}
    for name, x in (cosines | scales).items():
        if not isinstance(x, int | float | np.number) and np.ndim(x) != 0:
            raise bad(name, "softmax_excess", "a single number", x, "a loop over the entries")
    for name, x in cosines.items():
        if not abs(x) <= 1.0 + SLACK:
            raise bad(name, "softmax_excess", "a product of two unit vectors, in [-1, 1]", x)
    if not 0.0 <= temperature < math.inf:
        raise bad("temperature", "softmax_excess", "a finite number >= 0", temperature)
    if not 0.0 < gamma < math.inf:
        raise bad("gamma", "softmax_excess", "a finite number > 0", gamma)
    if not 0.0 <= signal < math.inf:
        raise bad("signal", "softmax_excess", "a finite number >= 0", signal)
    if not (length >= 1 and length == int(length)):
        raise bad("length", "softmax_excess", "an integer >= 1", length)
    if temperature * (signal + max(1.0, gamma)) > WIDEST:
        limit = f"at most {WIDEST:.0e}/(signal + max(1, gamma))"
        raise bad("temperature", "softmax_excess", limit, temperature)
    q = (*overlaps, temperature, gamma, signal, alignment)
    return tuple(float(x) for x in q)


def softmax_excess_jax(
    overlaps: Any,
    temperature: Any,
    law: Law,
    *,
    score_nodes: int = 256,
    scale_nodes: int = 384,
) -> Array:
    """The excess as a JAX function of overlaps (kappa, eta, theta, nu, rho) and temperature: jit,
    grad, vmap.

    Call it in 64-bit mode (`with attnscope.numerics.border.x64.x64():`). The grid is fixed, in the
    place of windows: the error is below 1e-9 of gamma^2 + (signal alignment)^2 + 1 while
    temperature*max(1, gamma) <= score_nodes/45 and temperature*(signal + 12 max(1, gamma)) + 2
    log(length) <= scale_nodes/2; a much smaller excess needs softmax_excess.
    """
    import jax.numpy as jnp
    from jax.lax import stop_gradient

    kap, eta, the, nu, rho = jnp.asarray(overlaps)
    lam = temperature
    gam, s, n, c = law
    # g within 9 standard deviations; log t between bounds of -log S that fail with probability
    # below 1e-13
    g = jnp.linspace(-9.0, 9.0, score_nodes)
    weight = jnp.exp(-0.5 * g * g) * (18.0 / (score_nodes - 1)) / math.sqrt(2.0 * math.pi)
    largest = jnp.maximum(s * kap + 7.5 * gam, math.sqrt(2.0 * math.log(n) + 56.0))
    pooled = math.log(max(n - 1, 1)) - 7.5 * lam / math.sqrt(max(n - 1, 1))
    smallest = jnp.maximum(lam * (s * kap - 7.5 * gam), pooled if n > 1 else -jnp.inf)
    lo = stop_gradient(-lam * largest - math.log(n) - 17.0)
    hi = stop_gradient(4.0 - smallest)
    tau = lo + (hi - lo) * jnp.linspace(0.0, 1.0, scale_nodes)[:, None]

    def kernels(mean: Any, sd: Any) -> tuple[Array, Array, Array, Array]:
        e = jnp.exp(jnp.minimum(tau + lam * (mean + sd * g), 7.0))  # K_p(7) = 0 in float64
        k0 = jnp.exp(-e)
        return k0, e * k0, e * e * k0, -jnp.expm1(-e)

    k0, k1, k2, _ = kernels(s * kap, gam)
    _, b1, b2, rest = kernels(0.0, 1.0)
    my = s * c + gam * eta * g
    mw = s * the + gam * rho * g
    vy = gam**2 * (1 - eta**2)
    v = gam**2 * (2 - 2 * nu - (eta - rho) ** 2)
    w = gam**2 * (1 - nu - eta * (eta - rho))
    x2 = k2 @ (weight * ((my - mw) ** 2 + v))
    z1 = k1 @ (weight * (my - mw))
    x1 = k1 @ (weight * ((my - mw) * my + w))
    y0 = k0 @ weight
    y1 = k0 @ (weight * my)
    y2 = k0 @ (weight * (my**2 + vy))
    a0 = b1 @ weight
    a1 = rho * (b1 @ (weight * g))
    b0 = b2 @ weight
    bw = rho * (b2 @ (weight * g))
    bww = b2 @ (weight * (rho**2 * g**2 + 1 - rho**2))
    log_f0 = jnp.log1p(-jnp.minimum(rest @ weight, 1.0 - 1e-15))
    p1, p2, p3 = (jnp.exp(max(n - j, 0) * log_f0) for j in (1, 2, 3))
    pairs = (n - 1) * (n - 2) * (y2 * a0**2 - 2 * y1 * a0 * a1 + y0 * a1**2) * p3
    singles = (n - 1) * (y2 * b0 - 2 * y1 * bw + y0 * bww + 2 * (x1 * a0 - z1 * a1)) * p2
    return jnp.sum(x2 * p1 + singles + pairs) * (hi - lo) / (scale_nodes - 1)
