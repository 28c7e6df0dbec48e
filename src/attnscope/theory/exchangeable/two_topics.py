"""The wrong posterior mass of two topics as a contour integral, for any priors, laws and length.

notation: p_i = pi_i prod_l B_i(x_l), lam = log(B_i/B_j) on the symbols both allow, L = length,
          w = s + it, M(w) = sum_x B_i^w B_j^{1-w} over those symbols, Q ~ B_i^s B_j^{1-s}.

Since e^{(1-s)u}/(1 + e^u) is the Fourier transform of 1/(2 sin pi(s + it)), for every 0 < s < 1

    2 sum_x p_i p_j/(p_i + p_j) = int pi_i^w pi_j^{1-w} M(w)^L / sin(pi w) dt,

and moving the line over the pole at w = 0 (or 1) takes out its residue: for -1 < s < 0

    = 2 pi_j M(0)^L + the same integral,        for 1 < s < 2   = 2 pi_i M(1)^L + the same integral,

where the integral is now negative.

On a line the size is e^{F(s)}, F = s log pi_i + (1-s) log pi_j + L log M(s) - log|sin pi s|, convex
in each strip. The line through its minimum has no cancellation; if that minimum is next to a pole
(extreme priors, symbols that only one topic allows) the residue is the answer and the next strip
gives what is missing of it.

|M(s+it)/M(s)|^2 = 1 - D(t) and sqrt D is Lipschitz with the standard deviation sigma of lam under
Q, so (1 - D)^{L/2} <= e^{-LD/2} is provably nothing on most of the line when L is large: only the
rest is cut into panels, for lattices (two symbols) with every return of D to 0. Exact up to
rounding, which grows like L eps because M is raised to the power L; time does not grow with L.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ellipkm1

from attnscope.errors import bad
from attnscope.numerics.integrals.quadrature import legendre

__all__ = ["LogMass", "log_ratio", "tilted_law", "wrong_mass"]

EPS = float(np.finfo(np.float64).eps)
# parts below e^-45 = 3e-20 of the peak are omitted and added to the error
OMITTED_NATS = 45.0
POLE_DISTANCE = 0.1  # if the minimum is closer to a pole than this, the residue is used
CANCELLATION_LIMIT = 0.9  # share of the residue that may cancel: one digit is lost there
PANEL_RULE_SIZES = (24, 16)  # Gauss nodes per panel, of the value and of its comparison
HALF_PANEL_RADIANS = 2.0  # how far the phase of the fastest symbol turns in half a panel
RAREST_SYMBOL_COUNT = 1e-18  # a symbol expected less often than this has no weight in float64
PANELS_PER_BLOCK = 4096  # bounds the memory
LARGEST_PANEL_COUNT = 1 << 20  # a bound on time: 10^7 nodes
# error of the logarithm beyond which even the magnitude is unknown
LARGEST_LOG_ROUNDING = 0.5


class LogMass(NamedTuple):
    """log of the wrong posterior mass and a bound on its error; -inf and 0 if there is none."""

    log: float
    error: float


class _Pair(NamedTuple):
    """Both laws on their common symbols, their logarithms and log ratio, the log priors, and L."""

    p: np.ndarray
    q: np.ndarray
    a: np.ndarray
    b: np.ndarray
    ratio: np.ndarray
    prior_a: float
    prior_b: float
    L: int


def log_ratio(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """log(p/q) of positive numbers, to relative accuracy where they nearly agree."""
    out = np.log(p) - np.log(q)
    close = np.abs(out) < 0.5
    out[close] = np.log1p((p[close] - q[close]) / q[close])
    return out


def wrong_mass(
    prior: tuple[float, float], p: np.ndarray, q: np.ndarray, length: int, of: str
) -> LogMass:
    """2 sum_x p_i p_j/(p_i + p_j) over all sequences of that length >= 1, as a logarithm."""
    both = (p > 0) & (q > 0)
    if min(prior) == 0 or not both.any():
        return LogMass(-math.inf, 0.0)
    p = p[both]
    q = q[both]
    logs = np.log(prior)
    pair = _Pair(
        p, q, np.log(p), np.log(q), log_ratio(p, q), float(logs[0]), float(logs[1]), length
    )
    s = _lowest_line(pair, 0.0)
    found = None
    if not POLE_DISTANCE <= s <= 1 - POLE_DISTANCE:
        found = _mass_from_residue(pair, s, of)
    if found is None:
        size, value, error = _line_integral(pair, s, of)
        if not error < value:
            must = "of laws whose contour integral does not cancel in float64"
            raise bad("emissions", of, must, "one that does", "Topics.topic_error")
        found = (size + math.log(value), error / value, _exponent_rounding(pair, s))
    log_value, relative, rounding = found
    if not rounding < LARGEST_LOG_ROUNDING:
        must = "short enough that M^L is known in float64"
        raise bad("length", of, must, f"L = {length}, unknown by a factor e^{rounding:.2g}")
    return LogMass(log_value, math.log1p(relative) + rounding)


def _mass_from_residue(
    pair: _Pair, inside: float, of: str
) -> tuple[float, float, float] | None:
    """(log, relative error, rounding) from the residue at the pole next to `inside`, where F is
    least between the poles, and from the line beyond it.

    None where the two nearly cancel: then the line on this side of the pole is the better one.
    """
    pole = 0 if inside < POLE_DISTANCE else 1
    residue = _exponent(pair, float(pole)) + math.log(2)
    # the line through `inside` bounds the answer; far below the residue, the two cancel
    if _exponent(pair, inside) + math.log(
        _inverse_sine_integral(inside)
    ) < residue + math.log(1 - CANCELLATION_LIMIT):
        return None
    s = _lowest_line(pair, float(2 * pole - 1))
    s = max(s, -0.5) if pole == 0 else min(s, 1.5)  # beyond, the next pole is near
    scale = math.exp(min(_exponent(pair, s) - residue, 700.0))
    most = _inverse_sine_integral(s)
    if most * scale < EPS:
        return residue, most * scale + EPS, _exponent_rounding(pair, float(pole))
    _, value, error = _line_integral(pair, s, of)
    missing = abs(value) * scale
    if not missing < CANCELLATION_LIMIT:
        return None
    left = 1 - missing
    rounding = max(
        _exponent_rounding(pair, float(pole)), _exponent_rounding(pair, s) * missing / left
    )
    return residue + math.log(left), (error * scale + EPS) / left, rounding / left


def _inverse_sine_integral(s: float) -> float:
    """int dt/|sin pi(s + it)|."""
    return 2 / math.pi * float(ellipkm1(math.sin(math.pi * s) ** 2))


def _exponent(pair: _Pair, s: float) -> float:
    """s log pi_i + (1 - s) log pi_j + L log M(s)."""
    return s * pair.prior_a + (1 - s) * pair.prior_b + pair.L * _log_M(pair, s)


def _log_M(pair: _Pair, s: float) -> float:
    """log M(s), from M - 1 where that is small:
    near s = 0 and 1, and for topics that nearly agree.
    """
    base, start, slope = (pair.b, pair.q, s) if s <= 0.5 else (pair.a, pair.p, s - 1)
    moved = math.fsum(start * np.expm1(np.minimum(slope * pair.ratio, 700.0)))
    rest = math.fsum([*start, -1.0]) + moved
    if abs(rest) < 0.5:
        return math.log1p(rest)
    exponents = base + slope * pair.ratio
    top = float(exponents.max())
    return top + math.log(math.fsum(np.exp(exponents - top)))


def tilted_law(a: np.ndarray, b: np.ndarray, s: float) -> np.ndarray:
    """Q ~ exp(s a + (1 - s) b), normalised, from the logarithms a and b of two laws."""
    exponents = s * a + (1 - s) * b
    weights = np.exp(exponents - exponents.max())
    return weights / weights.sum()


def _lowest_line(pair: _Pair, low: float) -> float:
    """Where F is least in the strip (low, low + 1)."""

    def slope(s: float) -> float:
        mean = float(tilted_law(pair.a, pair.b, low + s) @ pair.ratio)
        return pair.prior_a - pair.prior_b + pair.L * mean - math.pi / math.tan(math.pi * s)

    edge = 1e-12  # closer to a pole the minimum does not matter: the residue is taken
    if slope(edge) >= 0:
        return low + edge
    if slope(1 - edge) <= 0:
        return low + 1 - edge
    return low + float(brentq(slope, edge, 1 - edge, xtol=1e-13, rtol=1e-13))


def _exponent_rounding(pair: _Pair, s: float) -> float:
    """Rounding of the exponent at s: inputs, logarithms and their sum, once for each token."""
    weights = tilted_law(pair.a, pair.b, s)
    logs = abs(s) * np.abs(pair.a) + abs(1 - s) * np.abs(pair.b)
    per_token = float(weights @ logs) + abs(_log_M(pair, s)) + 4
    priors = abs(s * pair.prior_a) + abs((1 - s) * pair.prior_b)
    return EPS * (2 * pair.L * per_token + 2 * priors + 8)


def _line_integral(pair: _Pair, s: float, of: str) -> tuple[float, float, float]:
    """(E, value, error): the integral along Re w = s is value e^E, up to error e^E."""
    q = tilted_law(pair.a, pair.b, s)
    mean = float(q @ pair.ratio)
    deviation = pair.ratio - mean
    sigma = math.sqrt(float(q @ deviation**2))
    turn = pair.prior_a - pair.prior_b + pair.L * mean  # the phase per unit of t
    reach = (OMITTED_NATS + math.log1p(pair.L * sigma**2) / 2) / math.pi
    edges = _panel_edges(q, deviation, sigma, pair.L, turn, s, reach, of)
    sums = []
    size = 0.0
    for nodes in PANEL_RULE_SIZES:
        x, weight = legendre(nodes)
        total = 0.0
        size = 0.0
        for part in np.array_split(edges, math.ceil(len(edges) / PANELS_PER_BLOCK)):
            width = part[:, 1:] - part[:, :1]
            t = (part[:, :1] + width * x).ravel()
            terms = 2 * _line_integrand(t, q, deviation, pair.L, turn, s)
            total += float(terms.real @ (width * weight).ravel())
            size += float(np.abs(terms) @ (width * weight).ravel())
        sums.append(total)
    # what was left out on [0, reach], and beyond it (1/sin decays like 2 e^{-pi t})
    outside = math.exp(-OMITTED_NATS) * _inverse_sine_integral(s)
    outside += 4 / math.pi * math.exp(-math.pi * reach)
    error = abs(sums[0] - sums[1]) + 8 * EPS * size + outside
    return _exponent(pair, s), sums[0], error


def _line_integrand(
    t: np.ndarray, q: np.ndarray, deviation: np.ndarray, L: int, turn: float, s: float
) -> np.ndarray:
    """e^{i turn t} (E_Q e^{it deviation})^L / sin(pi (s + it))."""
    angles = np.multiply.outer(t, deviation)
    real = -2 * (np.sin(angles / 2) ** 2 @ q)  # Re phi - 1
    imaginary = np.sin(angles) @ q
    modulus = np.log1p(np.maximum(2 * real + real**2 + imaginary**2, -1 + EPS)) / 2
    phase = np.arctan2(imaginary, 1 + real)
    # 1/sin(pi (s + it)) = conj(sin)/|sin|^2, |sin|^2 = sin^2 pi s + sinh^2 pi t
    hyper = np.sinh(math.pi * t)
    square = math.sin(math.pi * s) ** 2 + hyper**2
    inverse = (
        math.sin(math.pi * s) * np.cosh(math.pi * t) - 1j * math.cos(math.pi * s) * hyper
    )
    return np.exp(L * modulus + 1j * (turn * t + L * phase)) * (inverse / square)


def _panel_edges(
    q: np.ndarray,
    deviation: np.ndarray,
    sigma: float,
    L: int,
    turn: float,
    s: float,
    reach: float,
    of: str,
) -> np.ndarray:
    """Edges (n, 2) of the panels of [0, reach] where the integrand is not provably nothing."""
    seen = q * L > RAREST_SYMBOL_COUNT
    fastest = float(np.abs(deviation[seen]).max()) if seen.any() else 0.0
    pole = abs(s - round(s))
    finest = min(
        1 / max(math.sqrt(L) * sigma, 1.0),
        HALF_PANEL_RADIANS / max(fastest, 1.0),
        HALF_PANEL_RADIANS / max(abs(turn), 1.0),
    )
    enough = math.sqrt((2 * OMITTED_NATS + math.log1p(L * sigma**2)) / L)
    half = reach / 2
    middle = np.array([half])
    done = []
    while len(middle):
        middle = middle[
            np.sqrt(_modulus_deficit(middle, q, deviation)) - sigma * half <= enough
        ]
        # half a panel is at most half its distance from the pole, which lies beside t = 0
        fine = half <= np.minimum(finest, np.maximum(pole, middle - half) / 2)
        done.append(np.stack([middle[fine] - half, middle[fine] + half], axis=1))
        middle = middle[~fine]
        if 2 * len(middle) + sum(map(len, done)) > LARGEST_PANEL_COUNT:
            must = "of laws that a million panels resolve"
            raise bad("emissions", of, must, "more", "Topics.topic_error")
        half /= 2
        middle = np.concatenate([middle - half, middle + half])
    return np.concatenate(done)


def _modulus_deficit(t: np.ndarray, q: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """D(t) = 1 - |phi(t)|^2, in blocks."""
    out = np.empty(len(t))
    for i in range(0, len(t), PANELS_PER_BLOCK):
        angles = np.multiply.outer(t[i : i + PANELS_PER_BLOCK], deviation)
        real = -2 * (np.sin(angles / 2) ** 2 @ q)
        imaginary = np.sin(angles) @ q
        out[i : i + PANELS_PER_BLOCK] = np.maximum(-(2 * real + real**2 + imaginary**2), 0.0)
    return out
