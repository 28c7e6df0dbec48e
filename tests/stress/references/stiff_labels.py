"""The squared risk of one head on a single-location task with a stiff label, from its definition.

notation: x standard normal, t = gamma x the value projection of the informative token; overlaps
(k.K, k.V, v.K, v.V, k.v); u, w scores and values; the label is a sum of `parts`, functions of t.

    R = E y^2 - 2 E[y g(x)] + E T^2,        g(x) = E[T | x].

E y^2 and E[y g] are Gauss-Legendre sums on panels that know where each part is special: they end at
its jumps and are as narrow as its features. Nothing here looks for features.

    Erf, Linear     g, E T^2 in closed form (Gaussian integrals of erf), or one sum in z
    tanh            trapezoid sums over the score
    Softmax         by the law of log S, S = sum_m e^{lam u_m} over the background tokens, built token
                    by token: a measure on a grid of log S with the first two moments of
                    N/S, N = sum_m e^{lam u_m} w_m. The output is then (1 - r) w + r N/S with
                    r = S/(S + e^{lam u}). No integral over the denominator's scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import erf

__all__ = ["label", "risk"]

REACH = 20.0  # standard deviations of x: e^{4x} has its square's mass at 8
PANEL = 0.05  # width of a plain panel
NODES, HEFTS = np.polynomial.legendre.leggauss(20)
ROUNDING = 4e-14  # of the sizes of all terms: sums of some 10^5 products
SCORE_STEP = 0.02  # of the trapezoid rule over a score
GRID_STEP = 0.05  # of log S
PLACES = 14  # grid points among which a node of log S is shared


# -- labels ----------------------------------------------------------------------------------------


def label(parts: list[Mapping[str, Any]], t: Any) -> Any:
    """The label at projections t: plain NumPy, as an author would write it."""
    return sum(_part(part, t) for part in parts)


def _part(p: Mapping[str, Any], t: Any) -> Any:
    kind, a, b, c = p["kind"], p["a"], p["b"], p["c"]
    if kind == "rare":
        return a * (c * t > c * b)
    if kind == "turned":
        return np.where(np.abs(t - b) < c / 2, -a * t, a * t)
    if kind == "band":
        return a * ((t > b - c / 2) & (t < b + c / 2))
    if kind == "steps":
        return a * np.floor(b * t + c)
    if kind == "sin":
        return a * np.sin(b * t + c)
    if kind == "exp":
        return a * np.exp(b * t)
    if kind == "power":
        return a * t ** int(b)
    if kind == "bump":
        return a * np.exp(-(((t - b) / c) ** 2))
    if kind == "tanh":
        return a * np.tanh(c * (t - b))
    return a * t  # "line"


def _ends(p: Mapping[str, Any], gamma: float) -> np.ndarray:
    """Where panels must end for this part, in x."""
    kind, b, c = p["kind"], p["b"], p["c"]
    if kind == "rare":
        places = np.array([b])
    elif kind in ("turned", "band"):
        places = np.array([b - c / 2, b + c / 2])
    elif kind == "steps":
        most = int(b * REACH * gamma) + 1
        places = (np.arange(-most, most + 1) - c) / b
    elif kind == "sin":
        step = 4.0 / b
        places = (
            np.arange(-9 * gamma, 9 * gamma, step) if step < PANEL * gamma else np.zeros(0)
        )
    elif kind == "bump":
        places = b + c * np.linspace(-9, 9, 37)
    elif kind == "tanh":
        away = np.concatenate([np.linspace(0, 4, 9), 2.0 ** np.arange(2.5, 14, 0.5)]) / c
        places = b + np.concatenate([-away, away])
    else:
        places = np.zeros(0)
    return places / gamma


def _panels(parts: list[Mapping[str, Any]], gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes x and weights with the normal density."""
    grows = any(p["kind"] in ("exp", "power") for p in parts)
    reach = REACH if grows else REACH / 2
    plain = np.arange(-reach, reach + PANEL / 2, PANEL)
    ends = np.unique(np.concatenate([plain, *(_ends(p, gamma) for p in parts)]))
    ends = ends[np.abs(ends) <= reach]
    half = np.diff(ends) / 2
    x = ((ends[1:] + ends[:-1]) / 2)[:, None] + half[:, None] * NODES
    weight = half[:, None] * HEFTS * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    keep = weight.ravel() > 0
    return x.ravel()[keep], weight.ravel()[keep]


# -- heads -----------------------------------------------------------------------------------------


class _Head:
    """g(x) and E T^2 at given overlaps."""

    def __init__(self, s: Mapping[str, Any], o: np.ndarray) -> None:
        self.kappa, self.eta, self.theta, self.nu, self.rho = (float(z) for z in o)
        self.lam, self.gamma, self.signal = s["inverse_temperature"], s["gamma"], s["signal"]
        self.others = s["length"] - 1
        self.head = s["head"]
        self.z = np.arange(-10, 10 + SCORE_STEP / 2, SCORE_STEP)
        self.heft = SCORE_STEP * np.exp(-(self.z**2) / 2) / math.sqrt(2 * math.pi)
        if self.head == "softmax":
            self.sums()

    @property
    def open(self) -> float:
        """Standard deviation of the informative score given x."""
        return self.gamma * math.sqrt(max(1 - self.eta**2, 0.0))

    @property
    def slope(self) -> float:
        """Of the informative value on what is open of its score."""
        cov = self.gamma**2 * (self.rho - self.eta * self.nu)
        return cov / self.open if self.open > 1e-9 else 0.0

    def activation(self, y: np.ndarray) -> np.ndarray:
        return {"erf": erf, "tanh": np.tanh, "linear": lambda v: v}[self.head](y)

    def output_square(self) -> float:
        """E T^2."""
        if self.head == "softmax":
            return self.softmax_square()
        u1 = self.signal * self.kappa + self.gamma * self.z
        w1 = self.signal * self.theta + self.gamma * self.rho * self.z
        s1, s0 = self.activation(self.lam * u1), self.activation(self.lam * self.z)
        rest = 1 - self.rho**2
        m1, m0 = self.heft @ (s1 * w1), self.rho * (self.heft @ (s0 * self.z))
        q1 = self.heft @ (s1**2 * (w1**2 + self.gamma**2 * rest))
        q0 = self.heft @ (s0**2 * (self.rho**2 * self.z**2 + rest))
        n = self.others
        return float(q1 + 2 * n * m0 * m1 + n * q0 + n * (n - 1) * m0**2)

    def mean_output(self, x: np.ndarray) -> np.ndarray:
        """g(x)."""
        centre = self.signal * self.kappa + self.gamma * self.eta * x
        value = self.signal * self.theta + self.gamma * self.nu * x
        s0 = None if self.head == "softmax" else self.activation(self.lam * self.z)
        added = (
            0.0 if s0 is None else self.others * self.rho * float(self.heft @ (s0 * self.z))
        )
        if self.head == "erf":
            size = math.sqrt(1 + 2 * (self.lam * self.open) ** 2)
            e = erf(self.lam * centre / size)
            d = 2 / math.sqrt(math.pi) * np.exp(-((self.lam * centre / size) ** 2))
            return value * e + self.slope * self.lam * self.open / size * d + added
        if self.head == "linear":
            return self.lam * (centre * value + self.slope * self.open) + added
        # smooth: a Chebyshev series through points where the label has mass
        reach = float(np.abs(x).max())
        n = int(20 * reach)
        turn = np.pi * np.arange(n + 1) / n
        c = reach * np.cos(turn)
        at_c = self.signal * self.kappa + self.gamma * self.eta * c
        value_c = self.signal * self.theta + self.gamma * self.nu * c
        u = at_c[:, None] + self.open * self.z[::4]
        heft = 4 * self.heft[::4]
        if self.head == "tanh":
            s = np.tanh(self.lam * u)
            g = value_c * (s @ heft) + self.slope * (s @ (heft * self.z[::4])) + added
        else:
            A, B = self.shares(u)
            g = value_c * (A @ heft) + self.slope * (A @ (heft * self.z[::4])) + B @ heft
        ends = np.ones(n + 1)
        ends[[0, -1]] = 0.5
        turns = np.outer(np.arange(n + 1), np.arange(n + 1)) % (2 * n)
        series = 2 / n * ends * (np.cos(np.pi * turns / n) @ (ends * g))
        return np.polynomial.chebyshev.chebval(x / reach, series)

    # -- softmax -----------------------------------------------------------------------------------

    def sums(self) -> None:
        """The grid of log S with mass, E[N/S] and E[(N/S)^2]."""
        lam, rho = self.lam, self.rho
        z, heft = self.z[::8], 8 * self.heft[::8]
        if lam > 1.5:
            z, heft = self.z[::4], 4 * self.heft[::4]
        y = lam * z
        low, high = y[0] - 1, y[-1] + math.log(self.others + 1) + 1
        count = int((high - low) / GRID_STEP) + 2
        self.grid = low + GRID_STEP * np.arange(count)
        w = rho * z
        square = w**2 + 1 - rho**2
        share, index = _lagrange((y - self.grid[0]) / GRID_STEP, count)
        parts: list[Any] = [
            np.bincount(index.ravel(), (m[:, None] * share).ravel(), count)[:count]
            for m in (heft, heft * w, heft * square)
        ]
        if self.others > 1:
            # one more token: linear maps of the grid, the same for every token
            m = self.grid[:, None]
            total = np.logaddexp(m, y)
            old, new = np.exp(m - total), np.exp(y - total)
            share, index = _lagrange((total.ravel() - self.grid[0]) / GRID_STEP, count)
            flat = np.repeat(np.arange(count), len(y))[:, None] * count + index

            def step(factor: np.ndarray) -> np.ndarray:
                weight = (factor * heft).reshape(-1, 1) * share
                return (
                    np.bincount(flat.ravel(), weight.ravel(), count**2)
                    .reshape(count, count)
                    .T
                )

            plain, kept, kept2 = step(old**0), step(old), step(old**2)
            first, both, second = (
                step(new * w),
                step(2 * old * new * w),
                step(new**2 * square),
            )
            for _ in range(self.others - 1):
                p0, p1, p2 = parts
                parts = [
                    plain @ p0,
                    kept @ p1 + first @ p0,
                    kept2 @ p2 + both @ p1 + second @ p0,
                ]
        self.parts = parts

    def shares(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """E[1 - r] and E[r N/S] at scores u, interpolated from equal steps of lam u."""
        y = self.lam * u.ravel()
        grid = (
            y.min()
            - GRID_STEP * PLACES
            + GRID_STEP * np.arange(int((y.max() - y.min()) / GRID_STEP) + 2 * PLACES + 1)
        )
        r = 1 / (1 + np.exp(np.clip(grid[:, None] - self.grid, -700, 700)))
        share, index = _lagrange((y - grid[0]) / GRID_STEP, len(grid))
        found = [(1 - r) @ self.parts[0], r @ self.parts[1]]
        A, B = (np.einsum("np,np->n", share, f[index]).reshape(u.shape) for f in found)
        return A, B

    def softmax_square(self) -> float:
        z, heft = self.z[::4], 4 * self.heft[::4]
        u = self.signal * self.kappa + self.gamma * z
        w = self.signal * self.theta + self.gamma * self.rho * z
        square = w**2 + self.gamma**2 * (1 - self.rho**2)
        r = 1 / (1 + np.exp(np.clip(self.lam * u[:, None] - self.grid, -700, 700)))
        p0, p1, p2 = self.parts
        each = (1 - r) ** 2 @ p0 * square + 2 * ((1 - r) * r) @ p1 * w + r**2 @ p2
        return float(heft @ each)


def _lagrange(place: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, PLACES) Lagrange polynomials of the points 0, 1, ... count - 1 nearest to each place, and
    the numbers of these points.
    """
    first = np.clip(np.floor(place).astype(int) - PLACES // 2 + 1, 0, count - PLACES)
    j = np.arange(PLACES)
    heft = (-1.0) ** j * np.array([math.comb(PLACES - 1, int(k)) for k in j])
    apart = (place - first)[:, None] - j
    exact = np.abs(apart) < 1e-13
    ratio = heft / np.where(exact, 1.0, apart)
    share = ratio / ratio.sum(1, keepdims=True)
    share = np.where(exact.any(1, keepdims=True), exact * 1.0, share)
    return share, first[:, None] + j


def risk(s: Mapping[str, Any], o: np.ndarray) -> tuple[float, float]:
    """The risk without label noise, and its error."""
    x, weight = _panels(s["parts"], s["gamma"])
    y = np.asarray(label(s["parts"], s["gamma"] * x), dtype=np.float64)
    head = _Head(s, o)
    g = head.mean_output(x)
    square, cross = float(weight @ y**2), float(weight @ (y * g))
    output = head.output_square()
    size = square + 2 * float(weight @ np.abs(y * g)) + output
    return square - 2 * cross + output, ROUNDING * size
