"""Spectra of two families of kernels, for `kernel_bayes_curve`.

notation: m = dimension, beta = smoothness, l = degree; alpha_i, w_i = smoothness and weight of
coordinate i, k = frequency; zeta = Riemann's function.

Sphere. Keys uniform on S^m, mu_l = (1 + l)^-(2 beta + m)/Z for the degrees l = 0 .. top, Z such
that the trace is 1, N_l harmonics each. These eigenvalues do not depend on how the sphere lies in
R^D. The kernel is the finite sum sum_l N_l mu_l P_l(x.y): it has no degrees above `top`.

Product. Keys uniform on [0, 1]^d and the weighted Korobov kernel

    prod_i (1 + 2 w_i sum_{k >= 1} k^(-2 alpha_i) cos 2 pi k (x_i - y_i)),

whose eigenvalues are the products of 1 or w_i k_i^(-2 alpha_i) (twice: cosine and sine) over the
coordinates, and whose trace is prod_i (1 + 2 w_i zeta(2 alpha_i)). Those above `cut` are listed,
with the whole trace.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import zeta

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.theory.exchangeable.spectral import LARGEST_DEGREE

__all__ = ["Spectrum", "product_spectrum", "sphere_spectrum"]

LARGEST_EIGENVALUE_COUNT = 10**7  # takes a few seconds and 500 MB
LARGEST_SPHERE_DIMENSION = 64  # counts of harmonics of a high degree stay below 1e250
LARGEST_SMOOTHNESS = 50.0  # k^(-2 alpha) at k = 2 is 1e-30 there: only one frequency matters
CUT_ROUNDING = 1e-12  # a product this close to the cut counts as above it


class Spectrum(NamedTuple):
    """Eigenvalues, how often each occurs, and the trace with those that are not listed."""

    eigenvalues: np.ndarray
    multiplicities: np.ndarray
    trace: float


def sphere_spectrum(dimension: int, smoothness: float, top: int = 400) -> Spectrum:
    """A kernel on S^m with mu_l ~ (1 + l)^-(2 beta + m), degrees 0 to `top`, trace 1.

    Args:
        dimension: m >= 1, of the sphere S^m.
        smoothness: beta > 0, how fast eigenvalues fall.
        top: the last degree, >= 0.

    >>> s = sphere_spectrum(2, 1.0, top=2)
    >>> (s.eigenvalues / s.eigenvalues[0]).round(4), s.multiplicities
    (array([1.    , 0.0625, 0.0123]), array([1., 3., 5.]))
    """
    of = "sphere_spectrum"
    m = check.integer(dimension, "dimension", of, 1, LARGEST_SPHERE_DIMENSION)
    beta = check.real(smoothness, "smoothness", of, 0, LARGEST_SMOOTHNESS, strict=True)
    last = check.integer(top, "top", of, 0, LARGEST_DEGREE)
    degree = np.arange(last + 1)
    N = _harmonic_counts(m, degree)
    mu = (1.0 + degree) ** -(2 * beta + m)
    return Spectrum(mu / float(np.sum(N * mu)), N, 1.0)


def _harmonic_counts(m: int, degree: np.ndarray) -> np.ndarray:
    """N_l = (2l + m - 1) (l + 1)(l + 2)..(l + m - 2)/(m - 1)! on S^m: products of positive terms."""
    if m == 1:
        return np.where(degree > 0, 2.0, 1.0)
    N = (2.0 * degree + m - 1) / (m - 1)
    for j in range(1, m - 1):
        N = N * (degree + j) / j
    return N


def product_spectrum(
    smoothness: ArrayLike, weights: ArrayLike, cut: float = 1e-6
) -> Spectrum:
    """The weighted Korobov kernel: eigenvalues of at least `cut`, and the whole trace.

    Args:
        smoothness: alpha_i > 1/2 of each coordinate.
        weights: w_i > 0 of each coordinate, at most 1.
        cut: smallest eigenvalue listed.

    >>> s = product_spectrum([1, 2], [0.5, 0.25], cut=0.1)
    >>> s.eigenvalues, s.multiplicities
    (array([1.   , 0.5  , 0.125, 0.25 , 0.125]), array([1., 2., 2., 2., 4.]))
    >>> round(s.trace, 6)                                   # (1 + zeta(2)) (1 + zeta(4)/2)
    4.076271
    """
    of = "product_spectrum"
    a = check.array(smoothness, "smoothness", of, (None,)).astype(np.float64)
    w = check.array(weights, "weights", of, (len(a),)).astype(np.float64)
    c = check.real(cut, "cut", of, 0, 1, strict=True, hint="cut=1e-6")
    if not 0.5 < a.min() <= a.max() <= LARGEST_SMOOTHNESS:
        must = f"above 1/2 and at most {LARGEST_SMOOTHNESS:g}"
        raise bad("smoothness", of, must, f"{a.min():.6g} to {a.max():.6g}", "1, 2, 3, ...")
    if not 0 < w.min() <= w.max() <= 1:
        raise bad("weights", of, "in (0, 1]", f"{w.min():.6g} to {w.max():.6g}", "2.0**-i")
    mu = np.ones(1)
    N = np.ones(1)
    for alpha, weight in zip(a, w):
        mu, N = _spectrum_with_coordinate(
            mu, N, float(alpha), float(weight), c * (1 - CUT_ROUNDING), of
        )
    trace = float(np.prod(1 + 2 * w * zeta(2 * a)))
    return Spectrum(mu, N, max(trace, float(np.sum(N * mu))))


def _spectrum_with_coordinate(
    mu: np.ndarray, N: np.ndarray, alpha: float, weight: float, cut: float, of: str
) -> tuple[np.ndarray, np.ndarray]:
    """The spectrum with one more coordinate."""
    # the highest frequency that any product keeps; 1 is the largest eigenvalue
    top = (
        math.floor((weight / cut) ** (0.5 / alpha) * (1 + CUT_ROUNDING))
        if weight >= cut
        else 0
    )
    _check_eigenvalue_count(top, of)
    factor = weight * np.arange(1.0, top + 1) ** (-2 * alpha)
    # factors fall: how many of them keep each product above the cut
    kept = np.searchsorted(-factor, -cut / mu, side="right")
    _check_eigenvalue_count(len(mu) + int(kept.sum()), of)
    which = np.repeat(np.arange(len(mu)), kept)
    frequency = np.arange(len(which)) - np.repeat(np.cumsum(kept) - kept, kept)
    grown = mu[which] * factor[frequency]
    return np.concatenate([mu, grown]), np.concatenate([N, 2 * N[which]])


def _check_eigenvalue_count(count: int, of: str) -> None:
    if count > LARGEST_EIGENVALUE_COUNT:
        must = f"such that at most {LARGEST_EIGENVALUE_COUNT} eigenvalues are listed"
        raise bad("cut", of, must, f"more than {count}", "a larger cut")
