"""The outer integral of the softmax risk over tau: where its integrand lives, and the trapezoid sum
over it.

    R = int I(tau) dtau,      I and its gradient from softmax_integral.py

Terms of I are log-concave in tau up to polynomial weights, so that a search can bracket what
matters. The trapezoid rule with step h has relative error below 2 (e pi/h)^2 e^{-pi^2/h}
(outer_bound), because |I(tau + i th)| <= I(tau + log cos th)/cos^2 th; in practice it converges at
much larger steps, tested by halving. notation: as in softmax_integral.py.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.theory.risks.softmax_integral import (
    CRUDE,
    FINE,
    NEGLIGIBLE,
    Array,
    Setting,
    integrand,
)

__all__ = ["add_scaled", "outer_bound", "trapezoid", "window_of"]

REACH = 43.0  # nats below its maximum at which the outer integrand is dropped: 2e-19

SCAN = 20  # points per round of the search for the range

MAX_NODES = 20_000  # of the outer sum; a hundred are typical

# outer step in units of the sharpest scale, from which on a small change is believed
COARSEST = 1.0

FINEST = 0.27  # outer step at which outer_bound is 3e-13: never finer


@njit(cache=True, error_model="numpy")
def reachable(peak: float, best: float, with_gradient: bool) -> float:
    """Level down to which a term of this peak matters:
    a derivative may live on one small term alone.
    """
    return max(peak, best - NEGLIGIBLE) - REACH if with_gradient else best - REACH


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
        integrand(ends[side], q, length, CRUDE, with_gradient, work, out, now)
        stride = max(1.0, lam * max(1.0, gam))
        walking = True
        while walking:
            last[:], best = now, np.maximum(best, now)
            ends[side] += stride if side == 1 else -stride
            stride *= 1.5
            integrand(ends[side], q, length, CRUDE, with_gradient, work, out, now)
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

    Each term is log-concave in tau up to polynomial weights: rounds of SCAN crude values shrink the
    bracket to the cells that can hold what matters, until they fill it.
    """
    lo, hi = bracket(q, length, with_gradient, work, out)
    terms = np.empty((SCAN, 4))
    least = hi - lo
    for _ in range(12):
        cell = (hi - lo) / (SCAN - 1)
        for i in range(SCAN):
            integrand(lo + i * cell, q, length, CRUDE, with_gradient, work, out, terms[i])
        first = SCAN - 1
        final = 0
        least = hi - lo
        for j in range(4):
            top = int(terms[:, j].argmax())
            left = max(top - 1, 0)
            right = min(top + 1, SCAN - 1)
            peak = terms[top, j]
            reach = reachable(terms[top, j], terms.max(), with_gradient)
            # a log-concave peak between nodes is at most one cell's fall above the highest node
            if not peak + peak - min(terms[left, j], terms[right, j]) >= reach:
                continue
            while left > 0 and terms[left, j] >= reach:
                left -= 1
            while right < SCAN - 1 and terms[right, j] >= reach:
                right += 1
            first = min(first, left)
            final = max(final, right)
            least = min(
                least, (right - left) * cell / (2.0 * math.sqrt(2.0 * max(peak - reach, 2.0)))
            )
        lo, hi = lo + first * cell, lo + final * cell
        if final - first > 0.6 * (SCAN - 1):
            break
    return lo, hi, least


def outer_bound(step: float) -> float:
    """Proven relative error of the outer trapezoid rule for the value,
    by shifting tau to pi/2 - step/pi.
    """
    if step > 3.0:
        return math.inf
    return 2.0 / (math.sin(step / math.pi) ** 2 * math.expm1(math.pi**2 / step - 2.0))


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
    count = int((hi - lo) / min(step, 2.0 * COARSEST * sharpest)) + 1
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
) -> tuple[Array, Array, Array, float, float]:
    """Trapezoid sums of `integrand`: (sums, sums of |.|, change at the last halving, log scale,
    step).

    The step is halved until every output changes by less than tolerance times its sum of |.|, or
    the change has stopped falling (rounding), or the step is FINEST, or MAX_NODES are spent; the
    caller judges the change.
    """
    work = np.zeros((11, 12))
    out = np.zeros(8)
    logs = np.zeros(4)
    step = (hi - lo) / count
    sums = np.zeros(8)
    magnitude = np.zeros(8)
    change = np.zeros(8)
    before = np.zeros(8)
    scale = -math.inf
    nodes = 0
    first = lo
    stride = step
    worst = math.inf
    while True:
        # later rounds add the midpoints of the nodes so far
        new = count + 1 if nodes == 0 else count
        for i in range(new):
            e = integrand(first + i * stride, q, length, FINE, with_gradient, work, out, logs)
            scale = add_scaled(e, out, scale, sums, magnitude, before)
        if nodes > 0:
            change = np.abs(sums - 2.0 * before)
            last = worst
            worst = 0.0
            floor = math.exp(-NEGLIGIBLE) * magnitude.max()
            for j in range(7):
                if magnitude[j] > floor:
                    worst = max(worst, change[j] / magnitude[j])
            # rounding: resolved sums converge faster than geometrically
            stuck = 0.3 * last < worst < 1e-6
            if not worst > tolerance or stuck or step <= FINEST or nodes > MAX_NODES:
                break
            count *= 2
        before = sums.copy()
        nodes = nodes + new
        first = lo + 0.5 * step
        stride = step
        step = 0.5 * step
    return sums * step, magnitude * step, change * step, scale, step
