"""The exact population risk of softmax attention on single-location regression, and its gradient.

T(X) = sum_l softmax_l(lambda X.k)_l X_l.v predicts Y = X_J.v*; the tokens are X_J ~ N(signal
k*, gamma^2 I) and N(0, I) elsewhere. The risk E(Y - T)^2 (label noise excluded) depends on the
data's dimension only through the five overlaps kappa = k.k*, eta = k.v*, theta = v.k*, nu = v.v*,
rho = k.v (|k| = |v| = 1) and the alignment k*.v*.

Exact up to quadrature: a one-dimensional integral over the scale of the softmax denominator,

    R = int I(tau) dtau,      I and its gradient from softmax_integral.py,

of products of one-token Gaussian averages. Both converge exponentially and carry exponents, so the
relative accuracy is about 1e-13 for risks of order one and for risks of exp(-20000) alike. The
number of tokens enters only as a power: length 10^6 costs the same as 10. `softmax_excess_jax` is
the same integral on a fixed grid, for users who want to differentiate through it.

The integral. Terms of I are log-concave in tau up to polynomial weights, so that a search can
bracket what matters. The trapezoid rule with step h has relative error below
2 (e pi/h)^2 e^{-pi^2/h} (`outer_bound`), because |I(tau + i th)| <= I(tau + log cos th)/cos^2 th;
in practice it converges at much larger steps, tested by halving. Where it would take thousands of
steps, softmax_panels.py takes over.

notation: as in softmax_integral.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from attnscope.errors import AttnscopeError, bad
from attnscope.theory.law import Law
from attnscope.theory.risks.softmax_integral import (
    CRUDE_NATS,
    FINE_NATS,
    NEGLIGIBLE_NATS,
    PROFILE_INTEGRALS,
    Array,
    Setting,
    Sums,
    integrand,
    profile_integrand,
)
from attnscope.theory.risks.softmax_panels import panel_edges, panel_sums

if TYPE_CHECKING:
    import jax

__all__ = [
    "HALVING_CHANGE",
    "SoftmaxRisk",
    "outer_bound",
    "softmax_excess",
    "softmax_excess_gradient",
    "softmax_excess_jax",
    "trapezoid",
    "window_of",
]

# scores of this size carry an absolute error of 1e-8, the worst the error estimate will report
LARGEST_SCORE = 1e8
# relative change accepted at the last halving; errors measured then are below 1e-11, see the tests
HALVING_CHANGE = 1e-8
# relative error of the token averages (quadrature and rounding), measured against 30 digits
MOMENT_ROUNDING = 3e-13
REFUSED_RELATIVE_ERROR = 1e-6  # a result with a larger relative error is refused
# above this number of equal steps, some sixty panels of three times PANEL_NODES evaluations are
# cheaper
MAX_EQUAL_STEPS = 4000
DROPPED_NATS = 43.0  # nats below its maximum at which the outer integrand is dropped: 2e-19
SCAN_POINTS = 20  # points per round of the search for the range
MAX_OUTER_NODES = 20_000  # of the outer sum; a hundred are typical
# outer step in units of the sharpest scale, from which on a small change is believed
COARSEST_STEP = 1.0
FINEST_STEP = 0.27  # outer step at which outer_bound is 3e-13: never finer


class SoftmaxRisk(NamedTuple):
    """Excess E(Y - T)^2 over the label noise, its log (finite where it underflows),
    absolute error.
    """

    excess: float
    log_excess: float
    error: float


def softmax_excess(
    overlaps: Sequence[float], inverse_temperature: float, law: Law
) -> SoftmaxRisk:
    """Excess risk of softmax attention at the given overlaps.

    Args:
        overlaps: kappa, eta, theta, nu, rho = k.k*, k.v*, v.k*, v.v*, k.v of unit vectors; jointly
        feasible. inverse_temperature: lambda >= 0, multiplies the scores; 0 is mean pooling.
        law: of the tokens.
    """
    q = checked_parameters(overlaps, inverse_temperature, law)
    if law.length == 1:
        return one_token_risk(q)[0]
    return risk_of_sums(q, integrate(q, float(law.length), False, halving_tolerance(q)))


def softmax_excess_gradient(
    overlaps: Sequence[float], inverse_temperature: float, law: Law
) -> np.ndarray:
    """Derivatives (6,) of the excess in kappa, eta, theta, nu, rho (as free variables) and
    inverse temperature.

    Accurate to about 1e-10 of the integral of the absolute integrand: a derivative in kappa or
    inverse temperature that is exponentially smaller than the excess itself comes with an absolute
    error of about 1e-15 lambda*signal*excess.
    """
    q = checked_parameters(overlaps, inverse_temperature, law)
    if law.length == 1:
        return one_token_risk(q)[1]
    result = integrate(q, float(law.length), True, halving_tolerance(q))
    sums, _, _, scale, _ = result
    gradient = sums[1:7] * math.exp(scale)
    if not np.all(np.isfinite(gradient)):
        raise AttnscopeError(
            f"The gradient of the softmax risk is not finite at {named_parameters(q)}."
        )
    # too far below the gradient to be resolved with it: integrate it on its own
    if not sums[0] > 1e-200:
        result = integrate(q, float(law.length), False, halving_tolerance(q))
    risk_of_sums(q, result)  # refuses what this integral cannot resolve
    return gradient


def risk_of_sums(q: tuple[float, ...], result: Sums) -> SoftmaxRisk:
    """The value and its error: the change at the last halving,
    and rounding beside the sum of |products|.
    """
    sums, magnitude, change, scale, step = result
    if not sums[0] > 0.0:
        raise AttnscopeError(
            f"The softmax risk must have a positive integrand, got none at {named_parameters(q)}: the "
            "overlaps are not those of unit "
            "vectors, or the risk is too small to resolve; try Overlaps.of(task, k, v) or a "
            "smaller signal."
        )
    log_excess = math.log(sums[0]) + scale
    halving = change[0] / sums[0]
    # 300: the largest measured is 36
    halving = min(halving, 300.0 * halving**1.5, outer_bound(step))
    rounding = MOMENT_ROUNDING + 4e-16 * (_score_size(q) + abs(scale))
    relative = float(halving + rounding * magnitude[7] / sums[0])
    if not relative < REFUSED_RELATIVE_ERROR:
        raise AttnscopeError(
            f"The softmax risk at {named_parameters(q)} is known only to a relative error of "
            f"{relative:.0e}: "
            "the scores (inverse temperature times signal) are too large, or gamma is too small, "
            "for this integral."
        )
    excess = math.exp(log_excess)
    return SoftmaxRisk(excess, log_excess, excess * relative)


def one_token_risk(q: tuple[float, ...]) -> tuple[SoftmaxRisk, np.ndarray]:
    """length = 1: T = X.v whatever the inverse temperature, so the risk is E(X.(v* - v))^2."""
    _, _, theta, nu, _, _, gamma, signal, c = q
    excess = (signal * (c - theta)) ** 2 + 2.0 * gamma**2 * max(0.0, 1.0 - nu)
    gradient = np.array([0.0, 0.0, -2.0 * signal**2 * (c - theta), -2.0 * gamma**2, 0.0, 0.0])
    return SoftmaxRisk(
        excess, math.log(excess) if excess > 0.0 else -math.inf, 1e-15 * excess
    ), gradient


def _score_size(q: tuple[float, ...]) -> float:
    """Size of the scores lam u that matter, whose rounding limits the accuracy at large
    inverse temperatures.
    """
    kappa = q[0]
    inverse_temperature = q[5]
    gamma = q[6]
    signal = q[7]
    return inverse_temperature * (abs(signal * kappa) + 10.0 * max(1.0, gamma))


def halving_tolerance(q: tuple[float, ...]) -> float:
    return max(HALVING_CHANGE, 1e-15 * _score_size(q))


def named_parameters(q: tuple[float, ...]) -> str:
    names = (
        "kappa",
        "eta",
        "theta",
        "nu",
        "rho",
        "inverse_temperature",
        "gamma",
        "signal",
        "alignment",
    )
    return ", ".join(f"{name}={value:.6g}" for name, value in zip(names, q, strict=True))


def checked_parameters(
    overlaps: Sequence[float], inverse_temperature: float, law: Law
) -> tuple[float, ...]:
    """The nine parameters as floats, if the scores are not too large."""
    gamma, signal, _, alignment = law
    if inverse_temperature * (signal + max(1.0, gamma)) > LARGEST_SCORE:
        limit = f"at most {LARGEST_SCORE:.0e}/(signal + max(1, gamma))"
        raise bad("inverse_temperature", "softmax_excess", limit, inverse_temperature)
    q = (*overlaps, inverse_temperature, gamma, signal, alignment)
    return tuple(map(float, q))


# -- the integral over tau -------------------------------------------------------------------------


def integrate(
    q: tuple[float, ...], length: float, with_gradient: bool, tolerance: float
) -> Sums:
    """Sums of the integrand over tau: (sums, sums of |.|, change, log scale, step);
    the step is inf for panels.
    """
    low, high, count = window_of(q, length, with_gradient)
    if count <= MAX_EQUAL_STEPS:
        return trapezoid(q, length, with_gradient, tolerance, low, high, count)
    return panel_sums(q, length, with_gradient, tolerance, panel_edges(q, length, low, high))


def outer_bound(step: float) -> float:
    """Proven relative error of the outer trapezoid rule for the value,
    by shifting tau to pi/2 - step/pi.
    """
    if step > 3.0:
        return math.inf
    return 2.0 / (math.sin(step / math.pi) ** 2 * math.expm1(math.pi**2 / step - 2.0))


@njit(cache=True, error_model="numpy")
def reachable(peak: float, best: float, with_gradient: bool) -> float:
    """Level down to which a term of this peak matters:
    a derivative may live on one small term alone.
    """
    return (
        max(peak, best - NEGLIGIBLE_NATS) - DROPPED_NATS
        if with_gradient
        else best - DROPPED_NATS
    )


@njit(cache=True, error_model="numpy")
def bracket(
    q: Setting,
    length: float,
    with_gradient: bool,
    work: Array,
    out: Array,
) -> tuple[float, float]:
    """(lo, hi) outside which every term falls and is out of reach,
    by strides growing from a guess.
    """
    kap = q[0]
    lam = q[5]
    gam = q[6]
    s = q[7]
    now = np.empty(4)
    last = np.empty(4)
    best = np.full(4, -math.inf)
    ends = np.full(2, -lam * max(s * kap, 0.0))
    for side in range(2):
        integrand(ends[side], q, length, CRUDE_NATS, with_gradient, work, out, now)
        stride = max(1.0, lam * max(1.0, gam))
        walking = True
        while walking:
            last[:], best = now, np.maximum(best, now)
            ends[side] += stride if side == 1 else -stride
            stride *= 1.5
            integrand(ends[side], q, length, CRUDE_NATS, with_gradient, work, out, now)
            walking = False
            for j in range(4):
                reach = reachable(best[j], best.max(), with_gradient)
                walking = walking or (
                    best[j] > -math.inf and not now[j] < min(last[j], reach)
                )
    return ends[0], ends[1]


@njit(cache=True, error_model="numpy")
def locate(
    q: Setting,
    length: float,
    with_gradient: bool,
    work: Array,
    out: Array,
) -> tuple[float, float, float]:
    """(lo, hi, sd): the range of tau with all terms within reach, and the least standard deviation
    of a term.

    Each term is log-concave in tau up to polynomial weights: rounds of SCAN_POINTS crude values shrink the
    bracket to the cells that can hold what matters, until they fill it.
    """
    lo, hi = bracket(q, length, with_gradient, work, out)
    terms = np.empty((SCAN_POINTS, 4))
    least = hi - lo
    for _ in range(12):
        cell = (hi - lo) / (SCAN_POINTS - 1)
        for i in range(SCAN_POINTS):
            integrand(
                lo + i * cell, q, length, CRUDE_NATS, with_gradient, work, out, terms[i]
            )
        first = SCAN_POINTS - 1
        final = 0
        least = hi - lo
        for j in range(4):
            top = int(terms[:, j].argmax())
            left = max(top - 1, 0)
            right = min(top + 1, SCAN_POINTS - 1)
            peak = terms[top, j]
            reach = reachable(terms[top, j], terms.max(), with_gradient)
            # a log-concave peak between nodes is at most one cell's fall above the highest node
            if not peak + peak - min(terms[left, j], terms[right, j]) >= reach:
                continue
            while left > 0 and terms[left, j] >= reach:
                left -= 1
            while right < SCAN_POINTS - 1 and terms[right, j] >= reach:
                right += 1
            first = min(first, left)
            final = max(final, right)
            least = min(
                least, (right - left) * cell / (2.0 * math.sqrt(2.0 * max(peak - reach, 2.0)))
            )
        lo, hi = lo + first * cell, lo + final * cell
        if final - first > 0.6 * (SCAN_POINTS - 1):
            break
    return lo, hi, least


@njit(cache=True, error_model="numpy", nogil=True)
def window_of(q: Setting, length: float, with_gradient: bool) -> tuple[float, float, int]:
    """(lo, hi, count): the range of tau that matters and the equal steps that a first round takes
    over it.
    """
    work = np.zeros((11, 12))
    out = np.zeros(8)
    lo, hi, step = locate(q, length, with_gradient, work, out)
    # token averages vary on the scale of their spread (or 1), the power f0^length faster by the
    # usual factor of maxima; a first change measured at coarser steps than these may miss a sharp
    # edge of the integrand
    sharpest = max(1.0, q[5] * min(1.0, q[6])) / math.sqrt(1.0 + 2.0 * math.log(length))
    count = int((hi - lo) / min(step, 2.0 * COARSEST_STEP * sharpest)) + 1
    return lo, hi, count


@njit(cache=True, error_model="numpy", nogil=True)
def add_scaled(
    e: float, out: Array, scale: float, sums: Array, magnitude: Array, before: Array
) -> float:
    """Add out exp(e) to `sums` and |out| exp(e) to `magnitude`, all three of which are kept in
    units of exp(scale); the new scale, the largest e so far.
    """
    if e > scale:
        shrink = math.exp(scale - e)
        scale = e
        for j in range(len(sums)):
            sums[j] *= shrink
            magnitude[j] *= shrink
            before[j] *= shrink
    factor = math.exp(e - scale)
    for j in range(len(sums)):
        sums[j] += out[j] * factor
        magnitude[j] += abs(out[j]) * factor
    return scale


@njit(cache=True, error_model="numpy", nogil=True)
def trapezoid(
    q: Setting,
    length: float,
    with_gradient: bool,
    tolerance: float,
    lo: float,
    hi: float,
    count: int,
    profile: bool = False,
) -> tuple[Array, Array, Array, float, float]:
    """Trapezoid sums of `integrand`, or of `profile_integrand`: (sums, sums of |.|, change at the last halving, log scale,
    step).

    The step is halved until every output changes by less than tolerance times its sum of |.|, or
    the change has stopped falling (rounding), or the step is FINEST_STEP, or MAX_OUTER_NODES are spent; the
    caller judges the change.
    """
    size = PROFILE_INTEGRALS if profile else 8
    judged = PROFILE_INTEGRALS if profile else 7  # the last of 8 is a sum of |products|
    work = np.zeros((11, 12))
    out = np.zeros(size)
    logs = np.zeros(4)
    step = (hi - lo) / count
    sums = np.zeros(size)
    magnitude = np.zeros(size)
    change = np.zeros(size)
    before = np.zeros(size)
    scale = -math.inf
    nodes = 0
    first = lo
    stride = step
    worst = math.inf
    while True:
        # later rounds add the midpoints of the nodes so far
        new = count + 1 if nodes == 0 else count
        for i in range(new):
            tau = first + i * stride
            if profile:
                e = profile_integrand(tau, q, length, work, out)
            else:
                e = integrand(tau, q, length, FINE_NATS, with_gradient, work, out, logs)
            scale = add_scaled(e, out, scale, sums, magnitude, before)
        if nodes > 0:
            change = np.abs(sums - 2.0 * before)
            last = worst
            worst = 0.0
            floor = math.exp(-NEGLIGIBLE_NATS) * magnitude.max()
            for j in range(judged):
                if magnitude[j] > floor:
                    worst = max(worst, change[j] / magnitude[j])
            # rounding: resolved sums converge faster than geometrically
            stuck = 0.3 * last < worst < 1e-6
            if (
                not worst > tolerance
                or stuck
                or step <= FINEST_STEP
                or nodes > MAX_OUTER_NODES
            ):
                break
            count *= 2
        before = sums.copy()
        nodes = nodes + new
        first = lo + 0.5 * step
        stride = step
        step = 0.5 * step
    return sums * step, magnitude * step, change * step, scale, step


# -- the same integral in JAX ----------------------------------------------------------------------


def softmax_excess_jax(
    overlaps: Any,
    inverse_temperature: Any,
    law: Law,
    *,
    score_nodes: int = 256,
    scale_nodes: int = 384,
) -> jax.Array:
    """The excess as a JAX function of overlaps (kappa, eta, theta, nu, rho) and inverse
    temperature: jit, grad, vmap.

    Call it in 64-bit mode (`with attnscope.numerics.border.x64.x64():`). The grid is fixed, in the
    place of windows: the error is below 1e-9 of gamma^2 + (signal alignment)^2 + 1 while
    lambda*max(1, gamma) <= score_nodes/45 and lambda*(signal + 12 max(1, gamma)) + 2
    log(length) <= scale_nodes/2; a much smaller excess needs softmax_excess.
    """
    import jax.numpy as jnp
    from jax.lax import stop_gradient

    kap, eta, the, nu, rho = jnp.asarray(overlaps)
    lam = inverse_temperature
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

    def kernels(mean: Any, sd: Any) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
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
