"""Mini-batch SGD of heads of softmax or erf in their Gram matrix, compiled: exact in law, at the same
cost in any dimension.

The law is that of gram_sgd.py, here with the gradient by hand and 16 runs side by side. The task
has F informative tokens N(s k_i*, gam^2 I_d), the others N(0, I_d), Y = sum_i X_i.v_i* + eps xi;
H heads add up to T = sum_h T_h, and a step follows the mean of (T - Y)^2 over B fresh sequences.

notation: m = 2H trained vectors (k_1, v_1, ...), r = 2F teachers (k_1*, v_1*, ...), n = m + r;
A (n, n) lower triangular: row a has the coordinates of vector a in the frame of Cholesky, trained
vectors first; u = X_l.k_h, w = X_l.v_h, p = weight_l of head h.

With (T - Y)^2 the gradients are g_a = sum_l (2/B)(T - Y) c_la X_l over the batch,

    softmax   p = e^{lam u}/(sink + sum e^{lam u}):   c_k = lam p (w - T_h),       c_v = p
    erf       p = erf(lam u):                         c_k = lam erf'(lam u) w,     c_v = p

Every token is drawn along the first m axes, an informative one along all n. Along an axis beyond m
the background adds N(0, S_0), S_0 = sum of (factor c)(factor c)^T over background tokens, and what
lies outside the frame enters by its Gram matrix, Wishart_m(S_0 + gam^2 S_1, d - n), S_1 the same
sum over informative tokens, by Bartlett's decomposition.

Exact in law for d >= n up to rounding: softmax scores are shifted by their largest, a vanishing
pivot of Cholesky leaves its axis empty. A run that is not finite in one place is so everywhere.
Loops over lanes are innermost and have few arrays each, so that they vectorise; heads are taken in
pairs (h, g), two rows by two columns of a matrix at a time.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from attnscope.numerics.compiled.fast_erf import FLAGS, erf_given_exp, exp_negative
from attnscope.numerics.compiled.fast_normal import chi_square_pair, normals
from attnscope.numerics.compiled.run_tiles import LANES
from attnscope.numerics.compiled.tile_loop import give_tile, take_tile, through_tiles

__all__ = ["ERF", "SOFTMAX", "SOFTMAX_ONE", "heads_steps"]

Array = np.ndarray

# kinds of heads; a softmax with a sink has one more score of 0
SOFTMAX, SOFTMAX_ONE, ERF = range(3)
ERF_SLOPE = 2 / math.sqrt(math.pi)  # erf'(0)
# squared pivot, relative, below which a vector counts as dependent: 50 roundings (gram_sgd.py)
PIVOT = 1e-14
# seconds per token, head and tile, roughly: decides only whether threads are worth starting
TOKEN = 2e-7
# rows of the sums over one sequence: sum of weights, of weights times w, the largest score; a head
# has three
SUM, OUT, TOP = range(3)


def heads_steps(
    gram: Array,
    generators: Array,
    temperatures: Array,
    kind: int,
    heads: int,
    *,
    step_size: float,
    batch_size: int,
    length: int,
    gamma: float,
    signal: float,
    noise: float,
    sphere: bool,
    freedom: int,
    spread: float,
) -> tuple[Array, Array]:
    """Gram matrices (runs, n, n) and generator states (runs, 4) after len(temperatures) steps.

    freedom = d - n and spread = gam^2, in the Wishart law, are arguments: tests plant errors there.
    """
    runs = len(gram)
    n = gram.shape[1]
    if not runs or not len(temperatures):
        return gram.copy(), generators.copy()
    columns = gram.reshape(runs, n * n).T
    setting = (
        np.ascontiguousarray(temperatures, dtype=np.float64),
        int(kind),
        2 * int(heads),
        n,
        int(length),
        int(batch_size),
        float(step_size),
        float(gamma),
        float(signal),
        float(noise),
        bool(sphere),
        int(freedom),
        float(spread),
    )
    seconds = len(temperatures) * batch_size * length * heads * TOKEN
    moved, generators = through_tiles(_advance, columns, generators, setting, seconds)
    return np.ascontiguousarray(moved.T).reshape(runs, n, n), generators


@njit(**FLAGS)
def _advance(
    tiles: Array,
    seeds: Array,
    temperatures: Array,
    kind: int,
    m: int,
    n: int,
    length: int,
    batch: int,
    alpha: float,
    gam: float,
    s: float,
    eps: float,
    sphere: bool,
    freedom: int,
    spread: float,
    lanes: int,
) -> None:
    """Advance tiles (.., n n, LANES) and generators (.., 4, LANES) in place."""
    r = n - m
    G = np.empty((n * n, LANES))
    A = np.empty((n * n, LANES))
    X = np.empty((length * m, LANES))
    R = np.empty((r // 2 * r, LANES))
    C = np.empty((length * m, LANES))
    y = np.empty((1, LANES))
    inside = np.empty((m * n, LANES))
    S0 = np.empty((m * m, LANES))
    S1 = np.empty((m * m, LANES))
    one = np.empty((m * (n + 2 * m) + 3 * m // 2, LANES))
    L = np.empty((m * m, LANES))
    W = np.empty((m * m, LANES))
    g = np.empty(4 * LANES, np.uint64)
    z = np.empty(2 * LANES)
    chi2 = np.empty(2 * LANES)
    for tile in range(tiles.shape[0]):
        take_tile(G, g, tiles[tile], seeds[tile], lanes)
        for t in range(temperatures.size):
            lam = temperatures[t]
            _poison(G, y, n, lanes)
            _cholesky(A, G, n, lanes)
            _clear(inside, lanes)
            _clear(S0, lanes)
            _clear(S1, lanes)
            for _ in range(batch):
                _draw(X, R, y, A, z, g, m, n, length, gam, s, eps, lanes)
                add_sequence(
                    inside, S0, S1, X, R, y, A, C, one, kind, m, n, length, lam, batch, lanes
                )
            _background_beyond(inside, S0, L, z, g, m, n, lanes)
            for j in range(m * m):
                for i in range(lanes):
                    S1[j, i] = S0[j, i] + spread * S1[j, i]
            _cholesky(L, S1, m, lanes)
            _wishart(W, L, S1, z, chi2, g, m, freedom, lanes)
            _move(G, A, inside, W, S0, m, n, alpha, sphere, lanes)
        give_tile(G, g, tiles[tile], seeds[tile], lanes)


@njit(**FLAGS)
def add_sequence(
    inside: Array,
    S0: Array,
    S1: Array,
    X: Array,
    R: Array,
    y: Array,
    A: Array,
    C: Array,
    one: Array,
    kind: int,
    m: int,
    n: int,
    length: int,
    lam: float,
    batch: int,
    lanes: int,
) -> None:
    """Add one sequence to the sums over the batch: gradients along the frame (m n), S_0, S_1 (m m).

    X (length m): coordinates of the tokens along the first m axes, informative ones first; R (F r)
    theirs along the others; y the label. C (length m) and `one` are work space.
    """
    r = n - m
    F = r // 2
    stats = m * (n + 2 * m)
    _clear(one, lanes)
    _scores(C, one, X, A, kind, m, n, length, lam, stats, lanes)
    if kind == ERF:
        _erf(C, one, m, length, lam, stats, lanes)
    else:
        _softmax(C, one, kind, m, length, lam, stats, lanes)
    for l in range(length):
        square = m * n + (m * m if l < F else 0)
        for h in range(0, m, 2):
            for f in range(0, m, 2):
                _along(one, C, X, l * m + h, l * m + f, h * n + f, n, lanes)
                if f <= h:
                    _squares(one, C, l * m + h, l * m + f, square + h * m + f, m, lanes)
            if l < F:
                for f in range(0, r, 2):
                    _along(one, C, R, l * m + h, l * r + f, h * n + m + f, n, lanes)
    for i in range(lanes):
        total = -y[0, i]
        for h in range(m // 2):
            total += one[stats + 3 * h + OUT, i]
        y[0, i] = 2.0 / batch * total
    for j in range(m * n):
        for i in range(lanes):
            inside[j, i] += y[0, i] * one[j, i]
    for j in range(m * m):
        for i in range(lanes):
            S0[j, i] += y[0, i] * y[0, i] * one[m * n + j, i]
            S1[j, i] += y[0, i] * y[0, i] * one[m * (n + m) + j, i]


@njit(forceinline=True, **FLAGS)
def _clear(x: Array, lanes: int) -> None:
    for j in range(x.shape[0]):
        for i in range(lanes):
            x[j, i] = 0.0


@njit(forceinline=True, **FLAGS)
def _poison(G: Array, spoiled: Array, n: int, lanes: int) -> None:
    """A run with one number that is not finite gets NaN everywhere."""
    for j in range(n * n):
        for i in range(lanes):
            spoiled[0, i] = G[j, i] - G[j, i] + (spoiled[0, i] if j > 0 else 0.0)
    for j in range(n * n):
        for i in range(lanes):
            G[j, i] += spoiled[0, i]


@njit(**FLAGS)
def _cholesky(A: Array, G: Array, n: int, lanes: int) -> None:
    """Lower factor A of G (n n) >= 0, of which the lower triangle is read;
    a vanishing pivot leaves its column empty.
    """
    for a in range(n):
        for b in range(n):
            for i in range(lanes):
                A[a * n + b, i] = G[a * n + b, i] if b <= a else 0.0
    for b in range(n):
        for c in range(b):
            for a in range(b, n):
                for i in range(lanes):
                    A[a * n + b, i] -= A[a * n + c, i] * A[b * n + c, i]
        for i in range(lanes):
            pivot = A[b * n + b, i]
            # written so that NaN stays NaN
            gone = pivot <= PIVOT * G[b * n + b, i]
            A[b * n + b, i] = 0.0 if gone else math.sqrt(pivot)
        for a in range(b + 1, n):
            for i in range(lanes):
                pivot = A[b * n + b, i]
                A[a * n + b, i] = 0.0 if pivot == 0.0 else A[a * n + b, i] / pivot


@njit(**FLAGS)
def _draw(
    X: Array,
    R: Array,
    y: Array,
    A: Array,
    z: Array,
    g: Array,
    m: int,
    n: int,
    length: int,
    gam: float,
    s: float,
    eps: float,
    lanes: int,
) -> None:
    """The coordinates of the tokens of one sequence, informative ones first, and its label."""
    r = n - m
    F = r // 2
    flat = X.reshape(X.size)
    rest = R.reshape(R.size)
    for j in range(0, length * m, 2):
        normals(flat[j * LANES :], g, lanes)
    for j in range(0, F * r, 2):
        normals(rest[j * LANES :], g, lanes)
    normals(z, g, lanes)
    for i in range(lanes):
        y[0, i] = eps * z[i]
    for f in range(F):
        key = (m + 2 * f) * n
        for j in range(m):
            for i in range(lanes):
                X[f * m + j, i] = s * A[key + j, i] + gam * X[f * m + j, i]
                y[0, i] += A[key + n + j, i] * X[f * m + j, i]
        for j in range(r):
            for i in range(lanes):
                R[f * r + j, i] = s * A[key + m + j, i] + gam * R[f * r + j, i]
                y[0, i] += A[key + n + m + j, i] * R[f * r + j, i]


@njit(forceinline=True, **FLAGS)
def _scores(
    C: Array,
    one: Array,
    X: Array,
    A: Array,
    kind: int,
    m: int,
    n: int,
    length: int,
    lam: float,
    stats: int,
    lanes: int,
) -> None:
    """Scores lam u and values w of every token and head into C, and the largest scores."""
    for h in range(0, m, 2):
        top = stats + 3 * (h // 2) + TOP
        for i in range(lanes):
            one[top, i] = -math.inf if kind != SOFTMAX_ONE else 0.0
        for l in range(length):
            to = l * m + h
            for f in range(0, h + 2, 2):
                key = h * n + f
                at = l * m + f
                for i in range(lanes):
                    u = C[to, i] if f > 0 else 0.0
                    w = C[to + 1, i] if f > 0 else 0.0
                    first = X[at, i]
                    second = X[at + 1, i]
                    C[to, i] = u + lam * (A[key, i] * first + A[key + 1, i] * second)
                    C[to + 1, i] = w + A[key + n, i] * first + A[key + n + 1, i] * second
            for i in range(lanes):
                one[top, i] = max(one[top, i], C[to, i])


@njit(forceinline=True, **FLAGS)
def _erf(
    C: Array, one: Array, m: int, length: int, lam: float, stats: int, lanes: int
) -> None:
    """c of every token and head in place of score and value, and T_h."""
    for h in range(0, m, 2):
        out = stats + 3 * (h // 2) + OUT
        for l in range(length):
            to = l * m + h
            for i in range(lanes):
                score = C[to, i]
                w = C[to + 1, i]
                e = exp_negative(score * score)
                sigma = erf_given_exp(score, e)
                C[to, i] = lam * ERF_SLOPE * e * w
                C[to + 1, i] = sigma
                one[out, i] += sigma * w


@njit(forceinline=True, **FLAGS)
def _softmax(
    C: Array,
    one: Array,
    kind: int,
    m: int,
    length: int,
    lam: float,
    stats: int,
    lanes: int,
) -> None:
    """c of every token and head in place of score and value, and T_h."""
    for h in range(0, m, 2):
        row = stats + 3 * (h // 2)
        for i in range(lanes):
            one[row + SUM, i] = (
                exp_negative(one[row + TOP, i]) if kind == SOFTMAX_ONE else 0.0
            )
        for l in range(length):
            to = l * m + h
            for i in range(lanes):
                e = exp_negative(one[row + TOP, i] - C[to, i])
                C[to, i] = e
                one[row + SUM, i] += e
                one[row + OUT, i] += e * C[to + 1, i]
        for i in range(lanes):
            one[row + SUM, i] = 1.0 / one[row + SUM, i]
            one[row + OUT, i] *= one[row + SUM, i]
        for l in range(length):
            to = l * m + h
            for i in range(lanes):
                p = C[to, i] * one[row + SUM, i]
                C[to, i] = lam * p * (C[to + 1, i] - one[row + OUT, i])
                C[to + 1, i] = p


@njit(forceinline=True, **FLAGS)
def _along(
    one: Array, C: Array, X: Array, row: int, column: int, to: int, n: int, lanes: int
) -> None:
    """Two by two entries of sum_l c_la x_lj."""
    for i in range(lanes):
        c = C[row, i]
        e = C[row + 1, i]
        first = X[column, i]
        second = X[column + 1, i]
        one[to, i] += c * first
        one[to + 1, i] += c * second
        one[to + n, i] += e * first
        one[to + n + 1, i] += e * second


@njit(forceinline=True, **FLAGS)
def _squares(
    one: Array, C: Array, row: int, column: int, to: int, m: int, lanes: int
) -> None:
    """Two by two entries of sum_l c_la c_lb."""
    for i in range(lanes):
        c = C[row, i]
        e = C[row + 1, i]
        first = C[column, i]
        second = C[column + 1, i]
        one[to, i] += c * first
        one[to + 1, i] += c * second
        one[to + m, i] += e * first
        one[to + m + 1, i] += e * second


@njit(**FLAGS)
def _background_beyond(
    inside: Array, S0: Array, L: Array, z: Array, g: Array, m: int, n: int, lanes: int
) -> None:
    """What the background adds along the axes beyond m."""
    _cholesky(L, S0, m, lanes)
    for j in range(m, n):
        for b in range(0, m, 2):
            normals(z, g, lanes)
            for a in range(b, m):
                for i in range(lanes):
                    add = L[a * m + b, i] * z[i] + L[a * m + b + 1, i] * z[LANES + i]
                    inside[a * n + j, i] += add


@njit(**FLAGS)
def _wishart(
    W: Array,
    L: Array,
    T: Array,
    z: Array,
    chi2: Array,
    g: Array,
    m: int,
    freedom: int,
    lanes: int,
) -> None:
    """W = (L T)(L T)^T, T Bartlett's lower factor of `freedom` degrees; T is overwritten."""
    for b in range(m):
        if b % 2 == 0:
            chi_square_pair(chi2, z, g, freedom - b, lanes)
        half = b % 2 * LANES
        for i in range(lanes):
            T[b * m + b, i] = math.sqrt(chi2[half + i])
        for a in range(b + 1, m):
            if (a - b) % 2 == 1:
                normals(z, g, lanes)
            half = (a - b + 1) % 2 * LANES
            for i in range(lanes):
                T[a * m + b, i] = z[half + i] if b < freedom else 0.0
    # T <- L T, from the last row on
    for a in range(m - 1, -1, -1):
        for b in range(a + 1):
            for i in range(lanes):
                T[a * m + b, i] *= L[a * m + a, i]
            for c in range(b, a):
                for i in range(lanes):
                    T[a * m + b, i] += L[a * m + c, i] * T[c * m + b, i]
    for a in range(m):
        for b in range(a + 1):
            for i in range(lanes):
                W[a * m + b, i] = 0.0
            for c in range(b + 1):
                for i in range(lanes):
                    W[a * m + b, i] += T[a * m + c, i] * T[b * m + c, i]


@njit(**FLAGS)
def _move(
    G: Array,
    A: Array,
    inside: Array,
    W: Array,
    block: Array,
    m: int,
    n: int,
    alpha: float,
    sphere: bool,
    lanes: int,
) -> None:
    """Step along the gradients, renormalise on spheres, and write the new Gram matrix."""
    for a in range(m):
        if sphere:
            _dot(block, a, inside, a * n, A, a * n, n, lanes)
        for j in range(n):
            for i in range(lanes):
                radial = block[a, i] if sphere else 0.0
                step = inside[a * n + j, i] - radial * A[a * n + j, i]
                inside[a * n + j, i] = A[a * n + j, i] - alpha * step
    for a in range(m):
        for b in range(a + 1):
            _dot(block, a * m + b, inside, a * n, inside, b * n, n, lanes)
            for i in range(lanes):
                block[a * m + b, i] += alpha * alpha * W[a * m + b, i]
    for a in range(m):
        for i in range(lanes):
            W[a, i] = 1.0 / math.sqrt(block[a * m + a, i]) if sphere else 1.0
    for a in range(m):
        for b in range(a + 1):
            for i in range(lanes):
                G[a * n + b, i] = block[a * m + b, i] * (W[a, i] * W[b, i])
                G[b * n + a, i] = G[a * n + b, i]
        for b in range(m, n):
            _dot(G, a * n + b, inside, a * n, A, b * n, n, lanes)
            for i in range(lanes):
                G[a * n + b, i] *= W[a, i]
                G[b * n + a, i] = G[a * n + b, i]


@njit(forceinline=True, **FLAGS)
def _dot(
    out: Array, to: int, x: Array, row: int, y: Array, column: int, n: int, lanes: int
) -> None:
    """Inner product of n rows of x and n rows of y."""
    for i in range(lanes):
        out[to, i] = x[row, i] * y[column, i]
    for j in range(1, n):
        for i in range(lanes):
            out[to, i] += x[row + j, i] * y[column + j, i]
