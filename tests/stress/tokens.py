"""Tokens of planted tasks for the stress tests, and what float64 can promise about posteriors of their
latents.

notation: Q = size of the terms that a log-likelihood ratio is a sum of, summed over tokens; delta =
ROUNDINGS eps d Q.

A logit is a sum of terms of size Q that are each rounded, so it is known to delta, and a
probability p = e^{logit}/sum is known to p (e^{2 delta} - 1) and never better than the spacing of
numbers near 1. A prediction sum_z P(z|x) Y(z) inherits sum_z dP(z) |Y(z)|. These are the errors
that answers state; where delta exceeds 1/2 only manners are checked (finite, between 0 and 1,
repeated calls equal).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from stress.draws import CORNER, choice, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.subject import Setting

__all__ = [
    "EPS",
    "ROUNDINGS",
    "gamma_and_signal",
    "gaussian_delta",
    "inferred",
    "orthonormal",
    "permuted",
    "probabilities",
    "probability_error",
    "tokens_of",
    "truth_of",
    "unit",
    "variance_answer",
    "with_tokens",
]

EPS = float(np.finfo(np.float64).eps)
# roundings per term: a product, a sum over d, a difference, a logarithm, and the recursion's own
# sums
ROUNDINGS = 8


# -- settings --------------------------------------------------------------------------------------


def gamma_and_signal(rng: np.random.Generator) -> tuple[float, float]:
    """gamma from 1e-4 to 1e4, half of the time near 1;
    the signal in units of it, with 0 and 1e8.
    """
    wide = rng.random() < 0.5
    gamma = (
        log_uniform(rng, 1e-4, 1e4)
        if wide
        else log_uniform(rng, 0.3, 3.0, (1.0, 1.0, 1 - 1e-9))
    )
    signal = log_uniform(rng, 0.05, 20.0, (0.0, 1e-8, 1e8)) * min(1.0, gamma)
    return gamma, signal


def unit(rng: np.random.Generator, d: int) -> np.ndarray:
    """A unit vector, sometimes a coordinate axis."""
    if rng.random() < CORNER:
        return np.eye(d)[rng.integers(d)]
    x = rng.standard_normal(d)
    return x / np.linalg.norm(x)


def orthonormal(rng: np.random.Generator, count: int, d: int) -> np.ndarray:
    """(count, d) orthonormal rows."""
    return np.linalg.qr(rng.standard_normal((d, count)))[0].T.copy()


def tokens_of(task: Any, setting: Setting) -> np.ndarray:
    """(1, L, d): a draw of the task, all of it scaled,
    sometimes with a zero token or two equal ones.
    """
    x = task.sample(1, seed=setting["seed"]).tokens * setting["scale"]
    if setting["corner"] == "zero":
        x[0, 0] = 0.0
    elif setting["corner"] == "equal":
        x[0, -1] = x[0, 0]
    elif setting["corner"] == "far":
        x[0, 0] *= 1e6
    return x


def with_tokens(rng: np.random.Generator, setting: Setting) -> Setting:
    corner = choice(rng, ["zero", "equal", "far"]) if rng.random() < CORNER else ""
    scale = log_uniform(rng, 1e-3, 1e3) if rng.random() < CORNER else 1.0
    return setting | {"seed": int(rng.integers(1 << 31)), "scale": scale, "corner": corner}


# -- what float64 can promise ----------------------------------------------------------------------


def probability_error(p: np.ndarray, delta: float) -> np.ndarray:
    """Of a probability whose logit is known to delta;
    1, that is nothing, where that is not below 1/2.
    """
    if delta > 0.5:
        return np.ones_like(p)
    return np.minimum(1.0, p * np.expm1(2 * delta) + 4 * EPS + np.finfo(float).tiny)


def gaussian_delta(x: np.ndarray, gamma: float, signal: float) -> float:
    """delta for tokens N(0, 1) against N(mean of length `signal`, gamma^2)."""
    d = x.shape[2]
    lengths = np.linalg.norm(x[0], axis=1)
    quadratic = abs(1 / gamma**2 - 1) / 2 * lengths**2
    linear = signal * lengths / gamma**2
    constant = d * abs(np.log(gamma)) + signal**2 / (2 * gamma**2)
    return ROUNDINGS * EPS * (d + 4) * float(np.sum(1.0 + quadratic + linear + constant))


def inferred(posterior: np.ndarray, mean: Any, says: np.ndarray, delta: float) -> Answer:
    """posterior, then the prediction; says: the largest |Y(z)| an entry of the posterior can
    add.
    """
    p = np.asarray(posterior).ravel()
    error = probability_error(p, delta)
    rounding = ROUNDINGS * EPS * 8 * float(np.sum(np.abs(says)))
    spread = float(np.sum(error * np.ravel(np.abs(says)))) + rounding
    return Answer(np.append(p, mean), np.append(error, spread))


def truth_of(found: Any) -> Truth:
    return Truth(np.append(found.posterior.ravel(), found.mean))


def probabilities(setting: Setting, answer: Answer) -> Iterable[Relation]:
    """Between 0 and 1 to the bit, whatever the logits."""
    p = answer.value[:-1]
    yield at_most("a probability is at least 0", -p, 0.0, 0.0)
    yield at_most("a probability is at most 1", p, 1.0, 4 * EPS)


def permuted(
    build: Callable[[Setting], Any], axis: int
) -> Callable[[Setting, Answer], Iterable[Relation]]:
    """Exchangeable tokens: reversing them reverses the posterior and leaves the prediction."""

    def relations(setting: Setting, answer: Answer) -> Iterable[Relation]:
        yield from probabilities(setting, answer)
        task = build(setting)
        x = tokens_of(task, setting)
        p = np.flip(task.posterior(x[:, ::-1]), axis=axis)
        turned = np.append(p.ravel(), task.bayes_predict(x[:, ::-1]))
        yield same("tokens in reverse order", turned, answer.value, 2 * answer.error)

    return relations


def variance_answer(task: Any, x: np.ndarray, delta: float, reach: float) -> Answer:
    """Var(Y | X): a mean of squares of size reach^2 under a posterior known to delta."""
    value = float(task.posterior_variance(x)[0])
    known = min(1.0, float(np.expm1(min(2 * delta, 1.0))))
    return Answer(value, reach**2 * min(1.0, known + 16 * EPS))
