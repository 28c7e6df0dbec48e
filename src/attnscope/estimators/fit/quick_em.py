"""A few cheap EM steps from every start, with all tokens whitened once.

notation: z = tokens whitened by their covariance (mean 0, covariance I over all tokens), q =
bags/tokens, the share of deciding tokens. If background is N(m0, S0) and the deciding token N(m0 +
delta, gam^2 S0), then over all tokens

    m0 = -q delta,      I = (1-q) S0 + q gam^2 S0 + q (1-q) delta delta^T,      hence
    S0^-1 = a (I + beta delta delta^T),   a = 1 - q + q gam^2,
        beta = q (1-q)/(1 - q (1-q) |delta|^2):

the background's precision is known from delta and gam^2, and scores need only |z|^2 (once) and
z.delta:

    (z - c delta)^T S0^-1 (z - c delta) = a [ |z|^2 - 2 c t + c^2 D + beta (t - c D)^2 ],
        t = z.delta, D = |delta|^2.

A step costs O(N d) and the ridge of V, instead of a new covariance, factor and whitening per start
and step (em.py). It is not exact EM: the deciding tokens' own covariance is taken to be gam^2 S0.
Good enough to tell basins apart, where em.py goes on (`screen_starts`); and all there is to learn
where bags are so few that the deciding tokens have no covariance of their own to show (`run_tied`).
Student-t tokens: the covariance of all tokens is the t scatter, tokens are weighted as in em.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.data import Data, label_log_density
from attnscope.estimators.fit.em import (
    SPREADS,
    Em,
    TokenModel,
    logistic,
    scores,
    token_gram,
    whitening,
)
from attnscope.estimators.fit.ridge import Values, gram, moments, row_ridge
from attnscope.numerics.compiled.data_pass import GAUSSIAN, bag_softmax

__all__ = ["run_tied", "screen_starts"]

KEPT = (
    # responsibilities below this are left out of the ridge: at most a per cent of a bag's weight,
    # and most tokens
    1e-3
)
# starts whose responsibilities differ by less than this (mean total variation) are one
ALIKE = 0.01
SCATTER_STEPS = (
    # fixed-point steps of the t scatter, each contracting by about d/(nu + d) or better from the
    # covariance
    10
)
# mean total variation of the responsibilities below which steps end: it changes a prediction by as
# little
STILL = 1e-4
# largest q (1-q) |delta|^2: it is below 1 for a true covariance, shrinkage may let it exceed
BETWEEN = 0.99


class White(NamedTuple):
    """Tokens whitened together: z (N, d), |z|^2, their mean and W in the data's coordinates, q,
    nu, weights of tokens (N,).
    """

    z: np.ndarray
    square: np.ndarray
    mean: np.ndarray
    whiten: np.ndarray
    share: float
    dof: float
    weight: np.ndarray


class Tied(NamedTuple):
    """delta (d,) in z, gam^2, values."""

    delta: np.ndarray
    spread: float
    values: Values


def screen_starts(
    starts: dict[str, Em], data: Data, quadratic: bool, steps: int, ridge: float | None
) -> dict[str, Em]:
    """Each start after `steps` steps; starts that agree half-way share one result (the same
    object).
    """
    dof = next(iter(starts.values())).tokens.dof
    white = whiten_all(data, dof)
    half = steps // 2
    out: dict[str, Em] = {}
    kept: dict[str, np.ndarray] = {}
    for name, em in starts.items():
        r = _first_responsibilities(em, white, data)
        state, r = _run(
            Tied(em.tokens.key, 1.0, em.values), r, white, data, quadratic, half, ridge
        )
        twin = next(
            (other for other, s in kept.items() if _distance(r, s, data) < ALIKE), None
        )
        if twin is None:
            kept[name] = r
            state, r = _run(state, r, white, data, quadratic, steps - half, ridge)
            out[name] = Em(token_model(state, white), state.values)
        else:
            out[name] = out[twin]
    return out


def run_tied(em: Em, data: Data, quadratic: bool, steps: int, ridge: float | None) -> Em:
    """At most `steps` steps from `em`, until the responsibilities stand still."""
    white = whiten_all(data, em.tokens.dof)
    r = _given_label(scores(em.tokens, data.tokens), em.values, data)
    state = Tied(em.tokens.key, em.tokens.spread, em.values)
    for _ in range(0, steps, 2):
        last = r
        state, r = _run(state, r, white, data, quadratic, 2, ridge)
        if _distance(r, last, data) < STILL:
            break
    return Em(token_model(state, white), state.values)


def whiten_all(data: Data, dof: float) -> White:
    x = data.tokens
    weight = data.per_token(data.weight)
    total, mean, covariance = moments(token_gram(data))
    whiten = whitening(covariance, total)
    d = x.shape[1]
    for _ in range(SCATTER_STEPS if np.isfinite(dof) else 0):
        far = (((x - mean) @ whiten) ** 2).sum(axis=1)
        weighted, mean, covariance = moments(gram(x, weight * (dof + d) / (dof + far)))
        whiten = whitening(covariance * (weighted / total), total)
    z = x @ whiten - mean @ whiten
    return White(
        z, np.einsum("ij,ij->i", z, z), mean, whiten, data.weight.sum() / total, dof, weight
    )


def _first_responsibilities(em: Em, white: White, data: Data) -> np.ndarray:
    """Scores z.key: equal covariances, whose quadratic terms cancel."""
    return _given_label(white.z @ em.tokens.key, em.values, data)


def _given_label(scores: np.ndarray, values: Values, data: Data) -> np.ndarray:
    w = data.tokens @ values.weights + values.bias
    return bag_softmax(
        scores
        + label_log_density(data.per_token(data.labels), w, data.family, values.variance),
        data.offsets,
    )


def _run(
    state: Tied,
    r: np.ndarray,
    white: White,
    data: Data,
    quadratic: bool,
    steps: int,
    ridge: float | None,
) -> tuple[Tied, np.ndarray]:
    near = np.ones(1)
    for _ in range(steps):
        weight = r * white.weight
        state = Tied(
            *_token_step(weight, near, white, quadratic),
            _value_step(weight, r, state.values, data, ridge),
        )
        u, near = tied_scores(state, white)
        r = _given_label(u, state.values, data)
    return state, r


def _token_step(
    weight: np.ndarray, near: np.ndarray, white: White, quadratic: bool
) -> tuple[np.ndarray, float]:
    """delta and gam^2 from responsibilities times bag weights;
    `near` are the weights of a t (1 for Gaussian tokens).
    """
    total = weight.sum()
    d = white.z.shape[1]
    q = white.share
    pull = weight * near
    # q = 1: bags of one token, where z sums to zero
    delta = (pull @ white.z) / pull.sum() / max(1 - q, 1e-12)
    delta *= min(1.0, np.sqrt(BETWEEN / max(q * (1 - q) * float(delta @ delta), 1e-300)))
    if not quadratic:
        return delta, 1.0
    # gam^2/a
    ratio = float(pull @ _quadratic_form(white.z @ delta, delta, 1 - q, white)) / (total * d)
    spread = (1 - q) * ratio / max(1 - q * ratio, 1e-3)
    return delta, float(np.clip(spread, *SPREADS))


def _quadratic_form(t: np.ndarray, delta: np.ndarray, c: float, white: White) -> np.ndarray:
    """(z - c delta)^T S0^-1 (z - c delta)/a."""
    size = float(delta @ delta)
    q = white.share
    beta = q * (1 - q) / (1 - q * (1 - q) * size)
    return np.maximum(white.square - 2 * c * t + c * c * size + beta * (t - c * size) ** 2, 0)


def tied_scores(state: Tied, white: White) -> tuple[np.ndarray, np.ndarray]:
    """l(x) (N,) and the t weights of the deciding token (N,), or (1,) ones for Gaussian tokens."""
    d = white.z.shape[1]
    q = white.share
    nu = white.dof
    a = 1 - q + q * state.spread
    t = white.z @ state.delta
    near = a / state.spread * _quadratic_form(t, state.delta, 1 - q, white)
    far = a * _quadratic_form(t, state.delta, -q, white)
    constant = -d / 2 * np.log(state.spread)
    if np.isinf(nu):
        return constant + (far - near) / 2, np.ones(1)
    return constant - (nu + d) / 2 * (np.log1p(near / nu) - np.log1p(far / nu)), (nu + d) / (
        nu + near
    )


def _value_step(
    weight: np.ndarray, r: np.ndarray, old: Values, data: Data, ridge: float | None
) -> Values:
    if data.family != GAUSSIAN:
        return logistic(data, r, old)
    kept = weight > KEPT
    return row_ridge(
        data.tokens[kept], data.per_token(data.labels)[kept], weight[kept], ridge
    )


def token_model(state: Tied, white: White) -> TokenModel:
    """The same background and deciding token in the data's coordinates:
    W0 = W sqrt(a) (I + eta delta delta^T).
    """
    delta = state.delta
    q = white.share
    size = float(delta @ delta)
    beta = q * (1 - q) / (1 - q * (1 - q) * size)
    a = np.sqrt(1 - q + q * state.spread)
    eta = beta / (np.sqrt(1 + beta * size) + 1)  # (sqrt(1 + beta D) - 1)/D
    whiten = a * (white.whiten + eta * np.outer(white.whiten @ delta, delta))
    mean = white.mean - q * np.linalg.solve(white.whiten.T, delta)
    return TokenModel(mean, whiten, a * (1 + eta * size) * delta, state.spread, white.dof)


def _distance(r: np.ndarray, s: np.ndarray, data: Data) -> float:
    return float(np.abs(r - s).sum()) / (2 * data.size)
