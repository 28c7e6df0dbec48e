"""How the error of CME attention falls with the length of the context, for any kernel: one scalar
equation.

notation: mu_i = eigenvalues of the kernel under the law of the keys, each N_i times
(multiplicities); s = noise, L = length; kappa = the effective ridge per token; R = trace that is
not listed.

A function f drawn from the Gaussian process with that kernel is seen at L random keys with noise s.
CME attention with the same kernel and ridge s^2 is Bayes, and its deterministic equivalent (a
standard approximation: features enter by their covariance alone) is

    kappa = s^2/L + (kappa/L) sum_i N_i mu_i/(mu_i + kappa),
    total error = L kappa   =>   excess = sum_i N_i mu_i kappa/(mu_i + kappa).

(The last step is new here in this form: in the usual bias and variance the excess is [b +
s^2]/(1-G) - s^2 with b = sum N mu (kappa/(mu+kappa))^2, and for the matched ridge both collapse
into the equation itself.) So only the spectrum enters: for keys on a manifold of dimension m in
R^D, D drops out. With mu_i of degree l like l^-(2 beta + m), N_l ~ l^(m-1), the excess falls like
L^(-2 beta/(2 beta + m)) for long L.

What is exact: the equation, solved to rounding. `error` bounds that and what R, eigenvalues that
are not listed and at most as large as the smallest one listed, can do. It does not contain the
distance to the process itself: relatively below 1/L from L = 64 on for spheres and one periodic
coordinate, 0.4 % at every L for products of eight (claims around-08, around-10). What is proved for
every kernel is sum_i N_i mu_i s^2/(s^2 + L mu_i) <= excess <= trace (Jensen).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.whole_values import array_of

__all__ = ["kernel_bayes_curve"]

FUNCTION_NAME = "kernel_bayes_curve"
EPS = float(np.finfo(np.float64).eps)
TRACE_ROUNDING = 1e-12  # relative: a trace this little below the sum of its parts is rounding
BISECTION_COUNT = 200  # of log kappa, which spans at most 460: after 60 nothing changes


def kernel_bayes_curve(
    eigenvalues: ArrayLike,
    multiplicities: ArrayLike,
    noise: float,
    length: int | ArrayLike,
    trace: float | None = None,
) -> Estimate:
    """Error of CME attention with the process' own kernel, at one length or an array of them: the
    deterministic equivalent.

    Args:
        eigenvalues: mu_i > 0 of the kernel as an integral operator under the keys' law.
        multiplicities: N_i > 0, how often each occurs.
        noise: s > 0, standard deviation of a value around f.
        length: L >= 1 tokens of context, one or an array.
        trace: E k(x, x), where eigenvalues below the smallest listed were left out.

    The excess is over noise^2; `value` has it added.

    >>> degree = np.arange(2000)
    >>> once = np.where(degree, 2.0, 1.0)                   # keys on a circle
    >>> mu = (1.0 + degree) ** -3
    >>> mu /= np.sum(once * mu)
    >>> kernel_bayes_curve(mu, once, noise=0.5, length=[64, 256, 1024]).excess.round(5)
    array([0.05128, 0.02028, 0.00811])
    """
    mu = check.array(eigenvalues, "eigenvalues", FUNCTION_NAME, (None,)).astype(np.float64)
    N = check.array(multiplicities, "multiplicities", FUNCTION_NAME, (len(mu),)).astype(
        np.float64
    )
    for x, name in ((mu, "eigenvalues"), (N, "multiplicities")):
        if not x.min() > 0:
            raise bad(
                name,
                FUNCTION_NAME,
                "positive",
                f"smallest entry {x.min():.6g}",
                "leaving it out",
            )
    s = check.real(noise, "noise", FUNCTION_NAME, 0, strict=True, hint="noise=0.5")
    lengths = _length_array(length)
    L = np.array(
        [check.integer(n, "length", FUNCTION_NAME, 1) for n in lengths.ravel()], dtype=float
    )
    listed = float(np.sum(N * mu))
    left = left_rounding = 0.0
    if trace is not None:
        left = _unlisted_trace(check.real(trace, "trace", FUNCTION_NAME, 0), listed)
        # of a difference of two sums that may agree in all digits
        left_rounding = EPS * (2 + math.log2(len(mu) + 1)) * (left + listed)
    spectrum = _Spectrum(mu, N * mu, left, left_rounding)
    found = np.array([_excess_and_error(spectrum, s * s, n) for n in L]).reshape(
        *lengths.shape, 2
    )
    return estimate(found[..., 0], found[..., 1], "deterministic equivalent", s)


class _Spectrum(NamedTuple):
    """Eigenvalues, their parts of the trace, and the unlisted part of the trace with its rounding."""

    mu: np.ndarray
    share: np.ndarray
    left: float
    left_rounding: float


def _length_array(length: int | ArrayLike) -> np.ndarray:
    """Lengths as an array of any shape with at least one entry."""
    found = array_of(
        length, "length", FUNCTION_NAME, "an integer >= 1 or an array of them", "[64, 256]"
    )
    if not found.size:
        raise bad(
            "length",
            FUNCTION_NAME,
            "an integer >= 1 or an array of them",
            length,
            "[64, 256]",
        )
    return found


def _unlisted_trace(trace: float, listed: float) -> float:
    """R >= 0: the part of the trace that no listed eigenvalue carries."""
    if trace < listed * (1 - TRACE_ROUNDING):
        must = f"at least the sum of the listed eigenvalues, {listed:.9g}"
        raise bad("trace", FUNCTION_NAME, must, trace, "leaving it out")
    return max(trace - listed, 0.0)


def _excess_and_error(spectrum: _Spectrum, s2: float, L: float) -> tuple[float, float]:
    """(excess, its error): the midpoint of the two extremes, in which the unlisted trace is as
    rough and as smooth as it can be.
    """
    high, rounding = _excess_and_rounding(spectrum, s2, L, 0.0)
    if not spectrum.left:
        return high, rounding
    low, other = _excess_and_rounding(spectrum, s2, L, float(spectrum.mu.min()))
    return low / 2 + high / 2, (high - low) / 2 + max(rounding, other)


def _excess_and_rounding(
    spectrum: _Spectrum, s2: float, L: float, smooth: float
) -> tuple[float, float]:
    """(excess, its rounding) with the unlisted trace at eigenvalue `smooth`.

    By bisection of log kappa: s^2 + total(kappa) - L kappa falls from above 0 to below as kappa
    grows from s^2/L to (s^2 + trace)/L. Its slope in log kappa is -s^2 - sum_i N_i mu_i
    (kappa/(mu_i + kappa))^2, so rounding of the terms moves the zero by their size over that, and
    the excess L kappa - s^2 by (s^2 + excess) times it.
    """
    mu, share, left, left_rounding = spectrum

    def kept(kappa: float) -> tuple[np.ndarray, float]:
        return kappa / (mu + kappa), kappa / (smooth + kappa)

    def total(kappa: float) -> float:
        listed, rest = kept(kappa)
        return float(np.sum(share * listed)) + left * rest

    low = math.log(s2 / L)
    high = math.log((s2 + float(np.sum(share)) + left) / L)
    for _ in range(BISECTION_COUNT):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        kappa = math.exp(middle)
        if s2 + total(kappa) > L * kappa:
            low = middle
        else:
            high = middle
    zero = (low + high) / 2
    kappa = math.exp(zero)
    listed, rest = kept(kappa)
    excess = total(kappa)
    roundings = EPS * (8 + 2 * math.log2(len(mu) + 1))
    steep = s2 + float(np.sum(share * listed**2)) + left * rest**2
    moved = 2 * roundings * (s2 + excess) / steep + 4 * EPS * abs(zero)
    follows = float(np.sum(share * listed * (1 - listed))) + left * rest * (1 - rest)
    unlisted = left_rounding * (s2 + excess) / steep
    return excess, roundings * excess + moved * follows + unlisted
