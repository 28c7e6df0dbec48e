"""What one bag contributes to ridge ERM of linear attention: the inner minimum is one number.

notation: p_l = 1 + o_l, z_l the fields of token l, y the label, V = V_k, W = V_v,
kappa = sqrt(V W), A = p/sqrt V, B = z/sqrt W, alpha = (A + B)/sqrt 2, beta = (A - B)/sqrt 2.

    minimise over s, w    |s - p|^2/(2V) + |w - z|^2/(2W) + (y - s.w)^2/2,        s = 1 + u.

With c = s.w held fixed this is a quadratic form under one quadratic equation, which has no duality
gap: its least value is convex in c, so there is one minimum over c. Stationary points have
s - p = V rho w, w - z = W rho s, rho = y - c, and the one with |x| < 1, x = kappa rho, is the
minimum:

    s = (p + V rho z)/(1 - x^2),   w = (z + W rho p)/(1 - x^2),
    x/kappa + (kappa/2) [|alpha|^2/(1-x)^2 - |beta|^2/(1+x)^2] = y,

whose left side increases from -inf to inf on (-1, 1). So the minimum never jumps, whatever V and W
are. It depends on the bag through |alpha|^2, |beta|^2 and y alone: L is any number.

How it moves: e = (s/sqrt V + w/sqrt W)/sqrt 2 = alpha/(1-x), f = beta/(1+x), and with
N = 1/kappa + kappa [|alpha|^2/(1-x)^3 + |beta|^2/(1+x)^3]

    de = dalpha/(1-x) - kappa alpha (alpha.dalpha)/((1-x)^4 N) + kappa alpha (beta.dbeta)/(D N)
    df = dbeta/(1+x) - kappa beta (beta.dbeta)/((1+x)^4 N) + kappa beta (alpha.dalpha)/(D N)

with D = (1-x)^2 (1+x)^2; Frobenius norms of a I + b alpha alpha^T + ... need |alpha|^2, |beta|^2,
alpha.beta and L.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.numerics.compiled.numba_flags import STRICT_FLAGS

__all__ = ["linear_averages", "linear_response", "linear_root"]

Array = np.ndarray

SAFEGUARDED_NEWTON_STEPS = 200  # 5 to 15 are usual; bisection alone would take 60


@njit(**STRICT_FLAGS)
def linear_root(plus: float, minus: float, y: float, kappa: float) -> float:
    """x in (-1, 1) with x/kappa + (kappa/2) [plus/(1-x)^2 - minus/(1+x)^2] = y."""
    low = -1.0
    high = 1.0
    x = 0.0
    for _ in range(SAFEGUARDED_NEWTON_STEPS):
        a = 1.0 - x
        b = 1.0 + x
        value = x / kappa + 0.5 * kappa * (plus / (a * a) - minus / (b * b)) - y
        if value > 0.0:
            high = x
        else:
            low = x
        slope = 1.0 / kappa + kappa * (plus / (a * a * a) + minus / (b * b * b))
        step = value / slope
        new = x - step
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - x) <= 1e-15:
            return new
        x = new
    return x


@njit(**STRICT_FLAGS)
def _bag_moments(
    g: Array, chi: Array, law: tuple[float, ...]
) -> tuple[float, float, float, float, float, float, float, float]:
    """p_1, z_1, y, |p|^2, |z|^2, p.z, mean.p, E[mean.z | the rest] of a bag, from its node.

    g (5,): xi_1, zeta_1, eta, xi and zeta of the other tokens along their mean and along their own
    p; chi (2,): squared lengths across these. law = (lift, sd of o, sd of z, slope, sd of y's own
    part, V, W, L - 1).
    """
    lift, so, sz, slope, sy, _, _, rest = law
    p1 = 1.0 + lift + so * g[0]
    z1 = sz * g[1]
    y = slope * g[1] + sy * g[2]
    root = math.sqrt(rest)
    along = root + so * g[3]
    length = along * along + so * so * chi[0]
    z = sz * g[4]
    pz = math.sqrt(length) * z
    mean_p = (1.0 + lift) * p1 + root * along
    mean_z = (1.0 + lift) * z1 + (
        root * along / math.sqrt(length) * z if length > 0.0 else 0.0
    )
    norm_z = z1 * z1 + z * z + sz * sz * chi[1]
    return p1, z1, y, p1 * p1 + length, norm_z, p1 * z1 + pz, mean_p, mean_z


@njit(**STRICT_FLAGS)
def linear_averages(
    g: Array, chi: Array, groups: int, law: tuple[float, ...], out: Array
) -> None:
    """Means over the nodes (`_bag_moments`) of each group, node i in group i mod groups; out (groups, 7).

    Columns: |g_u|^2, g_u1, xi.g_u, |g_w|^2, eta g_w1, zeta.g_w, rho^2, with g_u = rho w,
    g_w = rho s.
    """
    N = g.shape[0]
    _, so, sz, _, _, V, W, _ = law
    kappa = math.sqrt(V * W)
    out[:] = 0.0
    for i in range(N):
        p1, z1, y, P, Z, c, mean_p, mean_z = _bag_moments(g[i], chi[i], law)
        both = P / V + Z / W
        cross = 2.0 * c / kappa
        x = linear_root(0.5 * (both + cross), 0.5 * (both - cross), y, kappa)
        rho = x / kappa
        D = 1.0 - x * x
        row = out[i % groups]
        row[0] += rho * rho * (Z + 2.0 * W * rho * c + (W * rho) ** 2 * P) / (D * D)
        row[1] += rho * (z1 + W * rho * p1) / D
        row[2] += rho * (c - mean_z + W * rho * (P - mean_p)) / (D * so)
        row[3] += rho * rho * (P + 2.0 * V * rho * c + (V * rho) ** 2 * Z) / (D * D)
        row[4] += g[i, 2] * rho * (p1 + V * rho * z1) / D
        row[5] += rho * (c + V * rho * Z) / (D * sz)
        row[6] += rho * rho
    out *= groups / N


@njit(**STRICT_FLAGS)
def _frobenius(
    a: float, b: float, c: float, d: float, e: float, P: float, Q: float, R: float, L: float
) -> float:
    """|a I + b aa^T + c ab^T + d ba^T + e bb^T|^2 with |a|^2 = P, |b|^2 = Q, a.b = R."""
    total = L * a * a + 2.0 * a * (b * P + (c + d) * R + e * Q)
    total += b * b * P * P + (c * c + d * d) * P * Q + e * e * Q * Q
    total += 2.0 * (b * c + b * d) * P * R + 2.0 * (b * e + c * d) * R * R
    return total + 2.0 * (c * e + d * e) * Q * R


@njit(**STRICT_FLAGS)
def linear_response(g: Array, chi: Array, law: tuple[float, ...], most: float) -> Array:
    """E |d(u, w)/d(o, z) - I|^2 by blocks, (2, 2): Frobenius norms of uu, uw, wu, ww. A bag counts
    for at most `most`, its blocks' sum uu + ww + 2 sqrt(uw wu).
    """
    N = g.shape[0]
    V = law[5]
    W = law[6]
    L = law[7] + 1.0
    kappa = math.sqrt(V * W)
    total = np.zeros((2, 2))
    for i in range(N):
        _, _, y, P, Z, c, _, _ = _bag_moments(g[i], chi[i], law)
        both = P / V + Z / W
        cross = 2.0 * c / kappa
        plus = 0.5 * (both + cross)
        minus = 0.5 * (both - cross)
        inner = 0.5 * (P / V - Z / W)
        x = linear_root(plus, minus, y, kappa)
        a = 1.0 / (1.0 - x)
        b = 1.0 / (1.0 + x)
        k = kappa / (1.0 / kappa + kappa * (plus * a**3 + minus * b**3))
        ee = -k * a**4  # of alpha alpha^T
        ff = -k * b**4  # of beta beta^T
        ef = k * a * a * b * b  # of alpha beta^T in de, of beta alpha^T in df
        half = 0.5 * (a + b)
        odd = 0.5 * (a - b)
        m = (plus, minus, inner, L)
        # s = (e+f)/sqrt 2, A = (alpha+beta)/sqrt 2 and so on: sums and differences of the blocks
        uu = _frobenius(half - 1.0, ee / 2, ef / 2, ef / 2, ff / 2, *m)
        uw = _frobenius(odd, ee / 2, -ef / 2, ef / 2, -ff / 2, *m) * V / W
        wu = _frobenius(odd, ee / 2, ef / 2, -ef / 2, -ff / 2, *m) * W / V
        ww = _frobenius(half - 1.0, ee / 2, -ef / 2, -ef / 2, ff / 2, *m)
        share = min(1.0, most / (uu + ww + 2.0 * math.sqrt(uw * wu))) / N
        total[0, 0] += share * uu
        total[0, 1] += share * uw
        total[1, 0] += share * wu
        total[1, 1] += share * ww
    return total
