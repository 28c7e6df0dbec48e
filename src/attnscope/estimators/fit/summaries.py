"""Bags that look alike have alike classes: kernel logistic regression on summaries of bags.

    s(bag)   mean, largest and smallest value of every feature, tokens beyond EDGE deviations read
        as at EDGE; standardised over bags; outside the range seen in training read as at its edge
    k(s, t) = mean over WIDTHS of exp(-|s - t|^2/(width M)),   M the median of |s_i - s_j|^2 over
        pairs of bags
    P(class | bag) = softmax(f + c),   f(s) = sum_i k(s, s_i) a_i
    a, c minimise   sum_i -weight_i log P(class_i | bag_i) + ridge/2 |f|^2,   |f|^2 = a^T K a

a plainer model that is not linear in its features: it reads a bag as a whole, by all features at
once, and says nothing of tokens. With K = R R^T (Cholesky) and f = R u it is a logistic
regression on rows of R with ridge/2 |u|^2. The best f of a part of the bags lies in the span of
their own kernels, so that R of all bags serves every fold: held-out bags add nothing but their
place. The ridge is chosen by the held-out loss along a warm path from strong to weak. Nothing else
is: with 50 bags the best of three widths looked better than it was by .05 of log loss, and kernels of
three widths together are as good as the one that suits.

notation: n bags, m outputs, s = 3d numbers of a summary. Exact up to the steps of L-BFGS.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from attnscope.estimators.fit.data import CONSTANT, Data
from attnscope.estimators.fit.held_out import Fold
from attnscope.estimators.fit.mixture import Answers, output_losses
from attnscope.estimators.fit.pooled import mean_tokens

__all__ = ["EDGE", "SummaryPool", "fit_summaries", "read_alike", "summaries"]

# deviations of a token's feature: a rare word is 40 of them, and would be all that a bag is known by
EDGE = 4.0
# of the median squared distance: from "the nearest bags count" to "nearly linear"
WIDTHS = np.array([0.25, 1.0, 4.0])
# of |f|^2 beside a sum of log likelihoods; k(s, s) = 1, so that ridge 3 hardly moves from a constant
RIDGES = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
STEPS = 100  # of L-BFGS per point of the path, each from the point before
JITTER = 1e-8  # added to k(s, s): bags with one and the same summary leave K singular


class SummaryPool(NamedTuple):
    """centres (n, s): standardised summaries of the bags it has seen, in single precision (a model
    file holds them); weights (n, m), bias (m,), rates 1/(width M) (k,); mean and scale (s,).
    """

    centres: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    rates: np.ndarray
    mean: np.ndarray
    scale: np.ndarray

    def answers(self, tokens: np.ndarray, offsets: np.ndarray) -> Answers:
        seen = self.centres.astype(float)
        own = (summaries(np.clip(tokens, -EDGE, EDGE), offsets) - self.mean) / self.scale
        own = np.clip(own, seen.min(axis=0), seen.max(axis=0))
        kernel = _kernel(_square_distances(own, seen), self.rates)
        return read_alike(_probabilities(kernel @ self.weights + self.bias), offsets)


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


def read_alike(output: np.ndarray, offsets: np.ndarray) -> Answers:
    """Probabilities (n, C) in which every token has the same part, and none a value of its own."""
    lengths = np.diff(offsets)
    nothing = np.zeros(len(output))
    outputs = 1 if output.shape[1] == 2 else output.shape[1]
    values = np.zeros((int(offsets[-1]), outputs))
    return Answers(np.repeat(1 / lengths, lengths), values, output, nothing, nothing)


def fit_summaries(
    data: Data, folds: list[Fold], ridges: tuple[float, ...] = RIDGES
) -> tuple[SummaryPool, np.ndarray]:
    """The model, and held-out probabilities (n, C). `ridges`: to choose from, the strongest first."""
    every = summaries(np.clip(data.tokens, -EDGE, EDGE), data.offsets)
    mean = every.mean(axis=0)
    scale = every.std(axis=0)
    scale = np.where(scale > CONSTANT * scale.max(), scale, 1.0)
    centres = ((every - mean) / scale).astype(np.float32)
    apart = _square_distances(centres.astype(float), centres.astype(float))
    median = float(np.median(apart[np.triu_indices(len(apart), 1)])) or 1.0
    rates = 1 / (WIDTHS * median)
    kernel = _kernel(apart, rates)
    kernel[np.diag_indices(len(kernel))] = 1 + JITTER
    root = cholesky(kernel, lower=True)
    output, point, near = _path(root, data, folds, ridges)
    # the sum is convex: from a fold's model, which is close, all bags reach the same in a few steps
    u, bias = _logistic(_Rows(root, data.labels, data.weight), point, near)
    weights = solve_triangular(root, u, lower=True, trans="T")
    return SummaryPool(centres, weights, bias, rates, mean, scale), output


def _path(
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
        at = [np.vstack(_logistic(own, ridge, start)) for own, start in zip(rows, at)]
        for fold, found in zip(folds, at):
            output[fold.out] = _probabilities(root[fold.out] @ found[:-1] + found[-1])
        loss = float(np.average(output_losses(output, data), weights=data.weight))
        if best is not None and loss > lowest:
            break
        lowest = loss
        best = (output.copy(), ridge, at[0])
    assert best is not None
    return best


def _logistic(rows: _Rows, ridge: float, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u (n, m) and bias (m,) of the convex sum, from `start` (n + 1, m)."""
    label = rows.labels.astype(int)
    at = np.arange(len(label))

    def parts(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = flat.reshape(start.shape)
        return both[:-1], both[-1]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        u, bias = parts(flat)
        log_p = log_softmax(_logits(rows.root @ u + bias), axis=1)
        value = -rows.weight @ log_p[at, label] + ridge / 2 * np.sum(u * u)
        slope = np.exp(log_p)
        slope[at, label] -= 1
        slope = (slope * rows.weight[:, None])[:, -start.shape[1] :]
        return value, np.append(rows.root.T @ slope + ridge * u, slope.sum(axis=0))

    options = {"maxiter": STEPS}
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return parts(found.x)


def _logits(values: np.ndarray) -> np.ndarray:
    """Of two classes the first has 0."""
    return (
        np.column_stack([np.zeros(len(values)), values]) if values.shape[1] == 1 else values
    )


def _probabilities(values: np.ndarray) -> np.ndarray:
    return softmax(_logits(values), axis=1)


def _kernel(apart: np.ndarray, rates: np.ndarray) -> np.ndarray:
    return sum(np.exp(-rate * apart) for rate in rates) / len(rates)


def _square_distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    square = np.sum(one**2, axis=1)[:, None] + np.sum(other**2, axis=1) - 2 * one @ other.T
    return np.maximum(square, 0.0)
