"""Truths of the exchangeable tasks, each from its definition.

notation: pi, B = prior and emissions of K topics; L tokens; Phi (L, p) features, V (L, d_v) values;
lam = prior variance,
          s = noise; C = covariance; n, N = longer and shorter side of a matrix of normals.

Topics. A sequence has counts c with probability p_z(c) = multinomial(c) prod_x B_zx^{c_x} in topic
z: sums over all c in DIGITS digits.

Gaussian tasks. Tokens and targets are jointly normal, so a prediction is C_yx C_xx^-1 x and a log
probability is -(x^T C^-1 x + log det 2 pi C)/2, with C written down entry by entry and solved in
DIGITS digits: no posterior precision, no Woodbury.

The trace. Entry j of the diagonal of (I + c X^T X)^-1 is 1/(1 + c x^T M^-1 x), x the column j,
M = I + c Y Y^T from the other columns. Given Y the column is standard normal, and with mu the
eigenvalues of Y^T Y

    E 1/(1 + c x^T M^-1 x) = int e^{-t} (1 + 2ct)^{-(n-N+1)/2} prod_i (1 + 2ct/(1 + c mu_i))^{-1/2}
        dt

over t > 0, smooth in mu however large c is: no rare event is left to sample. N = 1 has no Y, N = 2
one chi-square mu (a second integral), N > 2 a mean over drawn Y.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import mpmath as mp
import numpy as np
from scipy import special

__all__ = [
    "arrangements",
    "chernoff",
    "count_vectors",
    "gaussian_predict",
    "inner_products",
    "log_density",
    "order_law",
    "sphere_covariance",
    "sphere_gap",
    "topic_atoms",
    "topic_posterior",
    "topic_sums",
    "wishart_trace",
    "zonal",
]

Exact = list[list[mp.mpf]]
# condition numbers up to 1e100 (variances of 1e-50 and 1e50) still leave 40 digits
DIGITS = 140
DRAWS = 400  # of Y: their mean is good to about one per cent
# a drawn truth is off by more than this many standard errors with probability 2e-9
SIGMAS = 6.0
WORST_CONDITION = 1e12  # of a system whose solution still has three digits
# of trapezoid rules in a logarithm: analytic integrands, the rule errs by e^{-pi^2/STEP}
STEP = 0.04


def count_vectors(length: int, symbols: int) -> Iterator[tuple[int, ...]]:
    """Every way to spread `length` tokens over the symbols."""
    if symbols == 1:
        yield (length,)
        return
    for first in range(length + 1):
        for rest in count_vectors(length - first, symbols - 1):
            yield (first, *rest)


def _exact_rows(rows: Sequence[Sequence[float]]) -> list[list[mp.mpf]]:
    """Rows of floats as probabilities whose sum is 1 in all digits."""
    exact = [[mp.mpf(float(p)) for p in row] for row in rows]
    return [[p / mp.fsum(row) for p in row] for row in exact]


def _joint(
    prior: Sequence[float], emissions: Sequence[Sequence[float]], length: int
) -> Iterator[tuple[tuple, list]]:
    """(counts, [pi_z p_z(counts)]) of all counts that can occur."""
    B = _exact_rows(emissions)
    pi = _exact_rows([prior])[0]
    powers = [[[p**n for n in range(length + 1)] for p in row] for row in B]
    for c in count_vectors(length, len(B[0])):
        ways = mp.mpf(arrangements(c))
        parts = [
            w * ways * mp.fprod(table[x][n] for x, n in enumerate(c))
            for w, table in zip(pi, powers)
        ]
        if any(parts):
            yield c, parts


def arrangements(c: Sequence[int]) -> int:
    """How many sequences have these counts."""
    ways, total = 1, 0
    for n in c:
        total += n
        ways *= int(special.comb(total, n, exact=True))
    return ways


def topic_sums(
    prior: Sequence[float],
    emissions: Sequence[Sequence[float]],
    length: int,
    means: np.ndarray,
) -> tuple[float, float]:
    """(E posterior mass on wrong topics, E|r_z - E[r_z | x]|^2) over sequences of that length;
    means r (K, m).
    """
    with mp.workdps(DIGITS):
        K = len(prior)
        r = [[mp.mpf(float(x)) for x in row] for row in np.reshape(means, (K, -1))]
        far = {
            (i, j): mp.fsum((a - b) ** 2 for a, b in zip(r[i], r[j]))
            for i in range(K)
            for j in range(i)
        }
        wrong = mp.mpf(0)
        spread = mp.mpf(0)
        for _, parts in _joint(prior, emissions, length):
            total = mp.fsum(parts)
            for (i, j), distance in far.items():
                pair = parts[i] * parts[j] / total
                wrong += 2 * pair
                spread += distance * pair
        return float(wrong), float(spread)


def topic_posterior(
    prior: Sequence[float], emissions: Sequence[Sequence[float]], counts: Sequence[int]
) -> list[float]:
    """[P(z | counts)..., log p(counts in one given order)]."""
    with mp.workdps(DIGITS):
        B = _exact_rows(emissions)
        pi = _exact_rows([prior])[0]
        parts = [
            w * mp.fprod(p**n for p, n in zip(row, counts) if n) for w, row in zip(pi, B)
        ]
        total = mp.fsum(parts)
        if not total:
            return []
        return [float(part / total) for part in parts] + [float(mp.log(total))]


def topic_atoms(
    prior: Sequence[float], emissions: Sequence[Sequence[float]], length: int
) -> list[tuple]:
    """(counts, probability, posterior) of all counts that can occur."""
    with mp.workdps(DIGITS):
        out = []
        for c, parts in _joint(prior, emissions, length):
            total = mp.fsum(parts)
            out.append((c, float(total), [float(part / total) for part in parts]))
        return out


def chernoff(
    first: Sequence[float], second: Sequence[float]
) -> tuple[float, float, float] | None:
    """(rate, tilt, variance) of two laws; None where the least of log sum a^s b^(1-s)
    is at an end of [0, 1].
    """
    with mp.workdps(DIGITS):
        a, b = _exact_rows([first, second])
        both = [(mp.log(x), mp.log(y)) for x, y in zip(a, b) if x and y]

        def tilted(s: mp.mpf) -> list[mp.mpf]:
            return [mp.exp(s * x + (1 - s) * y) for x, y in both]

        def slope(s: mp.mpf) -> mp.mpf:
            return mp.fsum(w * (x - y) for w, (x, y) in zip(tilted(s), both))

        low = mp.mpf(0)
        high = mp.mpf(1)
        if not both or not slope(low) < 0 < slope(high):
            return None
        for _ in range(150):  # bisection: 45 digits
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        w = tilted(low)
        total = mp.fsum(w)
        variance = mp.fsum(p * (x - y) ** 2 for p, (x, y) in zip(w, both)) / total
        return float(-mp.log(total)), float(low), float(variance)


def inner_products(
    left: np.ndarray, right: np.ndarray, scale: float, ridge: float
) -> list[list[mp.mpf]]:
    """scale left_i.right_j + ridge [i = j] in all digits."""
    with mp.workdps(DIGITS):
        a, b = ([[mp.mpf(float(x)) for x in row] for row in side] for side in (left, right))
        dots = [[mp.mpf(scale) * mp.fdot(x, y) for y in b] for x in a]
        return [
            [dot + (mp.mpf(ridge) if i == j else 0) for j, dot in enumerate(row)]
            for i, row in enumerate(dots)
        ]


def gaussian_predict(
    C: Exact, cross: list[mp.mpf], own: mp.mpf, x: np.ndarray
) -> tuple[list[float], float]:
    """(means of the target's coordinates, its variance) from tokens x (L, m) with covariance C (L,
    L), each coordinate alike.

    cross (L,): covariance of the target with the tokens; own: its variance before.
    """
    with mp.workdps(DIGITS):
        if not len(x):
            return [0.0] * np.shape(x)[1], float(own)
        weights = mp.lu_solve(mp.matrix(C), mp.matrix([[a] for a in cross]))
        means = [
            float(mp.fdot(weights, [mp.mpf(float(a)) for a in column])) for column in x.T
        ]
        return means, float(own - mp.fdot(weights, cross))


def log_density(C: Exact, x: np.ndarray) -> float:
    """log N(x; 0, C), summed over the columns of x (L, m)."""
    with mp.workdps(DIGITS):
        if not len(x):
            return 0.0
        M = mp.matrix(C)
        log_det = mp.log(mp.det(M))
        total = mp.mpf(0)
        for column in np.asarray(x, dtype=float).T:
            v = mp.matrix([[mp.mpf(float(a))] for a in column])
            total += mp.fsum(v[l] * w for l, w in enumerate(mp.lu_solve(M, v)))
        return float(-(total + x.shape[1] * (log_det + len(x) * mp.log(2 * mp.pi))) / 2)


def wishart_trace(rows: int, columns: int, c: float, seed: int) -> tuple[float, float]:
    """E tr (I + c X^T X)^-1 for X (rows, columns) standard normal,
    and the reference's own error.
    """
    N, n = sorted((rows, columns))
    spare = float(columns - N)
    if N == 0:
        return spare, 0.0
    if N == 1:
        value = spare + float(_given(n, 1, c, np.zeros((1, 0)))[0])
        return value, 1e-12 * value  # positive terms: relative accuracy
    if N == 2:
        # of log mu: twelve standard deviations, and the low tail of few degrees
        spread = 13 * max((2 / n) ** 0.5, 0.3)
        u = np.arange(-6 * spread if n < 30 else -spread, spread, STEP / 2)
        if n >= 30:
            u = u * min(1.0, 8 * (2 / n) ** 0.5)  # as fine as the density is narrow
        # chi-square of mu = n e^u, in u: no large terms that cancel
        weight = np.exp(n / 2 * (u - np.expm1(u)))
        value = spare + 2 * float(
            np.sum(weight * _given(n, 2, c, n * np.exp(u)[:, None])) / np.sum(weight)
        )
        return value, 1e-12 * value
    Y = np.random.default_rng(seed).standard_normal((DRAWS, n, N - 1))
    found = N * _given(n, N, c, np.linalg.eigvalsh(Y.swapaxes(1, 2) @ Y))
    value = spare + float(found.mean())
    return value, SIGMAS * float(found.std(ddof=1)) / DRAWS**0.5 + 1e-12 * value


def _given(n: int, N: int, c: float, mu: np.ndarray) -> np.ndarray:
    """The integral of the module docstring for each row of eigenvalues mu (draws, N-1),
    by a trapezoid rule in log t.
    """
    # below, the integrand is 1 to rounding: t itself is what is left out
    lowest = -40 - np.log1p(c * n)
    log_t = np.arange(lowest, np.log(750.0), STEP)
    t = np.exp(log_t)
    slopes = 2 * c / (1 + c * mu)
    exponent = -t - (n - N + 1) / 2 * np.log1p(2 * c * t) + log_t
    total = np.zeros(len(mu))
    for i, slope in enumerate(slopes):
        total[i] = np.sum(np.exp(exponent - np.sum(np.log1p(t[:, None] * slope), axis=1) / 2))
    return STEP * total


def zonal(dim: int, degree: int, t: np.ndarray) -> np.ndarray:
    """The harmonic of that degree on S^{dim-1} that is 1 at t = 1,
    from its orthogonal polynomial.
    """
    if degree == 0:
        return np.ones_like(t)
    if dim == 2:
        return np.cos(degree * np.arccos(np.clip(t, -1, 1)))
    order = dim / 2 - 1
    return special.eval_gegenbauer(degree, order, t) / special.eval_gegenbauer(
        degree, order, 1.0
    )


def sphere_covariance(
    dim: int, weights: dict[int, float], left: np.ndarray, right: np.ndarray
) -> Exact:
    """sum_l w_l P_l(q.k) in all digits, of the unit vectors along the given ones."""
    with mp.workdps(DIGITS):
        sides = [[_unit(row) for row in side] for side in (left, right)]
        return [
            [_covariance(dim, weights, mp.fdot(x, y)) for y in sides[1]] for x in sides[0]
        ]


def _unit(x: np.ndarray) -> list[mp.mpf]:
    exact = [mp.mpf(float(a)) for a in x]
    size = mp.sqrt(mp.fdot(exact, exact))
    return [a / size for a in exact]


def _covariance(dim: int, weights: dict[int, float], t: mp.mpf) -> mp.mpf:
    order = mp.mpf(dim) / 2 - 1
    total = mp.mpf(0)
    for degree, weight in weights.items():
        if dim == 2:
            harmonic = mp.chebyt(degree, t)
        else:
            harmonic = mp.gegenbauer(degree, order, t) / mp.gegenbauer(degree, order, 1)
        total += mp.mpf(weight) * harmonic
    return total


def sphere_gap(
    dim: int, noise: float, weights: dict[int, float], length: int, seed: int
) -> tuple[float, float] | None:
    """E Var(f(q) | values at `length` uniform keys) of a Gaussian process with covariance sum_l w_l
    P_l, by drawn keys.

    None where a system is so ill conditioned that float64 does not solve it.
    """
    rng = np.random.default_rng(seed)
    k = rng.standard_normal((DRAWS, length + 1, dim))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    gram = np.clip(k @ k.swapaxes(1, 2), -1, 1)
    C = np.sum([w * zonal(dim, degree, gram) for degree, w in weights.items()], axis=0)
    left = C[:, -1, -1]
    rounding = 1e-12
    if length:
        cross = C[:, :-1, -1]
        inside = C[:, :-1, :-1] + noise**2 * np.eye(length)
        sizes = np.linalg.eigvalsh(inside)
        if not (sizes[:, 0] > sizes[:, -1] / WORST_CONDITION).all():
            return None
        # a solution is off by the condition number times the rounding of the matrix
        rounding += 1e-15 * length * float(np.mean(sizes[:, -1] / sizes[:, 0] * left))
        left = left - np.sum(
            cross * np.linalg.solve(inside, cross[..., None])[..., 0], axis=-1
        )
    return float(left.mean()), SIGMAS * float(left.std(ddof=1)) / DRAWS**0.5 + rounding


def order_law(
    length: int, places: Sequence[int], symbols: Sequence[int], with_positions: bool
) -> float:
    """E[order | what is seen] of L tokens, by counting: symbol 0 or 1 first with equal probability
    at a random pair of places.

    places: position of each token as seen; symbols: its symbol; the fillers among themselves are
    alike.
    """
    if length < 2:
        return 0.0
    seen = (
        sorted(symbols)
        if not with_positions
        else [s for _, s in sorted(zip(places, symbols))]
    )
    fillers = sorted(s for s in symbols if s > 1)
    for_first, for_second = 0, 0
    for i, j in permutations(range(length), 2):  # A at i, B at j
        rest = iter(fillers if not with_positions else [s for s in seen if s > 1])
        row = [0 if l == i else 1 if l == j else next(rest, -1) for l in range(length)]
        fits = sorted(row) == seen if not with_positions else row == seen
        for_first += fits and i < j
        for_second += fits and j < i
    total = for_first + for_second
    return 0.0 if total == 0 else (for_first - for_second) / total
