"""Posteriors of planted tasks from Bayes' rule alone: every latent is listed, every density
evaluated, in 60 digits.

notation: x = tokens (L, d) of one sequence, z = a latent, P(z) its prior, p(x | z) the density of
all tokens given z, Y(z) the label's conditional mean given x and z.

    P(z | x) = P(z) p(x | z)/sum_z' P(z') p(x | z'),      E[Y | x] = sum_z P(z | x) Y(z),
    Var(E[Y | x, z] | x) = sum_z P(z | x) (Y(z) - E[Y | x])^2.

Latents: the subset S of informative tokens (MultiLocation), the label and the marked subset
(SparseTokenClassification), the location (CorrelatedBackground, MaxLocation), an ordered tuple of
positions (MultiDirection), spike and location (SpikeMixture). Nothing is simplified: no likelihood
ratio, no cancellation of common factors, no recursion. Exact to 60 digits less what the exponents
cost: a log-density of 1e30 still leaves 30.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, permutations, product
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

__all__ = [
    "Inference",
    "correlated",
    "max_location",
    "multi_direction",
    "multi_location",
    "sparse_tokens",
    "spike_mixture",
]

# float64 inputs of size 1e8 give log-densities of size 1e24 or so: 36 digits are left
DIGITS = 60


class Inference(NamedTuple):
    """posterior: probabilities of what is asked (an array);
    mean and variance of the label without noise, given the tokens.
    """

    posterior: np.ndarray
    mean: float
    variance: float


class _Latent(NamedTuple):
    """One value of the latent: log P(z) + log p(x | z),
    which entries of the posterior it counts for, and Y(z).
    """

    log_joint: Any
    entries: Iterable[tuple[int, ...]]
    says: Any


def multi_location(
    x: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    gamma: float,
    signal: float,
    count_probs: np.ndarray,
    mean_weight: np.ndarray,
) -> Inference:
    """P(l in S | x) (L,); S uniform among the subsets of its size m ~ count_probs,
    E[D_l | m] = mean_weight[m] for l in S.
    """
    with mp.workdps(DIGITS):
        L = len(x)
        mean = [_mp(signal) * _mp(k) for k in key]
        inside = [_log_gauss(row, mean, _mp(gamma) ** 2) for row in x]
        outside = [_log_gauss(row, None, mp.mpf(1)) for row in x]
        said = [_dot(row, value) for row in x]
        latents = []
        for m in np.flatnonzero(count_probs):
            log_prior = mp.log(_mp(count_probs[m])) - mp.log(mp.binomial(L, int(m)))
            for S in combinations(range(L), int(m)):
                joint = log_prior + sum(inside[l] if l in S else outside[l] for l in range(L))
                says = _mp(mean_weight[m]) * sum((said[l] for l in S), mp.mpf(0))
                latents.append(_Latent(joint, [(l,) for l in S], says))
        return _infer(latents, (L,))


def sparse_tokens(
    x: np.ndarray, direction: np.ndarray, strength: float, marked: int
) -> tuple[float, Inference]:
    """(log-likelihood ratio of y = 1, Inference):
    posterior (1 + L,) is P(y = 1 | x) and then P(token l is marked | x).
    """
    with mp.workdps(DIGITS):
        L = len(x)
        mean = [_mp(strength) * _mp(k) for k in direction]
        inside = [_log_gauss(row, mean, mp.mpf(1)) for row in x]
        outside = [_log_gauss(row, None, mp.mpf(1)) for row in x]
        half = mp.log(mp.mpf(1) / 2)
        none = half + sum(outside)
        latents = [_Latent(none, [], mp.mpf(-1))]
        for S in combinations(range(L), marked):
            joint = half - mp.log(mp.binomial(L, marked))
            joint += sum(inside[l] if l in S else outside[l] for l in range(L))
            latents.append(_Latent(joint, [(0,), *((1 + l,) for l in S)], mp.mpf(1)))
        ratio = _log_sum([z.log_joint for z in latents[1:]]) - none
        return float(ratio), _infer(latents, (1 + L,))


def max_location(
    x: np.ndarray, key: np.ndarray, value: np.ndarray, strength: float
) -> Inference:
    """P(J = l | x) ~ e^{strength x_l.key} (L,), which is the definition of the task."""
    with mp.workdps(DIGITS):
        latents = [
            _Latent(_mp(strength) * _dot(row, key), [(l,)], _dot(row, value))
            for l, row in enumerate(x)
        ]
        return _infer(latents, (len(x),))


def correlated(
    x: np.ndarray,
    background: tuple[np.ndarray, np.ndarray, float | None],
    informative: tuple[np.ndarray, np.ndarray],
    value: np.ndarray,
    location_probs: np.ndarray,
) -> tuple[np.ndarray, Inference]:
    """(log-likelihood ratios (L,), P(J = l | x) (L,)).

    background = (mean, covariance, degrees of freedom or None), informative = (mean, covariance).
    """
    with mp.workdps(DIGITS):
        mean0, cov0, freedom = background
        mean1, cov1 = informative
        away0 = _Quadratic(mean0, cov0)
        away1 = _Quadratic(mean1, cov1)
        d = len(value)
        q0 = [away0(row) for row in x]
        outside = [_log_student(q, d, freedom) - away0.half_log_det for q in q0]
        inside = [
            -away1(row) / 2 - d * mp.log(2 * mp.pi) / 2 - away1.half_log_det for row in x
        ]
        latents = []
        for l in np.flatnonzero(location_probs):
            joint = mp.log(_mp(location_probs[l])) + inside[l] + sum(outside) - outside[l]
            latents.append(_Latent(joint, [(int(l),)], _dot(x[l], value)))
        ratios = np.array([float(a - b) for a, b in zip(inside, outside, strict=True)])
        return ratios, _infer(latents, (len(x),))


def multi_direction(
    x: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    gamma: float,
    signal: float,
    distinct: bool,
) -> Inference:
    """P(J_f = l | x) (F, L): all ordered choices of positions,
    which may coincide unless `distinct`.
    """
    with mp.workdps(DIGITS):
        L = len(x)
        F = len(keys)
        outside = [_log_gauss(row, None, mp.mpf(1)) for row in x]
        said = [[_dot(row, v) for row in x] for v in values]
        inside: dict[tuple[int, tuple[int, ...]], Any] = {}
        choices = permutations(range(L), F) if distinct else product(range(L), repeat=F)
        latents = []
        for J in choices:
            joint = mp.mpf(0)
            for l in range(L):
                here = tuple(f for f in range(F) if J[f] == l)
                if (l, here) not in inside:
                    mean = [
                        _mp(signal) * sum((_mp(keys[f][i]) for f in here), mp.mpf(0))
                        for i in range(x.shape[1])
                    ]
                    inside[l, here] = (
                        _log_gauss(x[l], mean, _mp(gamma) ** 2) if here else outside[l]
                    )
                joint += inside[l, here]
            latents.append(
                _Latent(joint, list(enumerate(J)), sum(said[f][J[f]] for f in range(F)))
            )
        return _infer(latents, (F, L))


def spike_mixture(
    x: np.ndarray, means: np.ndarray, outputs: np.ndarray, prior: np.ndarray, gamma: float
) -> Inference:
    """P(h, J = l | x) (H, L)."""
    with mp.workdps(DIGITS):
        L = len(x)
        H = len(means)
        outside = [_log_gauss(row, None, mp.mpf(1)) for row in x]
        background = sum(outside)
        latents = []
        for h, l in product(range(H), range(L)):
            inside = _log_gauss(x[l], [_mp(m) for m in means[h]], _mp(gamma) ** 2)
            joint = mp.log(_mp(prior[h])) + background - outside[l] + inside
            latents.append(_Latent(joint, [(h, l)], _dot(x[l], outputs[h])))
        return _infer(latents, (H, L))


# -- Bayes' rule -----------------------------------------------------------------------------------


def _infer(latents: list[_Latent], shape: tuple[int, ...]) -> Inference:
    total = _log_sum([z.log_joint for z in latents])
    weights = [mp.exp(z.log_joint - total) for z in latents]
    mean = sum(w * z.says for w, z in zip(weights, latents, strict=True))
    variance = sum(w * (z.says - mean) ** 2 for w, z in zip(weights, latents, strict=True))
    posterior: dict[tuple[int, ...], Any] = {}
    for w, z in zip(weights, latents, strict=True):
        for entry in z.entries:
            posterior[entry] = posterior.get(entry, mp.mpf(0)) + w
    out = np.zeros(shape)
    for entry, w in posterior.items():
        out[entry] = float(w)
    return Inference(out, float(mean), float(variance))


def _log_sum(logs: list[Any]) -> Any:
    top = max(logs)
    return top + mp.log(sum(mp.exp(x - top) for x in logs))


# -- densities -------------------------------------------------------------------------------------


def _mp(x: Any) -> Any:
    return mp.mpf(float(x))


def _dot(row: np.ndarray, vector: np.ndarray) -> Any:
    return mp.fdot((_mp(a), _mp(b)) for a, b in zip(row, vector, strict=True))


def _log_gauss(row: np.ndarray, mean: list[Any] | None, variance: Any) -> Any:
    """log density of N(mean, variance I) at a token."""
    parts = [_mp(a) for a in row]
    if mean is not None:
        parts = [a - m for a, m in zip(parts, mean, strict=True)]
    return (
        -mp.fdot(parts, parts) / (2 * variance)
        - len(parts) * mp.log(2 * mp.pi * variance) / 2
    )


class _Quadratic:
    """(x - mean)^T covariance^{-1} (x - mean), and half of log det covariance."""

    def __init__(self, mean: np.ndarray, covariance: np.ndarray) -> None:
        matrix = mp.matrix(covariance.tolist())
        self.inverse = matrix**-1
        self.half_log_det = mp.log(mp.det(matrix)) / 2
        self.mean = [_mp(m) for m in mean]

    def __call__(self, row: np.ndarray) -> Any:
        away = mp.matrix([_mp(a) - m for a, m in zip(row, self.mean, strict=True)])
        return (away.T * self.inverse * away)[0]


def _log_student(q: Any, d: int, freedom: float | None) -> Any:
    """log density at squared distance q in units of the covariance, without -log det/2:
    normal, or Student t of covariance 1.
    """
    if freedom is None:
        return -q / 2 - d * mp.log(2 * mp.pi) / 2
    n = _mp(freedom)
    constant = mp.loggamma((n + d) / 2) - mp.loggamma(n / 2) - d * mp.log((n - 2) * mp.pi) / 2
    return constant - (n + d) / 2 * mp.log(1 + q / (n - 2))
