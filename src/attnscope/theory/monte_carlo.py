"""The slow second route to any population risk: sample the projections, never the vectors.

A predictor sees a token only through u = X.k and w = X.v, and the label through X_J.v*; all are
Gaussian with the covariance of the Gram matrix of (k, v, v*). So a sample costs 2 normals per
background token and 3 for the informative one, whatever the dimension. The label noise is left out:
its contribution to the risk, noise^2, is known.

The reported error is one standard error, with an allowance for rare events that were not sampled
(sampled_mean.py): where a sharp head is wrong less often than once in all draws, the sampled losses
contain no trace of what that costs. The allowance is the loss of a typical draw at the worst
weights drawn, if any of its tokens were the informative one,

    most = E (max(|Y|, max_l |X_l.v*|) + S max_l |w_l|)^2,   S = the largest sum of |weights| drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attnscope.numerics.border.sampled_estimate import share_error
from attnscope.numerics.border.sampled_mean import SampledMean
from attnscope.numerics.semidefinite import semidefinite_root
from attnscope.predictors.attention import Predictor
from attnscope.tasks.base import PlantedTask, Projections, is_defined
from attnscope.tasks.planted.definition_checks import check_one_number
from attnscope.theory.law import Law
from attnscope.theory.loss_values import loss_values
from attnscope.theory.overlaps import Overlaps, head_gram

__all__ = [
    "heads_output",
    "monte_carlo_excess",
    "sampled_excess",
    "sampled_heads_excess",
    "sampled_wrong",
]

SCORES_PER_BLOCK = 1 << 19  # scores drawn at a time, in a few arrays of 4 MB


def monte_carlo_excess(
    predictor: Predictor,
    overlaps: tuple[float, ...],
    lam: float,
    law: Law,
    *,
    samples: int,
    seed: object,
) -> tuple[float, float]:
    """(mean, standard error) of (Y - T(X))^2 without label noise at scalar overlaps."""
    rng = np.random.default_rng(seed)  # type: ignore[arg-type]
    kap, eta, the, nu, rho = overlaps
    length = law.length
    # of the covariance of (u, w, y)
    root = semidefinite_root(np.array([[1, rho, eta], [rho, 1, nu], [eta, nu, 1.0]]))
    mean = law.signal * np.array([kap, the, law.alignment])
    drawn = _Losses(samples)
    while drawn.losses.count < samples:
        n = min(samples - drawn.losses.count, max(1, SCORES_PER_BLOCK // length))
        # (n, 3): u, w, y
        informative = mean + law.gamma * rng.standard_normal((n, 3)) @ root.T
        u = rng.standard_normal((n, length))
        w = rho * u + np.sqrt(max(0.0, 1 - rho**2)) * rng.standard_normal((n, length))
        u[:, 0], w[:, 0] = (
            informative[:, 0],
            informative[:, 1],
        )  # the predictor does not care about the position
        label = informative[:, 2]
        drawn.add(label, np.abs(label), [(predictor.weights(lam * u), w)])
    return drawn.found()


class _Losses:
    """Squared losses of sums of heads, as they are drawn."""

    def __init__(self, samples: int) -> None:
        self.losses = SampledMean(samples)
        self.sums = np.zeros(3)  # of y^2, y max|w|, max|w|^2, y what |Y| may come to
        self.heaviest = 0.0  # S

    def add(
        self,
        label: np.ndarray,
        reach: np.ndarray,
        heads: list[tuple[np.ndarray, np.ndarray]],
    ) -> None:
        """Labels (n,) and what |label| may come to, weights and values (n, L) of each head."""
        output = np.sum([np.sum(a * w, axis=1) for a, w in heads], axis=0)
        self.losses.add((label - output) ** 2)
        largest = np.max([np.abs(w).max(axis=1) for _, w in heads], axis=0)
        heaviest = np.sum([np.abs(a).sum(axis=1) for a, _ in heads], axis=0).max()
        self.heaviest = max(self.heaviest, float(heaviest))
        self.sums += (reach @ reach, reach @ largest, largest @ largest)

    def found(self) -> tuple[float, float]:
        """(mean, error)."""
        powers = np.array([1.0, 2 * self.heaviest, self.heaviest**2])
        most = float(powers @ self.sums) / self.losses.count
        return float(self.losses.mean), self.losses.error(most)


def sampled_excess(
    task: PlantedTask,
    predictor: Predictor,
    o: Overlaps,
    lam: float,
    samples: int,
    seed: object,
) -> tuple[float, float]:
    """(mean, standard error) of (Y - T(X))^2 without label noise on any planted task, at scalar
    overlaps, from its projections.
    """
    return sampled_heads_excess(
        task, predictor, 1, head_gram(o, task.teacher_gram), lam, samples, seed
    )


def sampled_wrong(
    task: PlantedTask, predictor: Predictor, o: Overlaps,
    lam: float, samples: int, seed: object,
) -> tuple[float, float]:  # fmt: skip
    """(share, its error) of outputs whose sign is not the label, at scalar overlaps."""

    gram = head_gram(o, task.teacher_gram)
    wrong = 0
    for seen in _drawn_sequences(task, gram, samples, seed):
        output = heads_output(predictor, 1, seen, lam)
        wrong += int(np.sum(np.sign(output) != seen.label))
    return wrong / samples, share_error(wrong, samples)


def sampled_heads_excess(
    task: PlantedTask,
    head: Predictor,
    heads: int,
    gram: np.ndarray,
    lam: float,
    samples: int,
    seed: object,
) -> tuple[float, float]:
    """The same for several heads that add up, at the Gram matrix of (k_1, v_1, ..., teachers)."""

    if is_defined(task):
        check_one_number(task)
    loss = getattr(task, "loss", "squared")
    if loss != "squared" or len(task.teacher_gram) < 2:
        return _sampled_loss(task, head, heads, gram, lam, samples, seed, loss)
    drawn = _Losses(samples)
    for seen in _drawn_sequences(task, gram, samples, seed):
        # X_l.v* of all values: teachers come last, k_1*, v_1*, ...
        values = np.abs(seen.fields[:, :, 2 * heads + 1 :: 2]).max(axis=(1, 2))
        reach = np.maximum(np.abs(seen.label), values)
        drawn.add(seen.label, reach, _weights_and_values(head, heads, seen, lam))
    mean, error = drawn.found()
    return seen.unit**2 * mean, seen.unit**2 * error


def _sampled_loss(
    task: PlantedTask,
    head: Predictor,
    heads: int,
    gram: np.ndarray,
    lam: float,
    samples: int,
    seed: object,
    loss: object,
) -> tuple[float, float]:
    """(mean, standard error) of a loss other than the squared one, which has the label noise
    inside, or on a task without a value.
    """
    noise = np.random.default_rng(0xA05E)  # apart from the projections' own stream

    def losses(seen: Projections) -> np.ndarray:
        label = seen.label
        if loss != "squared":
            label = label + task.noise / seen.unit * noise.standard_normal(label.shape)
        values = loss_values(loss, heads_output(head, heads, seen, lam), label)
        return seen.unit**2 * values

    values = np.concatenate(
        [losses(seen) for seen in _drawn_sequences(task, gram, samples, seed)]
    )
    return float(values.mean()), float(values.std(ddof=1) / samples**0.5)


def heads_output(head: Predictor, heads: int, seen: Projections, lam: float) -> np.ndarray:
    """T(X), (n,), of heads whose vectors k_1, v_1, ... come first among the fields."""
    parts = _weights_and_values(head, heads, seen, lam)
    return np.sum([np.sum(a * w, axis=1) for a, w in parts], axis=0)


def _weights_and_values(
    head: Predictor, heads: int, seen: Projections, lam: float
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and values (n, L) of each head."""
    fields = [seen.fields[:, :, i] for i in range(2 * heads)]
    return [(head.weights(lam * u, seen.mask), w) for u, w in zip(fields[::2], fields[1::2])]


def _drawn_sequences(
    task: PlantedTask, gram: np.ndarray, samples: int, seed: object
) -> Iterator[Projections]:
    """`samples` sequences, a few MB at a time."""
    rng = np.random.default_rng(seed)  # type: ignore[arg-type]
    block = max(1, SCORES_PER_BLOCK // (task.length * len(gram)))
    for done in range(0, samples, block):
        yield task.projections(min(block, samples - done), gram, rng)
