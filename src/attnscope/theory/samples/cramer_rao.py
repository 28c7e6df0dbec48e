"""The Cramér-Rao limit of single-location regression: the regret no well-behaved estimator beats as
the number of bags n grows.

notation: mu = s k*, g = gam^2, e = eps^2, z_l = x_l.v + b, l(x) the token's log-likelihood ratio,
p_l ~ pi_l exp(l(x_l)) the posterior of the location given the tokens, r_l ~ p_l N(y; z_l, e) given
the label too, f = sum_l p_l z_l the Bayes predictor.

An efficient estimator of the parameters theta has E (f_hat - f)^2 = tr(I^-1 G)/n + o(1/n), I the
Fisher information of one bag and G = E[grad f grad f^T]. Unknown are mu, g, v, e; with `intercept`
also b (true value 0); with `background` also the mean m0 and covariance S of the background tokens
(true values 0, I; the informative token has covariance g S). Position probabilities are known.

Let D_l = grad log [pi_l e^{l(x_l)} N(y; z_l, e)], what the complete-data score gains if token l is
the informative one. Then (Louis 1982)

    I = I_c - E Cov_r(D),       I_c the information with the location known, in closed form,
    grad f = a + h,  a = sum_l p_l grad z_l,  h = sum_l p_l (z_l - f) grad l(x_l),
        E a a^T = E grad z_J grad z_J^T - E Cov_p(grad z).

Only what the unknown location costs is sampled; it vanishes as the signal grows, and there tr(I^-1
G)/n -> e d/n (e (d+1)/n with intercept), the error of least squares on the informative tokens.

Rotations that fix k* and v* leave I and G invariant, so both fall into blocks (m = d - 2): one for
what they leave fixed (components along k* and v*, scalars), one repeated m times (vector components
across), with `background` one number repeated m(m+1)/2 - 1 times (the traceless part of S across).
r and p depend on a token's part across only through its squared length R ~ chi^2_m, and its
direction is uniform:

    E[x_j^2 | R] = R/m,   E[x_j^2 x_k^2 | R] = R^2/(m(m+2)),   different tokens independent,

so a sample is three numbers per token whatever d, and the directions are averaged exactly.

    tr(I^-1 G) = tr(I_0^-1 G_0) + m tr(I_1^-1 G_1) + (m(m+1)/2 - 1) G_2/I_2.

The expectations are Monte Carlo means over batches; the value is their jackknife (the bias of I^-1
is removed), the error its standard error.

References: Louis, JRSS B 44 (1982) 226; van der Vaart, Asymptotic Statistics (1998), chapters 7-8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from attnscope.errors import AttnscopeError, bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.tasks.base import checked_law
from attnscope.tasks.planted.single_location import SingleLocation

__all__ = ["cramer_rao"]

JACKKNIFE_BATCHES = 32  # the standard error is then known to 13 %
ENTRIES_PER_CHUNK = 1 << 21  # of the largest array: 16 MB
# smallest eigenvalue of a block of I, scaled to unit diagonal: below, rounding and sampling decide
# the inverse
SMALLEST_SCALED_EIGENVALUE = 1e-10


class Tokens(NamedTuple):
    """Samples (N, L): components along e1 = k* and e2, squared length across, posterior p,
    responsibilities r, values z, residuals y - z.
    """

    u: np.ndarray
    w: np.ndarray
    R: np.ndarray
    p: np.ndarray
    r: np.ndarray
    z: np.ndarray
    res: np.ndarray


class Blocks(NamedTuple):
    """The fixed block (q, q), one of the m vector blocks (q', q'), the tensor number (1, 1)."""

    fixed: np.ndarray
    vector: np.ndarray
    tensor: np.ndarray


def cramer_rao(
    task: SingleLocation,
    n: int,
    intercept: bool = False,
    background: bool = False,
    samples: int = 64_000,
    seed: int = 0,
) -> Estimate:
    """Least regret (excess risk over Bayes) from n bags, tr(I^-1 G)/n, with its Monte Carlo
    standard error.

    Args:
        task: the single-location task; its noise must be > 0 (without noise the value is learnt
            faster than 1/n).
        n: number of bags. The bound is asymptotic: for n near dim the regret is larger (location
            known: about e d/(n - d - 1)).
        intercept, background: whether the intercept, and the background's mean and covariance, are
            unknown as well (as they are to SingleLocationRegressor).
        samples: Monte Carlo bags, >= 3200.
        seed: of those bags.

    >>> from attnscope.tasks.planted.single_location import SingleLocation
    >>> limit = cramer_rao(SingleLocation(dim=50, length=10, noise=0.3, signal=5.0), n=1000)
    >>> round(limit.value, 6), limit.error < 1e-6
    (0.0045, True)
    """
    of = "cramer_rao"
    checked_law(task, SingleLocation, of, "SingleLocation(dim=50, length=10, noise=0.3)")
    if task.noise == 0:
        raise bad(
            "task", of, "one with noise > 0", "noise 0", "SingleLocation(..., noise=0.1)"
        )
    n = check.integer(n, "n", of, 1)
    samples = check.integer(samples, "samples", of, 100 * JACKKNIFE_BATCHES)
    rng = np.random.default_rng([check.seed_value(seed, of), 20])
    lost, gained = _batch_averages(task, bool(intercept), bool(background), samples, rng)
    known, read = (
        complete_information(task, intercept, background),
        complete_gradient(task, intercept, background),
    )

    def total(use: np.ndarray) -> float:
        information = Blocks(*(c - x[use].mean(axis=0) for c, x in zip(known, lost)))
        return _information_trace(
            task.dim,
            information,
            Blocks(*(c + x[use].mean(axis=0) for c, x in zip(read, gained))),
        )

    value, error = _jackknife(total)
    return estimate(value / n, error / n, f"tr(I^-1 G)/n, Monte Carlo with {samples} bags")


# -- what is known in closed form ------------------------------------------------------------------
# order of parameters: fixed  mu1 mu2 g v1 v2 e | b | m1 m2 S11 S22 S12 Sacross;   vector  mu v | m
# S1 S2;   tensor  S


def complete_information(task: SingleLocation, intercept: bool, background: bool) -> Blocks:
    """I_c: Gaussian means and covariances, and least squares on the deciding token."""
    d = task.dim
    L = task.length
    s = task.signal
    g = task.gamma**2
    e = task.noise**2
    m = d - 2
    learnt = [1 / g, 1 / g, d / (2 * g * g), (g + s * s) / e, g / e, 1 / (2 * e * e), 1 / e]
    fixed = np.diag([*learnt, L - 1, L - 1, L / 2, L / 2, L, max(m, 1) * L / 2])
    fixed[3, 6] = fixed[6, 3] = s / e
    shared = np.array([1, 1, m]) / (2 * g)  # g and S make up the deciding token's covariance
    fixed[2, [9, 10, 12]] = fixed[[9, 10, 12], 2] = shared
    vector = np.diag([1 / g, g / e, L - 1, L, L])
    return _unknown_blocks(
        Blocks(fixed, vector, np.array([[float(L)]])), m, intercept, background
    )


def complete_gradient(task: SingleLocation, intercept: bool, background: bool) -> Blocks:
    """E grad z_J grad z_J^T: second moments of (x_J, 1)."""
    s = task.signal
    g = task.gamma**2
    fixed = np.zeros((13, 13))
    vector = np.zeros((5, 5))
    fixed[3, 3], fixed[4, 4], fixed[6, 6], vector[1, 1] = g + s * s, g, 1, g
    fixed[3, 6] = fixed[6, 3] = s
    return _unknown_blocks(
        Blocks(fixed, vector, np.zeros((1, 1))), task.dim - 2, intercept, background
    )


def _unknown_blocks(blocks: Blocks, m: int, intercept: bool, background: bool) -> Blocks:
    """Only the rows and columns of parameters that are unknown (in dimension 2 there is nothing
    across).
    """
    fixed = (
        [0, 1, 2, 3, 4, 5]
        + [6] * intercept
        + ([7, 8, 9, 10, 11] + [12] * (m > 0)) * background
    )
    vector = [0, 1] + [2, 3, 4] * background
    return Blocks(
        blocks.fixed[..., fixed, :][..., fixed],
        blocks.vector[..., vector, :][..., vector],
        blocks.tensor * background,
    )


# -- what is sampled -------------------------------------------------------------------------------


def _batch_averages(
    task: SingleLocation,
    intercept: bool,
    background: bool,
    samples: int,
    rng: np.random.Generator,
) -> tuple[Blocks, Blocks]:
    """Means over each of JACKKNIFE_BATCHES batches of Cov_r(D),
    and of grad f grad f^T minus its closed part; leading axis JACKKNIFE_BATCHES.
    """
    chunk = max(1, ENTRIES_PER_CHUNK // (13 * task.length))
    size = -(-samples // JACKKNIFE_BATCHES)
    found = []
    for _ in range(JACKKNIFE_BATCHES):
        parts = [min(chunk, size - i) for i in range(0, size, chunk)]
        sums = [_sampled_sums(task, draw(task, k, rng), intercept, background) for k in parts]
        found.append([[sum(block) / size for block in zip(*side)] for side in zip(*sums)])
    lost, gained = (
        [np.array([batch[i][j] for batch in found]) for j in range(3)] for i in range(2)
    )
    return Blocks(*lost), Blocks(*gained)


def draw(task: SingleLocation, size: int, rng: np.random.Generator) -> Tokens:
    """Bags in the coordinates that matter."""
    d = task.dim
    L = task.length
    s = task.signal
    g = task.gamma**2
    e = task.noise**2
    c = task.alignment
    m = d - 2
    pi = (
        task.location_probs
        if task.location_probs is not None
        else np.full(task.length, 1 / task.length)
    )
    J = rng.choice(L, size, p=pi)
    rows = np.arange(size)
    u, w = rng.standard_normal((2, size, L))
    R = rng.chisquare(m, (size, L)) if m else np.zeros((size, L))
    u[rows, J], w[rows, J], R[rows, J] = (
        s + task.gamma * u[rows, J],
        task.gamma * w[rows, J],
        g * R[rows, J],
    )
    # e2 completes k* so that v* = c e1 + sqrt(1 - c^2) e2
    z = c * u + math.sqrt(max(1 - c * c, 0)) * w
    y = z[rows, J] + task.noise * rng.standard_normal(size)
    with np.errstate(divide="ignore"):
        score = np.log(pi) + s * u / g - (1 / g - 1) / 2 * (u * u + w * w + R)
    res = y[:, None] - z
    return Tokens(
        u, w, R, softmax(score, axis=1), softmax(score - res**2 / (2 * e), axis=1), z, res
    )


def _sampled_sums(
    task: SingleLocation, t: Tokens, intercept: bool, background: bool
) -> tuple[Blocks, Blocks]:
    """Sums over bags of Cov_r(D) and of grad f grad f^T - (its closed part), block by block."""
    m = task.dim - 2
    f = (t.p * t.z).sum(axis=1, keepdims=True)
    slope = t.p * (t.z - f)  # (N, L): h = sum_l slope_l grad l(x_l)
    # (N, L, q), coefficients of x_j (N, L, q'), of x_j x_k: a number
    fixed, vector, tensor = token_gradients(task, t)
    label = label_gradients(t)  # grad z: (N, L, 13), (N, L, 5)
    noisy = [g + x for g, x in zip((fixed, vector), residual_gradients(task, t, *label))]
    a = np.einsum("nl,nlq->nq", t.p, label[0])
    h = np.einsum("nl,nlq->nq", slope, fixed)
    cross = a.T @ h
    across = t.R / max(m, 1)  # E[x_j^2 | R]
    twice = t.R**2 / max(m * (m + 2), 1)
    B = label[1] * t.p[..., None]
    H = vector * slope[..., None]
    mixed = np.einsum("nl,nlq,nlk->qk", across, B, H)
    lost = Blocks(
        _posterior_covariance_sum(t.r, noisy[0]),
        np.einsum("nl,nlq,nlk->qk", across * t.r * (1 - t.r), noisy[1], noisy[1]),
        np.array([[tensor**2 * np.sum(twice * t.r * (1 - t.r))]]),
    )
    gained = Blocks(
        h.T @ h + cross + cross.T - _posterior_covariance_sum(t.p, label[0]),
        np.einsum("nl,nlq,nlk->qk", across, H, H)
        + mixed
        + mixed.T
        - np.einsum("nl,nlq,nlk->qk", across * t.p * (1 - t.p), label[1], label[1]),
        np.array([[tensor**2 * np.sum(twice * slope**2)]]),
    )
    return _unknown_blocks(lost, m, intercept, background), _unknown_blocks(
        gained, m, intercept, background
    )


def token_gradients(task: SingleLocation, t: Tokens) -> tuple[np.ndarray, np.ndarray, float]:
    """grad l(x): along k*, v* and scalars (N, L, 13); coefficients of x_j (N, L, 5);
    the coefficient of x_j x_k.
    """
    d = task.dim
    s = task.signal
    g = task.gamma**2
    u = t.u
    w = t.w
    o = np.zeros_like(t.u)
    one = np.ones_like(t.u)
    k = u - s
    fixed = [k / g, w / g, ((k * k + w * w + t.R) / g - d) / (2 * g), o, o, o, o, -u, -w]
    fixed += [
        (k * k / g - u * u) / 2,
        (1 / g - 1) * w * w / 2,
        (k / g - u) * w,
        (1 / g - 1) * t.R / 2,
    ]
    vector = [one / g, o, -one, k / g - u, (1 / g - 1) * w]
    return np.stack(fixed, axis=-1), np.stack(vector, axis=-1), 1 / g - 1


def label_gradients(t: Tokens) -> tuple[np.ndarray, np.ndarray]:
    """grad z = grad (x.v + b)."""
    fixed = np.zeros((*t.u.shape, 13))
    vector = np.zeros((*t.u.shape, 5))
    fixed[..., 3], fixed[..., 4], fixed[..., 6], vector[..., 1] = t.u, t.w, 1, 1
    return fixed, vector


def residual_gradients(
    task: SingleLocation, t: Tokens, fixed: np.ndarray, vector: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """grad log N(y; z, e) from grad z."""
    e = task.noise**2
    res = t.res[..., None] / e
    fixed = fixed * res
    vector = vector * res
    fixed[..., 5] = (t.res**2 / e - 1) / (2 * e)
    return fixed, vector


def _posterior_covariance_sum(weight: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Sum over bags of the covariance of x (N, L, q) under the weights (N, L)."""
    centred = x - np.einsum("nl,nlq->nq", weight, x)[:, None]
    return np.einsum("nl,nlq,nlk->qk", weight, centred, centred)


# -- assembling ------------------------------------------------------------------------------------


def _information_trace(dim: int, information: Blocks, gradient: Blocks) -> float:
    """tr(I^-1 G) over all copies of the blocks."""
    m = dim - 2
    counts = (1, m, m * (m + 1) // 2 - 1)
    return sum(
        c * _block_trace(I, G)
        for c, I, G in zip(counts, information, gradient)
        if c > 0 and I.any()
    )


def _block_trace(I: np.ndarray, G: np.ndarray) -> float:
    """tr(I^-1 G) in units in which I has ones on its diagonal."""
    scale = np.sqrt(np.maximum(np.diag(I), 1e-300))
    units = np.outer(scale, scale)
    if np.diag(I).min() <= 0 or np.linalg.eigvalsh(I / units)[0] < SMALLEST_SCALED_EIGENVALUE:
        raise AttnscopeError(
            "the Fisher information of cramer_rao must be positive definite, got a singular one: "
            "in this task the unknowns cannot be distinguished; try a larger signal, more samples, or "
            "background=False."
        )
    return float(np.trace(np.linalg.solve(I / units, G / units)))


def _jackknife(statistic: Callable[[np.ndarray], float]) -> tuple[float, float]:
    """Bias-corrected value and standard error of a function of which batches are used."""
    everyone = np.arange(JACKKNIFE_BATCHES)
    without = np.array([statistic(everyone != i) for i in everyone])
    value = JACKKNIFE_BATCHES * statistic(everyone) - (JACKKNIFE_BATCHES - 1) * without.mean()
    return float(value), float(np.sqrt((JACKKNIFE_BATCHES - 1) * without.var()))
