"""Transfer of a pretrained representation to a downstream label, and the condition number that
governs it.

notation: z = latent (p), T = target_map (p_t, p), a = label (p), kap = condition number, r = rank,
n = pretraining sequences, L = length,
          s = token_noise, s_t = target_noise, c = L/(L + s^2), f* = E[t | X] = T E[z | X].

A representation f^ is pretrained to predict a target t = T z + s_t e; a linear head on f^ then
serves the label y = <a, z>. (New here; the paper has a condition number and a transfer statement,
whose exact forms were not available.) If a = T'w* for some w*, of least norm, then

    inf_w E(<w, f^> - E[y|X])^2  <=  |w*|^2 E|f^ - f*|^2,   |w*| = kap |a|,
        kap <= 1/(smallest singular value of T on the label's
    span),

because w = w* is one choice. With unrestricted heads an invertible linear error of f^ costs
nothing: kap acts through a bottleneck.

Bottleneck. z ~ N(0, I_p), L tokens z + s N(0, I): the posterior mean x = E[z|X] ~ N(0, c I). T has
singular values (1, .., 1, 1/kap) on r directions, 0 elsewhere; pretraining is least squares of t on
x, cut to rank r by its singular value decomposition; the label lies on the weak direction. Least
squares gives T + N with Var N_ij = ((1-c) T_ii^2 + s_t^2)/(c n), and to first order the weak
direction tilts by kap N_rj towards each of the p - r empty directions j, so

    excess = c E|a - (projection of a on the rows kept)|^2  ~  (p - r) (s_t^2 kap^2 + 1 - c)/n.

First order in N: it needs the right side well below 1; at kap^2 s_t^2/n of order 1/(p - r) the weak
direction is lost and the excess saturates at c.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array

__all__ = ["bottleneck_law", "bottleneck_trials", "condition_number", "transfer_bound"]

# a label further than this (relative) from the rows of the target map cannot be read off it
SPAN_TOLERANCE = 1e-9


def condition_number(target_map: np.ndarray, label: np.ndarray) -> float:
    """kap = |w*|/|a|, w* the least-norm solution of T'w = a; infinity if the label is not in the
    span of the rows of T.

    Singular values of T below rounding of the largest count as 0.

    Args:
        target_map: T (p_t, p), from the latent to the pretraining target.
        label: a (p,), not zero: the label is <a, latent>.

    >>> round(condition_number(np.diag([1.0, 0.1]), [0.0, 1.0]), 12)
    10.0
    """
    of = "condition_number"
    T = check.array(target_map, "target_map", of, (None, None))
    a = check.array(label, "label", of, (T.shape[1],))
    size = float(np.linalg.norm(a))
    if size == 0:
        raise bad("label", of, "not zero", "a zero vector")
    w = np.linalg.lstsq(T.T, a, rcond=None)[0]
    return (
        float(np.linalg.norm(w)) / size
        if np.linalg.norm(T.T @ w - a) <= SPAN_TOLERANCE * size
        else float("inf")
    )


def transfer_bound(
    target_map: np.ndarray, label: np.ndarray, pretraining_excess: float
) -> float:
    """kap^2 |a|^2 E|f^ - f*|^2, a bound on the downstream excess of the best linear head.

    Infinity for a label out of the span of T, however small the pretraining excess.

    Args:
        target_map: T (p_t, p), from the latent to the pretraining target.
        label: a (p,), not zero: the label is <a, latent>.
        pretraining_excess: E|f^ - f*|^2 >= 0, what pretraining left.

    >>> import attnscope as at
    >>> import numpy as np
    >>> round(at.transfer_bound(np.diag([2.0, 1.0]), np.array([1.0, 1.0]), 0.01), 6)
    0.0125
    >>> at.transfer_bound(np.diag([2.0, 0.0]), np.array([1.0, 1.0]), 0.01)
    inf
    """
    error = check.real(pretraining_excess, "pretraining_excess", "transfer_bound", 0)
    kap = condition_number(target_map, label)
    return kap**2 * float(np.sum(np.square(label))) * error if np.isfinite(kap) else kap


def bottleneck_law(
    condition: ArrayLike,
    samples: ArrayLike,
    length: ArrayLike,
    dim: int = 12,
    rank: int = 3,
    target_noise: float = 0.3,
    token_noise: float = 1.0,
) -> np.ndarray:
    """(p - r)(s_t^2 kap^2 + 1 - c)/n; condition, samples and length broadcast.

    Args:
        condition, samples, length: kap >= 1, n and L; they broadcast.
        dim, rank: p >= 2 latent directions, of which the target shows r < p.
        target_noise: s_t >= 0, of the pretraining target.
        token_noise: s >= 0, of a token around the latent.

    >>> import attnscope as at
    >>> at.bottleneck_law(condition=[1.0, 4.0], samples=100, length=16).round(4)
    array([0.0134, 0.1349])
    """
    of = "bottleneck_law"
    p = check.integer(dim, "dim", of, 2)
    r = check.integer(rank, "rank", of, 1, p - 1)
    s2 = check.real(token_noise, "token_noise", of, 0) ** 2
    st2 = check.real(target_noise, "target_noise", of, 0) ** 2
    kap = _at_least_one(condition, "condition", of)
    n = _at_least_one(samples, "samples", of)
    L = _at_least_one(length, "length", of)
    return (p - r) * (st2 * np.square(kap) + s2 / (L + s2)) / n


def bottleneck_trials(
    condition: ArrayLike,
    samples: int,
    length: int,
    trials: int,
    dim: int = 12,
    rank: int = 3,
    target_noise: float = 0.3,
    token_noise: float = 1.0,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Pretrain `trials` times on fresh data: downstream excess and its bound, each (trials,
    conditions).

    Exact in law without drawing the data: z given x is N(x, (1-c) I), x = Q R sqrt(c) with the
    triangular R of Bartlett's decomposition (chi and normal entries), so least squares of z on x is
    I + sqrt(1-c) R^-1 G/sqrt(c) and that of e is R^-1 G'/sqrt(c), G and G' standard normal (p, p).
    `samples` may be astronomical.
    """
    of = "bottleneck_trials"
    p = check.integer(dim, "dim", of, 2)
    r = check.integer(rank, "rank", of, 1, dim - 1)
    n = check.integer(samples, "samples", of, p + 2)
    L = check.integer(length, "length", of, 1)
    m = check.integer(trials, "trials", of, 1)
    kaps = np.atleast_1d(_at_least_one(condition, "condition", of))
    kaps = check.array(kaps, "condition", of, (None,))
    target_noise = check.real(target_noise, "target_noise", of, 0)
    c = L / (L + check.real(token_noise, "token_noise", of, 0, strict=True) ** 2)
    rng = np.random.default_rng(check.seed_value(seed, of))
    R = np.triu(rng.standard_normal((m, p, p)), 1)
    R[:, range(p), range(p)] = np.sqrt(rng.chisquare(n - np.arange(p), size=(m, p)))
    noise = np.linalg.solve(R, rng.standard_normal((m, p, 2 * p))) / np.sqrt(c)
    # (m, targets, features)
    from_z, from_e = (x.transpose(0, 2, 1) for x in np.split(noise, 2, axis=2))
    out = [
        _rank_cut_errors(
            np.diag([1.0] * (r - 1) + [1 / kap] + [0.0] * (p - r)),
            from_z,
            target_noise * from_e,
            r,
            c,
        )
        for kap in kaps
    ]
    excess, bound = np.array(out).transpose(1, 2, 0)
    return excess, kaps**2 * bound


def _at_least_one(x: ArrayLike, what: str, of: str) -> np.ndarray:
    a = context_array(x, what, of, ())
    if a.size and a.min() < 1:
        raise bad(what, of, ">= 1", float(a.min()), f"{what}=1")
    return a


def _rank_cut_errors(
    T: np.ndarray, from_z: np.ndarray, from_e: np.ndarray, r: int, c: float
) -> tuple[np.ndarray, np.ndarray]:
    """Excess for the label e_r, and pretraining error E|f^ - f*|^2,
    of least squares cut to rank r; x has covariance c I.
    """
    u, sigma, v = np.linalg.svd(T + np.sqrt(1 - c) * T @ from_z + from_e)
    kept = (u[:, :, :r] * sigma[:, None, :r]) @ v[:, :r]
    return c * (1 - np.sum(v[:, :r, r - 1] ** 2, axis=1)), c * np.sum(
        (kept - T) ** 2, axis=(1, 2)
    )
