"""O(1) spikes: the Bayes risk of SingleLocation.spiked by a second route, and how it falls with the
strength of the spike.

notation: nu = strength, L = length, l ~ N(+nu/2, nu) the log-likelihood ratio of the informative
token, N(-nu/2, nu) of a background token.

At gamma = 1 the risk is the expected posterior mass on wrong tokens. A change of measure and 1/S =
int e^{-tS} dt give

    R_B = 1 - E p_J = (L-1) int_0^oo phi_1(t)^2 phi_0(t)^{L-2} dt,     phi_i(t) = E exp(-t e^{l_i}),

here by trapezoid sums over log t and over the normal score, in logarithms. The steps are those of
normalised_risk.py: the rule in log t has a relative error of 3e-13, because |phi(t e^{i a})| <=
phi(t cos a). SingleLocation.bayes_risk uses Mellin contours instead. L may be huge: phi_0^{L-2} =
exp((L-2) log1p(-(1 - phi_0))).

    L = 2:            R_B = e^{-nu/4}/sqrt(4 pi nu) int e^{-z^2/(4 nu)}/(2 cosh(z/2)) dz
    fixed L:   R_B ~ (L-1) (1/2) sqrt(pi/nu) e^{-nu/4}
        (each wrong token alone: the L = 2 integral with int dz/(2 cosh(z/2)) = pi)
    L = e^{r nu}:   R_B = e^{-nu (E(r) + o(1))},  E(r) = 1/4 - r for r <= 1/8,  (1/sqrt 2 - sqrt
        r)^2 for 1/8 <= r <= 1/2,  0 beyond

(the error exponent of orthogonal signals; the threshold is nu = 2 log L). Linear attention decays
like L/nu only (linear_optimum.py).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.theory.risks.normalised_risk import (
    FINEST_SCORE_STEP,
    LARGEST_EXPONENT,
    TAU_STEP,
)

__all__ = ["spiked_asymptotic", "spiked_bayes_risk", "spiked_exponent"]

# kept beyond the tilt, which is sqrt(nu)/2 for the informative token and sqrt(nu) for the
# background
SIGMAS_BEYOND_TILT = 12.0
SPIKE_DEPTH_NATS = 45.0  # the integrand is followed this far below the value
LARGEST_SPIKE_STRENGTH = 2000.0  # needs tables of 10^8 numbers
SMALLEST_PHI = 1e-300  # phi below this is far beyond the end of the integrand


def spiked_bayes_risk(strength: float, length: float) -> Estimate:
    """The Bayes risk R_B of a spike among `length` tokens, by the integral of the module docstring.

    Args:
        strength: nu >= 0, the squared length of the spike.
        length: L >= 2, any number up to 1e300.

    >>> round(spiked_bayes_risk(5.0, 10).value, 6)
    0.359808
    """
    of = "spiked_bayes_risk"
    nu = check.real(strength, "strength", of, 0, LARGEST_SPIKE_STRENGTH)
    L = _checked_length(length, of)
    low = -nu / 4 - SPIKE_DEPTH_NATS - math.log(L)
    # t phi_1(t)^2 is about exp(-nu/4 - tau^2/nu) for tau > -nu/2
    high = math.sqrt((SPIKE_DEPTH_NATS + 15) * nu) + 5
    tau = low + TAU_STEP * np.arange(math.ceil((high - low) / TAU_STEP) + 1)
    # the background's sum is that of its largest ratios: at the tilt sqrt(nu), or as far out as one
    # of L tokens comes
    largest = min(
        math.sqrt(nu) + SIGMAS_BEYOND_TILT, math.sqrt(2 * (math.log(L) + SPIKE_DEPTH_NATS))
    )
    reach = max(math.sqrt(nu) / 2 + SIGMAS_BEYOND_TILT, largest)
    count = 2 * math.ceil(reach / min(0.4, FINEST_SCORE_STEP / max(math.sqrt(nu), 1e-9)) / 2)
    g = np.linspace(-reach, reach, 2 * count + 1)
    (fine, coarse), ends = _log_integrals(tau, g, nu, L)
    fine = float(fine)
    coarse = float(coarse)
    excess = math.exp(fine)
    relative = abs(math.expm1(coarse - fine)) + ends + 1e-12 + 1e-15 * abs(fine)
    return estimate(excess, relative * excess, "2-D quadrature", 0.0, fine)


def _checked_length(x: object, of: str) -> float:
    """A number from 2 to 1e300: lengths enter as powers and logarithms only,
    so the library's usual limit does not apply.
    """
    if (
        isinstance(x, bool)
        or not isinstance(x, (int, float, np.number))
        or not 2 <= x <= 1e300
    ):
        raise bad("length", of, "a number from 2 to 1e300", x, "length=10")
    return float(x)


def _log_integrals(
    tau: np.ndarray, g: np.ndarray, nu: float, L: float
) -> tuple[np.ndarray, float]:
    """log R_B with all nodes g and with every second one,
    and ten times the share of the first and last node: what lies beyond.
    """
    # at least e^-735 at the ends: no underflow
    weight = np.exp(-0.5 * g * g) * (g[1] - g[0]) / math.sqrt(2 * math.pi)
    halved = np.where(np.arange(g.size) % 2 == 0, 2 * weight, 0.0)
    both = np.stack([weight, halved], axis=1)
    values = []
    for some in np.array_split(tau, max(1, tau.size * g.size >> 20)):
        # background
        e = np.exp(np.minimum(some[:, None] - nu / 2 + math.sqrt(nu) * g, LARGEST_EXPONENT))
        rest = np.minimum(-np.expm1(-e) @ both, 1 - 1e-16)
        e = np.exp(np.minimum(some[:, None] + nu / 2 + math.sqrt(nu) * g, LARGEST_EXPONENT))
        phi = np.maximum(np.exp(-e) @ both, SMALLEST_PHI)
        values.append(some[:, None] + 2 * np.log(phi) + (L - 2) * np.log1p(-rest))
    logs = np.concatenate(values)
    total = logsumexp(logs, axis=0)
    return total + math.log(TAU_STEP) + math.log(L - 1), 10 * float(
        np.exp(logs[[0, -1], 0] - total[0]).sum()
    )


def spiked_asymptotic(strength: float, length: float) -> float:
    """(L-1) (1/2) sqrt(pi/nu) e^{-nu/4}: the Bayes risk for nu -> inf at fixed L.

    Args:
        strength: nu > 0, the squared length of the spike.
        length: L >= 2, any number up to 1e300.

    >>> round(spiked_bayes_risk(80.0, 10).value / spiked_asymptotic(80.0, 10), 4)
    0.9705
    """
    of = "spiked_asymptotic"
    nu = check.real(strength, "strength", of, 0, strict=True)
    L = _checked_length(length, of)
    return (L - 1) / 2 * math.sqrt(math.pi / nu) * math.exp(-nu / 4)


def spiked_exponent(rate: float) -> float:
    """E(r) with R_B = e^{-nu (E(r) + o(1))} for L = e^{r nu}.

    Args:
        rate: r >= 0, of the length e^{r nu}.

    >>> spiked_exponent(0.0), spiked_exponent(0.125), spiked_exponent(0.5)
    (0.25, 0.125, 0.0)
    """
    r = check.real(rate, "rate", "spiked_exponent", 0)
    if r <= 1 / 8:
        return 1 / 4 - r
    return (math.sqrt(1 / 2) - math.sqrt(r)) ** 2 if r < 1 / 2 else 0.0
