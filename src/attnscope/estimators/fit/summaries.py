"""Kernel logistic regression on summaries of bags: similar bags have similar classes.

    s(bag)   mean, largest and smallest value of every feature, with tokens clipped at
        FEATURE_CLIP_DEVIATIONS deviations; standardised over bags; values outside the training range
        are read as at its edge
    k(s, t) = mean over KERNEL_WIDTHS of exp(-|s - t|^2/(width M)),   M the median of |s_i - s_j|^2
        over pairs of bags
    P(class | bag) = softmax(f + c),   f(s) = sum_i k(s, s_i) a_i
    a, c minimise   sum_i -weight_i log P(class_i | bag_i) + ridge/2 |f|^2,   |f|^2 = a^T K a

This plain baseline is not linear in its features. It reads a bag as a whole, by all features
together, and gives no answer for single tokens. With K = R R^T (Cholesky) and f = R u it is a
logistic regression on rows of R with ridge/2 |u|^2. The best f for a part of the bags lies in the
span of their own kernels, so the R of all bags serves every fold, and held-out bags contribute
nothing. The ridge is chosen by the held-out loss along a path from strong to weak, each point from
the last one. Nothing else is chosen: with 50 bags the held-out loss of the best of three widths was
.05 of log loss too low, and the mean of three kernels is as good as the best one.

notation: n bags, m outputs, s = 3d numbers of a summary. Exact up to the steps of L-BFGS.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from attnscope.estimators.fit.data import CONSTANT_RELATIVE_SPREAD, Data
from attnscope.estimators.fit.held_out import Fold
from attnscope.estimators.fit.mixture import Answers, output_losses
from attnscope.estimators.fit.pooled import mean_tokens

__all__ = [
    "FEATURE_CLIP_DEVIATIONS",
    "SummaryPool",
    "equal_weight_answers",
    "fit_summaries",
    "summaries",
]

# a rare word is 40 deviations out, and would dominate the summary of its bag
FEATURE_CLIP_DEVIATIONS = 4.0
# in units of the median squared distance: from "only the nearest bags count" to "nearly linear"
KERNEL_WIDTHS = np.array([0.25, 1.0, 4.0])
# ridges of |f|^2, added to a sum of log likelihoods; k(s, s) = 1, so that with ridge 3 the prediction
# is nearly constant
KERNEL_RIDGES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
KERNEL_LBFGS_STEPS = 100  # per point of the path, each from the last point
KERNEL_JITTER = 1e-8  # added to k(s, s): bags with equal summaries make K singular


class SummaryPool(NamedTuple):
    """centres (n, s): standardised summaries of the training bags, in single precision (a model file
    holds them); weights (n, m), bias (m,), rates 1/(width M) (k,); mean and scale (s,).
    """

    centres: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    rates: np.ndarray
    mean: np.ndarray
    scale: np.ndarray

    def answers(self, tokens: np.ndarray, offsets: np.ndarray) -> Answers:
        seen = self.centres.astype(float)
        own = (
            summaries(
                np.clip(tokens, -FEATURE_CLIP_DEVIATIONS, FEATURE_CLIP_DEVIATIONS), offsets
            )
            - self.mean
        ) / self.scale
        own = np.clip(own, seen.min(axis=0), seen.max(axis=0))
        kernel = _mean_kernel(_square_distances(own, seen), self.rates)
        return equal_weight_answers(
            _class_probabilities(kernel @ self.weights + self.bias), offsets
        )


class _Rows(NamedTuple):
    """Rows of R with classes and weights."""

    root: np.ndarray
    labels: np.ndarray
    weight: np.ndarray


def summaries(tokens: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Mean, largest and smallest value of every feature (n, 3d)."""
    first = offsets[:-1]
    ends = [np.maximum.reduceat(tokens, first), np.minimum.reduceat(tokens, first)]
    return np.concatenate([mean_tokens(tokens, offsets), *ends], axis=1)


def equal_weight_answers(output: np.ndarray, offsets: np.ndarray) -> Answers:
    """Answers with probabilities (n, C), equal token weights and no token values."""
    lengths = np.diff(offsets)
    nothing = np.zeros(len(output))
    outputs = 1 if output.shape[1] == 2 else output.shape[1]
    values = np.zeros((int(offsets[-1]), outputs))
    return Answers(np.repeat(1 / lengths, lengths), values, output, nothing, nothing)


def fit_summaries(
    data: Data, folds: list[Fold], ridges: tuple[float, ...] = KERNEL_RIDGES
) -> tuple[SummaryPool, np.ndarray]:
    """The model, and held-out probabilities (n, C). `ridges`: candidates, the strongest first."""
    every = summaries(
        np.clip(data.tokens, -FEATURE_CLIP_DEVIATIONS, FEATURE_CLIP_DEVIATIONS), data.offsets
    )
    mean = every.mean(axis=0)
    scale = every.std(axis=0)
    scale = np.where(scale > CONSTANT_RELATIVE_SPREAD * scale.max(), scale, 1.0)
    centres = ((every - mean) / scale).astype(np.float32)
    apart = _square_distances(centres.astype(float), centres.astype(float))
    median = float(np.median(apart[np.triu_indices(len(apart), 1)])) or 1.0
    rates = 1 / (KERNEL_WIDTHS * median)
    kernel = _mean_kernel(apart, rates)
    kernel[np.diag_indices(len(kernel))] = 1 + KERNEL_JITTER
    root = cholesky(kernel, lower=True)
    output, point, near = _ridge_path(root, data, folds, ridges)
    # the sum is convex: a fold's model is close to the minimum over all bags, so a few steps suffice
    u, bias = _fit_logistic(_Rows(root, data.labels, data.weight), point, near)
    weights = solve_triangular(root, u, lower=True, trans="T")
    return SummaryPool(centres, weights, bias, rates, mean, scale), output


def _ridge_path(
    root: np.ndarray, data: Data, folds: list[Fold], ridges: tuple[float, ...]
) -> tuple[np.ndarray, float, np.ndarray]:
    """Held-out probabilities (n, C) at the point of the path with the lowest loss, its ridge, and
    the parameters of the first fold there.
    """
    rows = [_Rows(root[f.rest], data.labels[f.rest], data.weight[f.rest]) for f in folds]
    at = [np.zeros((root.shape[1] + 1, data.outputs)) for _ in folds]
    output = np.empty((data.size, max(data.outputs, 2)))
    lowest = np.inf
    best: tuple[np.ndarray, float, np.ndarray] | None = None
    for ridge in ridges:
        at = [np.vstack(_fit_logistic(own, ridge, start)) for own, start in zip(rows, at)]
        for fold, found in zip(folds, at):
            output[fold.out] = _class_probabilities(root[fold.out] @ found[:-1] + found[-1])
        loss = float(np.average(output_losses(output, data), weights=data.weight))
        if best is not None and loss > lowest:
            break
        lowest = loss
        best = (output.copy(), ridge, at[0])
    assert best is not None
    return best


def _fit_logistic(
    rows: _Rows, ridge: float, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """u (n, m) and bias (m,) of the convex sum, from `start` (n + 1, m)."""
    label = rows.labels.astype(int)
    at = np.arange(len(label))

    def parts(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = flat.reshape(start.shape)
        return both[:-1], both[-1]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        u, bias = parts(flat)
        log_p = log_softmax(_class_logits(rows.root @ u + bias), axis=1)
        value = -rows.weight @ log_p[at, label] + ridge / 2 * np.sum(u * u)
        slope = np.exp(log_p)
        slope[at, label] -= 1
        slope = (slope * rows.weight[:, None])[:, -start.shape[1] :]
        return value, np.append(rows.root.T @ slope + ridge * u, slope.sum(axis=0))

    options = {"maxiter": KERNEL_LBFGS_STEPS}
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return parts(found.x)


def _class_logits(values: np.ndarray) -> np.ndarray:
    """Logits of all classes; of two classes the first has 0."""
    return (
        np.column_stack([np.zeros(len(values)), values]) if values.shape[1] == 1 else values
    )


def _class_probabilities(values: np.ndarray) -> np.ndarray:
    return softmax(_class_logits(values), axis=1)


def _mean_kernel(apart: np.ndarray, rates: np.ndarray) -> np.ndarray:
    return sum(np.exp(-rate * apart) for rate in rates) / len(rates)


def _square_distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    square = np.sum(one**2, axis=1)[:, None] + np.sum(other**2, axis=1) - 2 * one @ other.T
    return np.maximum(square, 0.0)
