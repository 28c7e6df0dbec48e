"""What the claims on topic mixtures share: masked documents, least squares of the values and of a
row of scores on them, with the errors of both.

Least squares on drawn documents has the errors of its influence: with losses e_d per document and
the inverse H of the curvature, the estimate moves by H times the gradient of e_d, whose spread over
documents is its standard error (the sandwich formula).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.tasks.exchangeable.topic_mixture import TopicMixture

STEPS = 14  # of Newton's method: from the tenth on nothing moves
LONGEST_DOCUMENT = 0.7  # of a step: from uniform attention the first would lead too far
__all__ = [
    "Fit",
    "ScoreFit",
    "fitted_scores",
    "fitted_values",
    "masked_documents",
    "own_first",
]


class Fit(NamedTuple):
    """W (V, V) with standard errors, and its three parts (same word, same topic, constant)."""

    matrix: np.ndarray
    matrix_error: np.ndarray
    parts: np.ndarray
    parts_error: np.ndarray


class ScoreFit(NamedTuple):
    """Scores (V,) of the words seen from word 0, less their mean over other topics; errors."""

    scores: np.ndarray
    error: np.ndarray
    groups: np.ndarray
    groups_error: np.ndarray


def masked_documents(
    task: TopicMixture,
    n: int,
    length: int,
    shares: tuple[float, float, float],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """(true word of the first position (n,), mean of the shown words (n, V)) of documents whose
    first position is masked; shares are (mask, keep, random).
    """
    mask, keep, random = shares
    V = task.vocabulary
    words = task.sample(n, length, int(rng.integers(2**31))).tokens
    masked = rng.random((n, length)) < mask
    masked[:, 0] = True
    fate = rng.random((n, length))
    any_word = rng.integers(V, size=(n, length))
    shown = np.where(masked & (fate >= keep), any_word, words)
    hidden = masked & (fate >= keep + random)
    # hidden positions are counted as a word more, which is then left out
    places = np.where(hidden, V, shown) + (V + 1) * np.arange(n)[:, None]
    counts = np.bincount(places.ravel(), minlength=n * (V + 1)).reshape(n, V + 1)[:, :V]
    return words[:, 0], counts / length


def fitted_values(
    task: TopicMixture, true: np.ndarray, mean: np.ndarray, ridge: float
) -> Fit:
    """Least squares of the one-hot word on the mean of the shown ones: V^2 free numbers."""
    n, V = mean.shape
    T = task.topics
    v = task.words
    y = np.eye(V)[true]
    G = np.linalg.inv(mean.T @ mean / n + ridge * np.eye(V))
    W = y.T @ mean / n @ G
    e = y - mean @ W.T
    f = mean @ G
    pull = ridge * W @ G  # the mean of the influence, which is not its spread
    matrix_error = np.sqrt(((e**2).T @ f**2 / n - pull**2) / n)

    def parts(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """(same word, same topic, constant) of sum_ij left_i right_j."""
        word = np.sum(left * right, axis=1) / V
        sums = [x.reshape(-1, T, v).sum(axis=2) for x in (left, right)]
        topic = (np.sum(sums[0] * sums[1], axis=1) - V * word) / (V * (v - 1))
        every = sums[0].sum(axis=1) * sums[1].sum(axis=1)
        other = (every - np.sum(sums[0] * sums[1], axis=1)) / (V * (V - v))
        return np.stack([word - topic, topic - other, other], axis=1)

    # W itself: sum_ij W_ij read off with the rows of W and of the unit matrix
    whole = sum(parts(W[:, [j]].T, np.eye(V)[[j]])[0] for j in range(V))
    spread = parts(e, f).std(axis=0, ddof=1) / np.sqrt(n)
    return Fit(W, matrix_error, np.asarray(whole), spread)


def own_first(
    task: TopicMixture, n: int, length: int, correct: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(true topic (n,), counts (n, V) of the shown words, the predicted position's among them) with
    words renamed so that the predicted position shows word 0: the task does not tell words apart.
    """
    V = task.vocabulary
    v = task.words
    words = task.sample(n, length, int(rng.integers(2**31))).tokens
    true = words[:, 0] // v
    wrong = rng.random(n) >= correct
    shown = np.where(wrong, rng.integers(V, size=n), words[:, 0])
    seen = np.concatenate([shown[:, None], words[:, 1:]], axis=1)
    # topics and the words within a topic are moved round, so that the shown one becomes 0
    turn = shown // v
    topic = (seen // v - turn[:, None]) % task.topics
    word = (seen % v - (shown % v)[:, None]) % v
    places = topic * v + word + V * np.arange(n)[:, None]
    counts = np.bincount(places.ravel(), minlength=n * V).reshape(n, V)
    return (true - turn) % task.topics, counts.astype(float)


def fitted_scores(task: TopicMixture, true: np.ndarray, counts: np.ndarray) -> ScoreFit:
    """The V scores of attention that minimise the mean squared error of the topic, by Newton's
    method from uniform attention: no structure is put in.
    """
    V = task.vocabulary
    v = task.words
    scores = np.zeros(V)
    for step in range(STEPS):
        slopes, bend = _slopes(task, true, counts, scores, exact=step >= STEPS // 2)
        inverse = np.linalg.inv(bend)
        scores = scores - np.clip(
            inverse @ slopes.mean(axis=0), -LONGEST_DOCUMENT, LONGEST_DOCUMENT
        )
    # scores are known up to a constant: others' mean is taken off
    centre = np.eye(V)
    centre[:, v:] -= 1 / (V - v)
    moves = slopes @ inverse @ centre.T
    pairs = [(x[..., :1], x[..., 1:v]) for x in (scores @ centre.T, moves)]
    groups, moved = (np.stack([x.mean(axis=-1) for x in pair], axis=-1) for pair in pairs)
    return ScoreFit(scores @ centre.T, _error(moves), groups, _error(moved))


def _error(moves: np.ndarray) -> np.ndarray:
    return moves.std(axis=0) / len(moves) ** 0.5


def _slopes(
    task: TopicMixture, true: np.ndarray, counts: np.ndarray, scores: np.ndarray, exact: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients (n, V) of half the squared error of each document, and the mean curvature: of
    Gauss and Newton far from the end, `exact` near it.

    With p_x the weights, s_t = sum of p over topic t, left = s - target and a_x = left_t(x) -
    left.s the gradient is p_x a_x, and the curvature diag(p a) - p_x p_y (a_x + a_y) + p_x p_y
    ([one topic] - s_t(x) - s_t(y) + |s|^2).
    """
    n, V = counts.shape
    block = np.repeat(np.eye(task.topics), task.words, axis=0)  # (V, T)
    p = counts * np.exp(scores)
    p /= p.sum(axis=1, keepdims=True)
    said = p @ block
    left = said - np.eye(task.topics)[true]
    slopes = p * ((left - np.sum(left * said, axis=1, keepdims=True)) @ block.T)
    one_topic = p.T @ p * (block @ block.T)
    mixed = p.T @ (p * (said @ block.T))
    square = p.T @ (p * np.sum(said**2, axis=1, keepdims=True))
    curve = (one_topic - mixed - mixed.T + square) / n
    if exact:
        twice = p.T @ slopes
        curve += np.diag(slopes.mean(axis=0)) - (twice + twice.T) / n
    return slopes, curve + np.full((V, V), 1 / V)  # a constant moves nothing: held fixed
