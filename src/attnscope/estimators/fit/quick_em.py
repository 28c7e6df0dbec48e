"""A few cheap EM steps from every start, with all tokens whitened once.

notation: z = tokens whitened by their shrunk covariance (mean 0 over all tokens), q = bags/tokens,
the share of deciding tokens; D = |delta|^2, u = delta/sqrt D, T = variance of z.u over all tokens.
If background is N(m0, S0) and the deciding token N(m0 + delta, gam^2 S0), then over all tokens

    m0 = -q delta,      Cov z = (1-q) S0 + q gam^2 S0 + q (1-q) delta delta^T,

and with Cov z = I + (T-1) u u^T. T = 1 without shrinkage; with few tokens shrinkage leaves the
variance of a strong key in z, T = 2 and more. A measured T below 1 is set to 1, because delta was
chosen on the same tokens. While starts are compared T is 1, because the variance along a wrong
delta does not come from the key. Then

    S0^-1 = a (I + beta delta delta^T),   a = 1 - q + q gam^2,
        beta = (1/rho - 1)/D,   rho = T - q (1-q) D, the variance along u within the two kinds:

so delta and gam^2 determine the background's precision, and scores need only |z|^2 (once) and
z.delta:

    (z - c delta)^T S0^-1 (z - c delta) = a [ |z|^2 - 2 c t + c^2 D + beta (t - c D)^2 ],
        t = z.delta.

`run_tied` also shrinks the background's mean towards the caller's zero as in em.py: m0 = -q delta
of the unshrunk delta, then delta is measured from the new m0. All tokens are then centred at
s = m0 + q delta instead of 0, and z - s replaces z above.

A step costs O(N d) and the ridge of V, instead of a new covariance, factor and whitening per start
and step (em.py). It is not exact EM: the covariance of the deciding tokens is assumed to be
gam^2 S0. This is good enough to distinguish basins before em.py continues (`screen_starts`). With
so few bags that the deciding tokens' own covariance cannot be estimated, it is the whole fit
(`run_tied`). Student-t tokens: the covariance of all tokens is the t scatter, and tokens are
weighted as in em.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.estimators.fit.data import Data, label_log_density
from attnscope.estimators.fit.em import (
    SPREAD_RANGE,
    Em,
    TokenModel,
    logistic,
    scores,
    shrunk_mean,
    token_gram,
    whitening,
)
from attnscope.estimators.fit.ridge import Values, gram, moments, row_ridge
from attnscope.numerics.compiled.data_pass import GAUSSIAN, bag_softmax

__all__ = ["posterior_responsibilities", "run_tied", "screen_starts", "value_step"]

# responsibilities below this do not enter the ridge: most tokens, but at most a per cent of a
# bag's weight
MIN_RIDGE_RESPONSIBILITY = 1e-3
# mean total variation of responsibilities below which two starts are the same
SAME_START_DISTANCE = 0.01
# fixed-point steps of the t scatter, each contracting by about d/(nu + d) or better from the
# covariance
SCATTER_STEPS = 10
# mean total variation of the responsibilities below which steps end: predictions change by as
# little
RESPONSIBILITY_STOP_DISTANCE = 1e-4
# smallest rho: it is positive for exact weighted means, but may vanish with a shrunk m0 or T = 1
MIN_VARIANCE_WITHIN = 0.01


class White(NamedTuple):
    """Tokens whitened together: z (N, d), |z|^2, their mean and W in the data's coordinates, q,
    nu, weights of tokens (N,), those of their scatter (a t's; else the same), the caller's zero in
    z (None: unknown), whether T is measured.
    """

    z: np.ndarray
    square: np.ndarray
    mean: np.ndarray
    whiten: np.ndarray
    share: float
    dof: float
    weight: np.ndarray
    scatter: np.ndarray
    origin: np.ndarray | None
    measured: bool


class Tied(NamedTuple):
    """delta (d,) in z, gam^2, s (d,), beta, values."""

    delta: np.ndarray
    spread: float
    middle: np.ndarray
    beta: float
    values: Values


def screen_starts(
    starts: dict[str, Em], data: Data, quadratic: bool, steps: int, ridge: float | None
) -> dict[str, Em]:
    """Each start after `steps` steps. Starts that agree half-way share one result (the same object)."""
    dof = next(iter(starts.values())).tokens.dof
    white = whiten_all(data._replace(origin=None), dof, measured=False)
    half = steps // 2
    out: dict[str, Em] = {}
    kept: dict[str, np.ndarray] = {}
    for name, em in starts.items():
        r = _first_responsibilities(em, white, data)
        state, r = _run_steps(_initial_state(em, 1.0), r, white, data, quadratic, half, ridge)
        twin = next(
            (
                other
                for other, s in kept.items()
                if _responsibility_distance(r, s, data) < SAME_START_DISTANCE
            ),
            None,
        )
        if twin is None:
            kept[name] = r
            state, r = _run_steps(state, r, white, data, quadratic, steps - half, ridge)
            out[name] = Em(token_model(state, white), state.values)
        else:
            out[name] = out[twin]
    return out


def run_tied(em: Em, data: Data, quadratic: bool, steps: int, ridge: float | None) -> Em:
    """At most `steps` steps from `em`, until the responsibilities converge."""
    white = whiten_all(data, em.tokens.dof)
    r = posterior_responsibilities(scores(em.tokens, data.tokens), em.values, data)
    state = _initial_state(em, em.tokens.spread)
    for _ in range(0, steps, 2):
        last = r
        state, r = _run_steps(state, r, white, data, quadratic, 2, ridge)
        if _responsibility_distance(r, last, data) < RESPONSIBILITY_STOP_DISTANCE:
            break
    return Em(token_model(state, white), state.values)


def _initial_state(em: Em, spread: float) -> Tied:
    """The state before the first step, which replaces everything but gam^2."""
    return Tied(em.tokens.key, spread, np.zeros_like(em.tokens.key), 0.0, em.values)


def whiten_all(data: Data, dof: float, measured: bool = True) -> White:
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
    square = np.einsum("ij,ij->i", z, z)
    origin = None if data.origin is None else (data.origin - mean) @ whiten
    scatter = weight if np.isinf(dof) else weight * (dof + d) / (dof + square)
    share = data.weight.sum() / total
    return White(z, square, mean, whiten, share, dof, weight, scatter, origin, measured)


def _first_responsibilities(em: Em, white: White, data: Data) -> np.ndarray:
    """Scores z.key: equal covariances, whose quadratic terms cancel."""
    return posterior_responsibilities(white.z @ em.tokens.key, em.values, data)


def posterior_responsibilities(scores: np.ndarray, values: Values, data: Data) -> np.ndarray:
    """Responsibilities (N,) from scores, labels and known locations."""
    w = data.tokens @ values.weights + values.bias
    density = label_log_density(data.per_token(data.labels), w, data.family, values.variance)
    return bag_softmax(data.apply_known_locations(scores + density), data.offsets)


def _run_steps(
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
            *_token_step(weight, near, state, white, quadratic),
            value_step(weight, r, state.values, data, ridge),
        )
        u, near = tied_scores(state, white)
        r = posterior_responsibilities(u, state.values, data)
    return state, r


def _token_step(
    weight: np.ndarray, near: np.ndarray, last: Tied, white: White, quadratic: bool
) -> tuple[np.ndarray, float, np.ndarray, float]:
    """delta, gam^2, s and beta from responsibilities times bag weights and the last state;
    `near` are the weights of a t (1 for Gaussian tokens).
    """
    total = weight.sum()
    d = white.z.shape[1]
    q = white.share
    pull = weight * near
    # q = 1: bags of one token, where z sums to zero
    delta = (pull @ white.z) / pull.sum() / max(1 - q, 1e-12)
    if not white.measured:  # the largest delta that T = 1 allows
        between = q * (1 - q) * float(delta @ delta)
        delta *= min(1.0, np.sqrt((1 - MIN_VARIANCE_WITHIN) / max(between, 1e-300)))
    middle = np.zeros(d)
    if white.origin is not None and q < 1:
        mean = -q * delta
        gap = mean - white.origin
        a = 1 - q + q * last.spread
        distance = a * float(gap @ gap + last.beta * (gap @ last.delta) ** 2)
        mean = shrunk_mean(mean, white.origin, distance, white.weight.sum() * (1 - q))
        # the mean of the deciding tokens does not change
        delta = (1 - q) * delta - mean
        middle = mean + q * delta
    along = _projection_and_square(delta, middle, white)
    beta = beta_of(along[0], delta, white)
    if not quadratic:
        return delta, 1.0, middle, beta
    # gam^2/a
    ratio = float(pull @ _quadratic_form(*along, delta, beta, 1 - q)) / (total * d)
    spread = (1 - q) * ratio / max(1 - q * ratio, 1e-3)
    return delta, float(np.clip(spread, *SPREAD_RANGE)), middle, beta


def _projection_and_square(
    delta: np.ndarray, middle: np.ndarray, white: White
) -> tuple[np.ndarray, np.ndarray]:
    """(z - s).delta and |z - s|^2."""
    t = white.z @ delta - middle @ delta
    if not middle.any():
        return t, white.square
    return t, white.square - 2 * (white.z @ middle) + middle @ middle


def beta_of(t: np.ndarray, delta: np.ndarray, white: White) -> float:
    """beta, from t = (z - s).delta of all tokens."""
    size = float(delta @ delta)
    q = white.share
    if size < 1e-12:  # no key: no direction of its own
        return 0.0
    total = 1.0
    if white.measured:
        total = max(float(white.scatter @ t**2) / (white.weight.sum() * size), 1.0)
    return (1 / max(total - q * (1 - q) * size, MIN_VARIANCE_WITHIN) - 1) / size


def _quadratic_form(
    t: np.ndarray, square: np.ndarray, delta: np.ndarray, beta: float, c: float
) -> np.ndarray:
    """(z - s - c delta)^T S0^-1 (z - s - c delta)/a."""
    size = float(delta @ delta)
    return np.maximum(square - 2 * c * t + c * c * size + beta * (t - c * size) ** 2, 0)


def tied_scores(state: Tied, white: White) -> tuple[np.ndarray, np.ndarray]:
    """l(x) (N,) and the t weights of the deciding token (N,), or (1,) ones for Gaussian tokens."""
    d = white.z.shape[1]
    q = white.share
    nu = white.dof
    a = 1 - q + q * state.spread
    along = _projection_and_square(state.delta, state.middle, white)
    near = a / state.spread * _quadratic_form(*along, state.delta, state.beta, 1 - q)
    far = a * _quadratic_form(*along, state.delta, state.beta, -q)
    constant = -d / 2 * np.log(state.spread)
    if np.isinf(nu):
        return constant + (far - near) / 2, np.ones(1)
    return constant - (nu + d) / 2 * (np.log1p(near / nu) - np.log1p(far / nu)), (nu + d) / (
        nu + near
    )


def value_step(
    weight: np.ndarray, r: np.ndarray, old: Values, data: Data, ridge: float | None
) -> Values:
    """V and b from responsibilities r (N,) and r times bag weights; from the old ones for classes."""
    if data.family != GAUSSIAN:
        return logistic(data, r, old)
    kept = weight > MIN_RIDGE_RESPONSIBILITY
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
    beta = state.beta
    a = np.sqrt(1 - q + q * state.spread)
    eta = beta / (np.sqrt(1 + beta * size) + 1)  # (sqrt(1 + beta D) - 1)/D
    whiten = a * (white.whiten + eta * np.outer(white.whiten @ delta, delta))
    mean = white.mean + np.linalg.solve(white.whiten.T, state.middle - q * delta)
    return TokenModel(mean, whiten, a * (1 + eta * size) * delta, state.spread, white.dof)


def _responsibility_distance(r: np.ndarray, s: np.ndarray, data: Data) -> float:
    return float(np.abs(r - s).sum()) / (2 * data.size)
