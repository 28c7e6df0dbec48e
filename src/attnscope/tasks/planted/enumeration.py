"""Bayes' formula for a planted task whose latent has finitely many values.

notation: z_i the values, p_i their probabilities; f_l (r,) token l's projections on the teachers,
G* the teachers' Gram matrix, m_l, s_l mean coefficients and scale given z_i.

    log P(X | z_i) = sum_l [-d log s_l - (|x_l|^2 - 2 m_l.f_l + m_l^T G* m_l)/(2 s_l^2)] + const,
    P(z_i | X) ~ p_i P(X | z_i),          E[Y | X] = sum_i P(z_i | X) E[Y | f, z_i],
    Var(Y | X) = noise^2 + sum_i P(z_i | X) [Var(Y | f, z_i) + (E[Y | f, z_i] - E[Y | X])^2],

the last a sum of squares, so nothing cancels. The label given (f, z_i) is a number, or one of the
classes with their likelihood. All of this is exact given the tokens. The Bayes risk is the mean of Var(Y | X)
over draws of what it depends on: f, and |x_l|^2 = f^T G*^+ f + s_l^2 chi^2 with d - rank G* degrees
of freedom, independent of f; so a draw costs the same for every d.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate
from attnscope.numerics.border.sampled_estimate import (
    grouped_log_mean,
    groups_of,
    sampled_estimate,
)
from attnscope.tasks.base import gaussian_fields
from attnscope.tasks.planted.definition_checks import of_method

__all__ = [
    "Moments",
    "bayes_predict",
    "bayes_risk",
    "label_moments",
    "null_risk",
    "posterior",
]

BLOCK_ENTRIES = 1 << 19  # numbers worked on at a time: a few 4 MB arrays
# two streams that a label must not depend on, to count as a function of fields and latent
FIRST, SECOND = 0, 1
MEAN_ROUNDING = 1e-13  # relative error of a mean over some 10^5 exact terms, with a margin


class Moments(NamedTuple):
    """Mean and variance of the label without its noise, given fields and latent: (n,) or (n, o)."""

    mean: np.ndarray
    variance: np.ndarray


class Given(NamedTuple):
    """The law of the latent: values (m, ...), log p (m,), means (m, L, r), scales (m, L)."""

    values: np.ndarray
    log_prior: np.ndarray
    means: np.ndarray
    scales: np.ndarray


def posterior(task: Any, tokens: np.ndarray) -> np.ndarray:
    """P(z_i | X), (n, m), of tokens (n, L, d), in the order of `latents`; exact."""
    given = _latent_law(task, "posterior")
    x, _ = check.tokens_array(tokens, of_method(task, "posterior"), task.length, task.dim)
    parts = [
        _latent_posterior(task, given, f, squares) for f, squares in _field_blocks(task, x)
    ]
    return np.concatenate(parts)


def bayes_predict(task: Any, tokens: np.ndarray) -> np.ndarray:
    """E[Y | X], (n,) or (n, o), of tokens (n, L, d); exact."""
    given = _latent_law(task, "bayes_predict")
    x, _ = check.tokens_array(tokens, of_method(task, "bayes_predict"), task.length, task.dim)
    parts = []
    for fields, squares in _field_blocks(task, x):
        weights = _latent_posterior(task, given, fields, squares)
        parts.append(
            _posterior_mean(
                weights, _moments_by_latent(task, given, fields, "bayes_predict").mean
            )
        )
    return np.concatenate(parts)


def bayes_risk(task: Any, samples: int = 65_536, seed: int = 0) -> Estimate:
    """E Var(Y | X), the least squared error of any predictor: the exact posterior variance,
    averaged over sampled projections, with its standard error. The cost does not depend on d.
    """
    of = of_method(task, "bayes_risk")
    count = check.integer(samples, "samples", of, 64)
    rng = np.random.default_rng([check.seed_value(seed, of), 0xBA7E5])
    given = _latent_law(task, "bayes_risk")
    groups, each = groups_of(count, 1)
    left = groups * each
    values = []
    labels = []
    size = max(
        1, BLOCK_ENTRIES // (len(given.values) * task.length * max(2, len(task.teacher_gram)))
    )
    while left > 0:
        n = min(size, left)
        variances, label_means = _draw_variances(task, given, n, rng)
        values.append(variances)
        labels.append(label_means)
        left -= n
    joined = np.concatenate(values)
    with np.errstate(divide="ignore"):
        logs = np.log(joined)
    outputs = 1 if labels[0].ndim == 1 else labels[0].shape[1]
    ceiling = _variance_bound(np.concatenate(labels))
    found = grouped_log_mean(logs, groups)
    return sampled_estimate(
        found, ceiling, task.noise * math.sqrt(outputs), "sampled posterior variance"
    )


def null_risk(task: Any, samples: int = 65_536, seed: int = 0) -> Estimate:
    """The squared error of the best constant, Var Y, over sampled projections on the teachers."""
    of = of_method(task, "null_risk")
    n = check.integer(samples, "samples", of, 64)
    rng = np.random.default_rng([check.seed_value(seed, of), 0x2E20])
    label = task.projections(n, task.teacher_gram, rng).label.reshape(n, -1)
    squares = ((label - label.mean(0)) ** 2).sum(1)
    value = float(squares.sum() / (n - 1))
    # the mean is that of the same draws, which moves the value by up to 25 value/n at 5 errors
    error = float(squares.std(ddof=1) / math.sqrt(n)) + 5 * value / n + MEAN_ROUNDING * value
    return estimate(value, error, "monte-carlo", task.noise * math.sqrt(label.shape[1]))


def label_moments(task: Any, fields: np.ndarray, latent: np.ndarray, method: str) -> Moments:
    """Of the label given projections (n, L, r) on the teachers and the latent (n, ...)."""
    if task.likelihood is not None and task.classes is not None:
        chances = task.class_chances(fields, latent)
        classes = np.asarray(task.classes)
        mean = chances @ classes
        return Moments(mean, np.sum(chances * (classes - mean[:, None]) ** 2, axis=1))
    first = task.checked_label(fields, latent, np.random.default_rng(FIRST))
    second = task.checked_label(fields, latent, np.random.default_rng(SECOND))
    if not np.array_equal(first, second):
        must = f"a function of fields and latent for {method}"
        hint = "classes = (-1, 1) and a method likelihood(fields, latent)"
        got = "different answers with two random streams"
        raise bad("label", of_method(task, "label"), must, got, hint)
    return Moments(first, np.zeros_like(first))


def _latent_law(task: Any, method: str) -> Given:
    values, probabilities = task.enumerated(method)
    means, scales = task.token_law(values)
    if (scales == 0).any():
        must = f"numbers > 0 for {method}"
        raise bad("scales", of_method(task, "scales"), must, "0", "a small scale")
    # log 0 = -inf is the right logit of an impossible value
    with np.errstate(divide="ignore"):
        return Given(values, np.log(probabilities), means, scales)


def _field_blocks(task: Any, x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Projections (n, L, r) on the teachers and |x_l|^2 (n, L), a few MB of tokens at a time."""
    block = max(1, BLOCK_ENTRIES // (x.shape[1] * x.shape[2]))
    for i in range(0, len(x), block):
        part = x[i : i + block].astype(np.float64)
        yield part @ task.teachers.T, np.einsum("nld,nld->nl", part, part)


def _latent_posterior(
    task: Any, given: Given, fields: np.ndarray, squares: np.ndarray
) -> np.ndarray:
    """(n, m)."""
    precision = given.scales**-2.0
    inner = np.einsum("mlr,rs,mls->ml", given.means, task.teacher_gram, given.means)
    # what does not depend on the tokens; |x|^2 counts by the precision over that of the first value
    fixed = -(task.dim * np.log(given.scales) + inner * precision / 2).sum(1)
    along = np.einsum(
        "nlr,mlr->nm", fields, given.means * precision[:, :, None], optimize=True
    )
    # s_0^2 - s^2 as a product: scales that nearly agree lose no digits
    first = given.scales[0]
    apart = (first - given.scales) * (first + given.scales) * precision * precision[0]
    around = squares @ apart.T / 2
    return softmax(given.log_prior + fixed - fixed[0] + along - around, axis=1)


def _moments_by_latent(task: Any, given: Given, fields: np.ndarray, method: str) -> Moments:
    """Moments of the label for every sequence and value: (n, m) or (n, m, o)."""
    n = len(fields)
    m = len(given.values)
    size = max(1, BLOCK_ENTRIES // (m * fields.shape[1] * fields.shape[2]))
    parts = []
    for i in range(0, n, size):
        part = fields[i : i + size]
        latent = np.tile(given.values, (len(part), *(1,) * (given.values.ndim - 1)))
        found = label_moments(task, np.repeat(part, m, axis=0), latent, method)
        parts.append([x.reshape(len(part), m, *x.shape[1:]) for x in found])
    return Moments(*(np.concatenate(column) for column in zip(*parts)))


def _posterior_mean(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.einsum("nm,nm...->n...", weights, values)


def _draw_variances(
    task: Any, given: Given, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Var(Y | X) without noise of n drawn sequences (n,), and their labels' means."""
    G = task.teacher_gram
    places = rng.choice(len(given.values), size=n, p=np.exp(given.log_prior))
    scales = given.scales[places]
    fields = gaussian_fields(given.means[places], scales, G, rng)
    freedom = task.dim - int(np.linalg.matrix_rank(G, hermitian=True))
    outside = scales**2 * rng.chisquare(freedom, scales.shape) if freedom else 0.0
    inside = np.einsum("nlr,rs,nls->nl", fields, np.linalg.pinv(G, hermitian=True), fields)
    weights = _latent_posterior(task, given, fields, inside + outside)
    each = _moments_by_latent(task, given, fields, "bayes_risk")
    mean = _posterior_mean(weights, each.mean)
    total = _posterior_mean(weights, each.variance + (each.mean - mean[:, None]) ** 2)
    label_means = each.mean[np.arange(n), places]
    return (total if total.ndim == 1 else total.sum(1)), label_means


def _variance_bound(labels: np.ndarray) -> float:
    """An upper bound on the variance of the label: its sampled second moment plus 5 standard errors."""
    squares = (labels.reshape(len(labels), -1) ** 2).sum(1)
    wide = 5 * squares.std() / math.sqrt(len(squares))
    # a label that is always 0 has no variance; classes around 0 have theirs inside
    return float(squares.mean() + wide) + 1.0
