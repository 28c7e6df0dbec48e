"""What attention converges to as the context grows: spectral filters on the sphere.

notation: d = dim, h = bandwidth, x = 1/h, m = degree, r = ridge/L; keys k uniform on S^{d-1},
values v = f(k) + noise, query q on the sphere.

On the sphere exp(q.k/h) and the RBF kernel exp(-|q-k|^2/(2h)) = exp(-1/h) exp(q.k/h) have the same
eigenfunctions, the spherical harmonics (Funk-Hecke). The RBF eigenvalue of degree m under uniform
keys, with P_m the zonal harmonic (Gegenbauer, P_m(1) = 1), is

    mu_m = E[exp((t-1)/h) P_m(t)] = Gamma(d/2) (2h)^{d/2-1} exp(-1/h) I_{m+d/2-1}(1/h),     t = q.k,
    rho_m = mu_m/mu_0 = product over j < m of I_{j+d/2}(x)/I_{j+d/2-1}(x).

With f = sum of its parts f_m of degree m, at fixed h and L -> infinity (new here)

    softmax attention          ->  sum_m rho_m f_m               (one Landweber step of size 1/mu_0)
    CME attention, ridge L r   ->  sum_m mu_m/(mu_m + r) f_m        (Tikhonov)

so the two agree up to a constant only on functions of one degree. Local linear attention (one order
further: a weighted regression on 1 and t, read at t = 1) has the limit (new here)

    rho^LL_m = rho_m + (1 - rho_1) Cov(t, P_m)/Var t = rho_m [1 + (1 - rho_1)/rho_1 (m h - c_m)/(h -
    c_1)],      c_m = r_0 - r_m,  r_j = I_{j+d/2}(x)/I_{j+d/2-1}(x),

because Cov(t, P_m) = d rho_m/dx = rho_m (m/x - r_0 + r_m). It keeps degrees 0 and 1 whole, and 1 -
rho^LL_m = (h^2/8) l_m (l_m - d + 1) + O(h^3), l_m = m(m+d-2), where softmax has (h/2) l_m. For keys
with density p the softmax limit is

    f + (h/2) (Laplacian f + 2 <grad f, grad log p>) + O(h^2),

and for p(k) ~ exp(tilt.k) it is exact: the weight times the density is exp(a.k), a = q/h + tilt, so
f_m -> rho_m(1/|a|) f_m(a/|a|).

Numerics: the ratios I_{v+1}/I_v obey r_v = 1/(2(v+1)/x + r_{v+1}), stable downwards, so rho is
accurate to roundoff for any d and h and never underflows unless it is itself below 1e-308. log mu_0
comes from scipy's scaled Bessel function, or from its power series (positive terms) where that
function underflows.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit, gammaln, ive, logsumexp

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array
from attnscope.numerics.border.whole_values import array_of

__all__ = [
    "cme_filter",
    "density_bias",
    "kernel_eigenvalues",
    "local_linear_filter",
    "log_eigenvalues",
    "softmax_filter",
    "tilted_limit",
]

SMALLEST_BANDWIDTH = 1e-8  # below it the recurrence for rho would take more than 10^5 steps
LARGEST_DEGREE = 100_000
# up to this x the power series is short and loses no digits: its rounding is eps x
LARGEST_SERIES_ARGUMENT = 300.0
# x/(v + 2)^2 from which 20 terms of the expansion of I_v(x) for large x are exact to roundoff
LARGE_ARGUMENT_RATIO = 8.0
# terms of that series from which on the expansion for large orders replaces it
LARGEST_SERIES_TERMS = 1e6


def softmax_filter(dim: int, bandwidth: float, degree: int | np.ndarray) -> np.ndarray:
    """rho_m: what softmax attention keeps of the degree-m part of the function in the context, in
    the limit of long contexts.

    Args:
        dim: d >= 2, the keys live on S^{d-1}.
        bandwidth: h > 0, scores are q.k/h.
        degree: m >= 0, one or an array of them; the result has its shape.

    >>> round(float(softmax_filter(3, 0.5, 1)), 5)          # coth(2) - 1/2
    0.53731
    """
    d, h, m = _checked_arguments(dim, bandwidth, degree, "softmax_filter")
    return _rho_values(d, h, int(m.max()))[m]


def cme_filter(
    dim: int, bandwidth: float, degree: int | np.ndarray, ridge_per_token: float
) -> np.ndarray:
    """mu_m/(mu_m + r): what CME attention with the RBF kernel and ridge L r keeps of degree m,
    in the limit of long contexts.

    Args:
        dim: d >= 2, the keys live on S^{d-1}.
        bandwidth: h > 0, scores are q.k/h.
        degree: m >= 0, one or an array of them; the result has its shape.
        ridge_per_token: r = ridge/L >= 0.

    >>> import attnscope as at
    >>> import numpy as np
    >>> at.cme_filter(3, 1.0, np.arange(4), ridge_per_token=0.01).round(3)
    array([0.977, 0.931, 0.725, 0.27 ])
    """
    r = check.real(
        ridge_per_token,
        "ridge_per_token",
        "cme_filter",
        0,
        strict=True,
        hint="ridge / length",
    )
    return expit(log_eigenvalues(dim, bandwidth, degree) - math.log(r))  # no overflow of r/mu


def local_linear_filter(dim: int, bandwidth: float, degree: int | np.ndarray) -> np.ndarray:
    """What local linear attention keeps of the degree-m part, in the limit of long contexts.

    Args:
        dim: d >= 2, the keys live on S^{d-1}.
        bandwidth: h > 0, scores are q.k/h.
        degree: m >= 0, one or an array of them; the result has its shape.

    >>> local_linear_filter(3, 0.5, [0, 1, 2, 3]).round(6)
    array([1.      , 1.      , 0.571719, 0.215711])
    """
    d, h, m = _checked_arguments(dim, bandwidth, degree, "local_linear_filter")
    top = max(int(m.max()), 1)
    short = _ratio_shortfalls(d, h, top)
    # either side is exact where it is the smaller one
    r = np.where(short[:-1] < 0.5, 1 - short[:-1], _bessel_ratios(d, h, top))
    gaps = short - short[0]
    # (m h - c_m)/(h - c_1), where both differences are of order h^2
    slopes = (np.arange(top + 1) * h - gaps) / (h - gaps[1])
    rho = np.concatenate([[1.0], np.cumprod(r)])
    kept = rho * (1 + short[0] / r[0] * slopes)
    kept[1] = 1.0
    return kept[m]


def kernel_eigenvalues(dim: int, bandwidth: float, degree: int | np.ndarray) -> np.ndarray:
    """mu_m of the RBF kernel under uniform keys; those of exp(q.k/h) are exp(1/h) times as large.

    They sum to k(q, q) = 1 when each is counted once per harmonic
    (tasks.exchangeable.sphere_regression.harmonic_count).

    Args:
        dim: d >= 2, the keys live on S^{d-1}.
        bandwidth: h > 0, scores are q.k/h.
        degree: m >= 0, one or an array of them; the result has its shape.

    >>> import attnscope as at
    >>> import numpy as np
    >>> at.kernel_eigenvalues(3, 1.0, np.arange(4)).round(4)
    array([0.4323, 0.1353, 0.0263, 0.0037])
    """
    return np.exp(log_eigenvalues(dim, bandwidth, degree))


def log_eigenvalues(dim: int, bandwidth: float, degree: int | np.ndarray) -> np.ndarray:
    """log mu_m of the RBF kernel, also where mu_m or rho_m is below the smallest float64."""
    d, h, m = _checked_arguments(dim, bandwidth, degree, "log_eigenvalues")
    steps = np.log(_bessel_ratios(d, h, int(m.max())))
    return _log_mean_kernel(d, h) + np.concatenate([[0.0], np.cumsum(steps)])[m]


def density_bias(
    bandwidth: float,
    laplacian: np.ndarray,
    gradient: np.ndarray,
    log_density_gradient: np.ndarray,
) -> np.ndarray:
    """(h/2)(Laplacian f + 2 <grad f, grad log p>): first-order bias of softmax attention for unit
    keys with density p.

    Args:
        bandwidth: h > 0, divides the scores.
        laplacian: (...), of f on the sphere at the query.
        gradient: (..., d), of f, tangential at the query.
        log_density_gradient: (..., d), of log p, tangential too.

    >>> import attnscope as at
    >>> import numpy as np
    >>> at.density_bias(0.1, -2.0, np.array([1.0, 0.0]), np.array([0.5, 0.0])).item()
    -0.05
    """
    of = "density_bias"
    h = check.real(bandwidth, "bandwidth", of, 0, strict=True)
    bend = context_array(laplacian, "laplacian", of, ())
    slope = context_array(gradient, "gradient", of, (None,))
    tilt = context_array(log_density_gradient, "log_density_gradient", of, (slope.shape[-1],))
    try:
        return h / 2 * (bend + 2 * np.sum(slope * tilt, axis=-1))
    except ValueError:
        shapes = f"shapes {bend.shape}, {slope.shape} and {tilt.shape}"
        raise bad("arguments", of, "arrays that broadcast", shapes) from None


def tilted_limit(query: np.ndarray, bandwidth: float, tilt: np.ndarray) -> np.ndarray:
    """The limit of softmax attention with values = keys, for keys with density ~ exp(tilt.k) on the
    sphere: (..., d).

    A linear function W k then has the limit W times this; tilt = 0 gives rho_1 q.
    """
    of = "tilted_limit"
    h = check.real(bandwidth, "bandwidth", of, 0, strict=True)
    b = check.array(tilt, "tilt", of, (None,))
    a = context_array(query, "query", of, (len(b),)) / h + b
    size = np.linalg.norm(a, axis=-1, keepdims=True)
    keep = np.array(
        [float(softmax_filter(len(b), 1 / s, 1)) if s > 0 else 0.0 for s in size.ravel()]
    )
    return keep.reshape(size.shape) * a / np.where(size > 0, size, 1)


def _checked_arguments(
    dim: int, bandwidth: float, degree: int | np.ndarray, of: str
) -> tuple[int, float, np.ndarray]:
    hint = "a bandwidth near L**(-2/(dim+3))"
    d = check.integer(dim, "dim", of, 2, hint="dim=3")
    h = check.real(bandwidth, "bandwidth", of, SMALLEST_BANDWIDTH, hint=hint)
    return d, h, _checked_degrees(degree, of)


def _checked_degrees(degree: int | np.ndarray, of: str) -> np.ndarray:
    must = f"whole numbers from 0 to {LARGEST_DEGREE}"
    m = array_of(degree, "degree", of, must, "degree=1")
    if m.dtype.kind not in "iu" or m.size == 0 or m.min() < 0 or m.max() > LARGEST_DEGREE:
        raise bad("degree", of, must, degree, "degree=1")
    return m


def _rho_values(d: int, h: float, top: int) -> np.ndarray:
    """rho_0 .. rho_top."""
    return np.concatenate([[1.0], np.cumprod(_bessel_ratios(d, h, top))])


def _bessel_ratios(d: int, h: float, top: int) -> np.ndarray:
    """I_{v+1}/I_v at x = 1/h for v = d/2 - 1 + j, j < top, by downward recurrence.

    An error in r shrinks by r_v^2 = exp(-2 asinh(v/x)) per step, so sqrt(40 x) + 40 extra steps
    wipe out that of the start.
    """
    x = 1 / h
    v0 = d / 2 - 1
    above = top + math.ceil(math.sqrt(40 * x)) + 40
    v = v0 + above + 1
    r = x / (v + math.hypot(v, x))
    kept = []
    for j in range(above, -1, -1):
        r = 1 / (2 * (v0 + j + 1) / x + r)
        if j < top:
            kept.append(r)
    return np.array(kept[::-1])


def _ratio_shortfalls(d: int, h: float, top: int) -> np.ndarray:
    """1 - r_j, j = 0 .. top, without the cancellation in 1 - r.

    1 - r_v = (b - q)/(1 + b - q), b = 2(v+1)/x, q = 1 - r_{v+1}, downwards as for r; every step
    rounds like its own 1 - r, about v/x, so that small v lose digits to large ones. Where the
    expansion for large x reaches, each is taken from it.
    """
    x = 1 / h
    v0 = d / 2 - 1
    if x >= LARGE_ARGUMENT_RATIO * (v0 + top + 2) ** 2:
        return np.array([_hankel_shortfall(v0 + j, x) for j in range(top + 1)])
    above = top + math.ceil(math.sqrt(40 * x)) + 40
    v = v0 + above
    kept = [(v + math.hypot(v, x) - x) / (v + math.hypot(v, x))]
    for j in range(above - 1, -1, -1):
        left = 2 * (v0 + j + 1) / x - kept[-1]
        kept.append(left / (1 + left))
    return np.array(kept[::-1][: top + 1])


def _hankel_shortfall(v: float, x: float) -> float:
    """1 - I_{v+1}(x)/I_v(x) = (P_v - P_{v+1})/P_v, P_v = sum_k (-1)^k a_k(v)/x^k (DLMF 10.40.1).

    From x = LARGE_ARGUMENT_RATIO (v + 2)^2 on a term is at most 1/16 of the one before it.
    """
    terms = [[1.0], [1.0]]
    for row, order in zip(terms, (v, v + 1)):
        for k in range(1, 20):
            row.append(row[-1] * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k * x))
    return math.fsum(p - q for p, q in zip(*terms)) / math.fsum(terms[0])


def _log_mean_kernel(d: int, h: float) -> float:
    """log mu_0 = log E exp((t-1)/h)."""
    x = 1 / h
    v = d / 2 - 1
    bessel = float(ive(v, x)) if x > LARGEST_SERIES_ARGUMENT else 0.0
    if bessel > 1e-290:  # else underflow is near: v is large against sqrt(x)
        return float(gammaln(d / 2)) + v * math.log(2 * h) + math.log(bessel)
    if math.hypot(v + 1, x) - (v + 1) > LARGEST_SERIES_TERMS:
        return float(gammaln(d / 2)) + v * math.log(2 * h) + _log_bessel(v, x) - x
    # the largest term of sum_j (x/2)^{2j}/(j! (d/2)_j)
    peak = (math.hypot(v + 1, x) - (v + 1)) / 2
    j = np.arange(1, math.ceil(peak + 12 * math.sqrt(peak + 1) + 40))
    terms = np.cumsum(2 * math.log(x / 2) - np.log(j) - np.log(d / 2 + j - 1))
    return float(logsumexp(np.concatenate([[0.0], terms]))) - x


def _log_bessel(v: float, x: float) -> float:
    """log I_v(x) by Debye's uniform expansion to order v^-4: 1e-14 at the v > 600 it is used for.

    DLMF 10.41.3 and 10.41.9: I_v(vz) ~ e^{v eta} (1 + u_1(t)/v + ...)/(sqrt(2 pi v) (1 +
    z^2)^{1/4}).
    """
    z = x / v
    root = math.hypot(1.0, z)
    t = 1 / root
    eta = root + math.log(z / (1 + root))
    u1 = (3 * t - 5 * t**3) / 24
    u2 = (81 * t**2 - 462 * t**4 + 385 * t**6) / 1152
    u3 = (30375 * t**3 - 369603 * t**5 + 765765 * t**7 - 425425 * t**9) / 414720
    u4 = (
        4465125 * t**4
        - 94121676 * t**6
        + 349922430 * t**8
        - 446185740 * t**10
        + 185910725 * t**12
    )
    series = u1 / v + u2 / v**2 + u3 / v**3 + u4 / 39813120 / v**4
    return v * eta - math.log(2 * math.pi * v * root) / 2 + math.log1p(series)
