"""Laplace transforms of a token's likelihood ratio, by Mellin-Barnes contours through the saddle.

A token is N(s k*, g^2 I_d) (relevant, E_1) or N(0, I_d) (background, E_0); l is its log-likelihood
ratio. Wanted, for real y,

    phi_1(y) = E_1 exp(-e^{y + l + d log g}),   phi_0(y) = E_0 exp(-e^{y + l + d log g})
        (the shift d log g is for rounding)

and, under E_1 with that weight, the mean and the variance of u = x.k* and the second moment of a
coordinate orthogonal to k*. With eps = 1 - g^2 and p(z) = p0 - eps z, where p0 = 1, b = 1 for E_1
and p0 = g^2, b = -1 for E_0, a Gaussian integral gives

    log E e^{-z(l + d log g)} = K(z) = -(d/2) log(p(z)/p0) + (s^2/2) z (z - b) / p(z),
        K''' etc. in closed form,
    phi(y) = [c < 0] + (1/2 pi i) int_{Re z = c} Gamma(z) e^{-z y + K(z)} dz,
        lo < c < hi, c not 0,

the strip being p > 0 and Re z > -1. The weight 1/p(z) gives the orthogonal coordinate (two more
degrees of freedom); tilting by e^{-z l} makes u normal with mean m_z = s(1-z)/p(z) and variance
g^2/p(z), so polynomials in u become polynomials in m_z.

f(c) = log|Gamma(c)| - c y + K(c) is convex on (lo, 0) and on (0, hi): one saddle on each. The right
one gives phi, the left one 1 - phi, both with RELATIVE accuracy; the smaller f is used, and what is
returned is q = logit(1 - phi), so log phi = -log(1 + e^q).

Contour: z(x) = c + a(-sin(al)(cosh x - 1) + i cos(al) sinh x), a = distance to the nearest
singularity, the bend al from the curvature of steepest descent, kept only where the integrand falls
along it. Trapezoid rule in x, doubled row by row until two rules agree.

Exact: every formula above. Approximate: the trapezoid rule (error estimated by step doubling) and
rounding (estimated from the sizes of the summed terms). notation: y (real argument), c (saddle), p
= p(c), w = z - c, q = logit(1 - phi), all arrays over the rows y.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, loggamma, psi

from attnscope.numerics.integrals.saddle_exponent import Saddle, SaddleExponent, saddle_logit

__all__ = ["TokenLaw", "Transform"]

Array = np.ndarray

TERM_ROUNDING = 4e-16  # two roundings of float64 per term summed
# two trapezoid rules must agree this well: the finer one is then good to 6 TRAPEZOID_AGREEMENT^1.5 = 2e-11
TRAPEZOID_AGREEMENT = 2e-8
# nodes of the first rule; 6e-16 is reached by a Gaussian at 8.4 deviations, so a step of 0.84 of
# them
FIRST_NODES = 10
RULE_DOUBLINGS = 7  # up to 10 * 2**7 = 1280 nodes, then the error estimate covers the rest
CUT_NATS = 35.0  # a contour ends where the integrand is e^-35 = 6e-16 of its start
BLOCK_ROWS = 512  # rows per vectorised block: bounds memory at 512 * 640 nodes
TRIAL_PLACES = np.linspace(
    0.0, 1.0, 22
)  # places (in log) where a contour is tried before it is used


class Transform(NamedTuple):
    """phi and the moments of its weight at the rows y;
    mean and variance only where asked for (else those of E_1).
    """

    logit: Array  # q = log((1 - phi)/phi)
    error: Array  # absolute error of q
    ratio: Array  # second moment of an orthogonal coordinate over g^2
    mean: Array  # of u
    variance: Array  # of u
    # relative error of ratio and variance, and of mean in units of sqrt(variance)
    moment_error: Array


class _Path(NamedTuple):
    reach: Array  # a
    bend: Array  # sin(al)
    length: Array  # largest x


class TokenLaw(SaddleExponent):
    """Mellin side of one hypothesis: `relevant` chooses E_1 (p0 = 1, b = 1) or E_0 (p0 = g^2, b =
    -1).
    """

    def transform(
        self, y: Array, variance: bool = False, negligible: float = -np.inf
    ) -> Transform:
        """phi at every y; rows with log(1 - phi)
        < negligible get the saddle-point value (and its error).
        """
        y = np.asarray(y, dtype=np.float64)
        saddle = self._saddle(y, newton=3)
        q = saddle_logit(saddle, saddle.f - 0.5 * np.log(2 * np.pi * saddle.curvature))
        ones = np.ones_like(y)
        # phi is 1 to this order, and its moments are those of E_1
        rough = 0.2 * np.exp(np.minimum(q, 0))
        out = Transform(
            q, 0.2 * ones, ones.copy(), self.signal * ones, self.gamma2 * ones, rough
        )
        rows = np.flatnonzero((saddle.c > 0) | (q > negligible))
        for start in range(0, rows.size, BLOCK_ROWS):
            part = rows[start : start + BLOCK_ROWS]
            for field, values in zip(
                out,
                self._by_contour(Saddle(*(a[part] for a in saddle)), variance),
                strict=True,
            ):
                field[part] = values
        return out

    # ---- contours
    # ------------------------------------------------------------------------------------------

    def _by_contour(self, at: Saddle, variance: bool) -> Transform:
        """Trapezoid sums of the integrand and its moments, doubled until they agree;
        then phi, ratio, mean, variance.
        """
        sums, disagreement, cut = self._trapezoid_sums(at, self._contour_path(at), variance)
        # doubling squares the error of a converging rule; 6 d^1.5 is an upper estimate. Rules that never
        # agreed get no better estimate
        rule = (
            np.where(disagreement > TRAPEZOID_AGREEMENT, disagreement, 6 * disagreement**1.5)
            + cut
            + 10 * TERM_ROUNDING
        )
        error = rule + TERM_ROUNDING * at.size
        log_value = at.f + np.log(np.abs(sums[0]) / np.pi)
        q = saddle_logit(at, log_value)
        if not self.relevant:
            return Transform(q, error, *(np.zeros_like(q),) * 4)
        # on the right the moments are ratios of sums, free of the rounding of f
        return Transform(
            q,
            error,
            *self._moments(at, sums, np.exp(log_value), np.where(at.c < 0, error, rule)),
        )

    def _moments(
        self, at: Saddle, sums: Array, value: Array, error: Array
    ) -> tuple[Array, Array, Array, Array]:
        """ratio, mean, variance and their error. A left contour gives what the weight removes:
        (E_1 - value * sums)/(1 - value).
        """
        left = at.c < 0
        kept = np.where(left, 1 / (1 - value), 0.0)  # share of the moments of E_1
        part = np.where(left, -value * kept, 1.0) * sums[1:] / sums[0]
        ratio = part[0] + kept
        error = error * (1 + np.abs(part[0]) / ratio)
        if len(part) == 1:
            return (
                ratio,
                np.full_like(ratio, self.signal),
                np.full_like(ratio, self.gamma2),
                error,
            )
        centre = np.where(left, self.signal, self.signal * (1 - at.c) / at.p)
        spread = part[2] + kept * self.gamma2 - part[1] ** 2
        # cancellation (measured: at most 2 on the right, 7 on the left), then rounding of the mean
        # and of psi(c + w) - psi(c)
        loss = (np.abs(part[2]) + 2 * part[1] ** 2) / spread
        places = TERM_ROUNDING * (np.abs(centre) / np.sqrt(spread) + np.sqrt(at.curvature))
        return ratio, centre + part[1], spread, error * (1 + loss) + places

    def _contour_path(self, at: Saddle) -> _Path:
        """Bend and length of every row's contour:
        the steepest bend of three along which the integrand falls.
        """
        reach = np.where(at.c < 0, np.minimum(-at.c, 1 + at.c), at.c)
        if self.eps:
            reach = np.minimum(reach, np.abs(at.p / self.eps))
        k = -reach * self._third_derivative(at.c, at.p) / (3 * at.curvature)
        bend = np.clip(2 * k / (1 + np.sqrt(1 + 4 * k * k)), -0.5, 0.5)
        path = _Path(reach, bend, np.zeros_like(bend))
        todo = np.arange(bend.size)
        for shrink in (1.0, 0.5, 0.0):
            sub = _Path(reach[todo], shrink * bend[todo], path.length[todo])
            length, falls = self._try_contour(Saddle(*(a[todo] for a in at)), sub)
            path.bend[todo], path.length[todo] = sub.bend, length
            todo = todo[~falls]
            if not todo.size:
                break
        return path

    def _try_contour(self, at: Saddle, path: _Path) -> tuple[Array, Array]:
        """Where the integrand has fallen to e^-CUT_NATS, and whether it fell monotonically."""
        deviation = at.curvature**-0.5
        # |Gamma| falls like e^{-pi y/2} beyond y = Re z
        far = (40 + 12 * deviation) / deviation
        x = np.arcsinh(far[:, None] ** TRIAL_PLACES * (deviation / path.reach)[:, None])
        w, _ = _contour_points(path, x)
        v = self._exponent(at, w).real - np.log(np.abs(1 + w / at.c[:, None]))
        low = v < -CUT_NATS
        end = np.where(low.any(1), low.argmax(1), v.shape[1] - 1)
        before = np.arange(v.shape[1] - 1) < end[:, None]
        falls = low.any(1) & ~((np.diff(v, axis=1) > 0.05) & before).any(1) & (v[:, 0] < 0)
        rows = np.arange(end.size)
        start = np.maximum(end - 1, 0)
        v0 = v[rows, start]
        v1 = v[rows, end]
        x0 = np.log(x[rows, start])
        x1 = np.log(x[rows, end])
        # 0/0 where start = end, which is not used
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.log(CUT_NATS / np.maximum(-v0, 0.1)) / np.log(
                np.maximum(-v1, 0.1) / np.maximum(-v0, 0.1)
            )
        inside = np.exp(
            x0 + np.clip(np.where((end > 0) & low.any(1), t, 1.0), 0, 1) * (x1 - x0)
        )
        return inside, falls

    def _exponent(self, at: Saddle, w: Array) -> Array:
        """f(c + w) - f(c) + log(1 + w/c), rows x nodes:
        the factor 1/z of Gamma(z) = Gamma(1+z)/z is left to the caller.
        """
        c = at.c[:, None]
        p = at.p[:, None]
        linear = (self._tilt(at.c, at.p) - at.y)[:, None]
        e = loggamma(1 + c + w) - gammaln(1 + c) + linear * w
        if self.eps:
            e -= 0.5 * self.dim * _log1p(-self.eps / p * w)
        if self.signal:
            e += 0.5 * self.signal2 * self.gamma2 / p**2 * w * w / (p - self.eps * w)
        return e

    def _terms_at(self, at: Saddle, path: _Path, x: Array, variance: bool) -> Array:
        """Im(integrand * dz/dx) for phi and its moments: (moments, rows, nodes)."""
        w, dz = _contour_points(path, x)
        c = at.c[:, None]
        p = at.p[:, None]
        g = np.exp(self._exponent(at, w)) * dz / (1 + w / c)
        if not self.relevant:
            return g.imag[None]
        pz = p - self.eps * w
        out = [g.imag, (g / pz).imag]
        if variance:
            out += [(g * m).imag for m in self._moment_polynomials(at, w, pz)]
        return np.stack(out)

    def _moment_polynomials(self, at: Saddle, w: Array, pz: Array) -> tuple[Array, Array]:
        """First and second moment of u about s (left rows) or about m_c (right rows).

        On the right (m_z - m_c)^2 + g^2/p(z) cancels to O(1/s^2) of itself when l is nearly linear
        in u (g near 1, s large). Adding the total derivative of e^f h, h = -2 g^2 w/(2p - eps w),
        removes the (m_z - m_c)^2 exactly and leaves terms of the size of the result.
        """
        c = at.c[:, None]
        p = at.p[:, None]
        left = (at.c < 0)[:, None]
        z = c + w
        about_s = -self.signal * self.gamma2 * z / pz
        about_m = -self.signal * self.gamma2 * w / (p * pz)
        half = 2 * p - self.eps * w
        slope = (self._slope(at.c, at.p) - at.y)[:, None]
        rest = (
            _digamma(1 + z)
            - psi(1 + c)
            - 1 / z
            + 1 / c
            + 0.5 * self.dim * self.eps**2 * w / (p * pz)
            + slope
        )
        second = (
            self.gamma2 * self.eps**2 * w * w / (pz * half**2)
            - 2 * self.gamma2 * w / half * rest
        )
        return np.where(left, about_s, about_m), np.where(
            left, about_s**2 + self.gamma2 / pz, second
        )

    def _trapezoid_sums(
        self, at: Saddle, path: _Path, variance: bool
    ) -> tuple[Array, Array, Array]:
        """Trapezoid sums (moments, rows), the relative disagreement of the last two rules,
        and the cut-off error.
        """
        n = FIRST_NODES
        x = path.length[:, None] * (np.arange(n + 1) / n)
        first = self._terms_at(at, path, x, variance)
        sums = (first.sum(2) - 0.5 * first[:, :, 0]) * (path.length / n)
        cut = np.abs(first[:, :, -1]).max(0) * path.length / CUT_NATS
        disagreement = np.full(at.c.size, np.inf)
        todo = np.arange(at.c.size)
        for level in range(RULE_DOUBLINGS):
            if not todo.size:
                break
            part = Saddle(*(a[todo] for a in at))
            way = _Path(*(a[todo] for a in path))
            x = way.length[:, None] * ((np.arange(n << level) + 0.5) / (n << level))
            middle = self._terms_at(part, way, x, variance).sum(2) * (
                way.length / (n << level)
            )
            both = 0.5 * (sums[:, todo] + middle)
            disagreement[todo] = (np.abs(sums[:, todo] - middle) / _moment_scales(both)).max(
                0
            )
            sums[:, todo] = both
            todo = todo[disagreement[todo] > TRAPEZOID_AGREEMENT]
        return sums, disagreement, cut / np.abs(sums[0])


def _moment_scales(sums: Array) -> Array:
    """Size against which each moment's error counts:
    its own, and for the mean the standard deviation.
    """
    scales = np.abs(sums)
    if len(sums) == 4:
        scales[2] = np.sqrt(scales[0] * scales[3])
    return scales


def _contour_points(path: _Path, x: Array) -> tuple[Array, Array]:
    """z(x) - c and dz/dx."""
    reach = path.reach[:, None]
    sine = path.bend[:, None]
    cosine = np.sqrt(1 - sine * sine)
    cosh = np.cosh(x)
    sinh = np.sinh(x)
    return reach * (-sine * (cosh - 1) + 1j * cosine * sinh), reach * (
        -sine * sinh + 1j * cosine * cosh
    )


def _log1p(w: Array) -> Array:
    """Complex log(1 + w) with full relative accuracy of the real part for small w (numpy's loses
    it).
    """
    out = np.empty_like(w)
    out.real = 0.5 * np.log1p(w.real * (2 + w.real) + w.imag**2)
    out.imag = np.arctan2(w.imag, 1 + w.real)
    return out


def _digamma(z: Array) -> Array:
    """psi(z) for Re z > 0 or |Im z| large: eight steps up, then the asymptotic series (six times
    faster than scipy's complex psi).

    On the contours |z + 8| >= 8 and |arg| <= 2 pi/3; the first term left out is 1/(12 |z + 8|^14) <
    2e-14, and 1e-15 for most nodes.
    """
    up = z + 8
    r = 1 / (up * up)
    series = r * (
        1 / 12
        - r
        * (
            1 / 120
            - r * (1 / 252 - r * (1 / 240 - r * (1 / 132 - r * (691 / 32760 - r / 12))))
        )
    )
    return np.log(up) - 0.5 / up - series - sum(1 / (z + k) for k in range(8))
