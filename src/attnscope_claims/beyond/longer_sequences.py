"""Trained models on longer sequences, sampled: what claim beyond-14 measures.

Two ways. `length_samples` runs the models on whole sequences. `risk_given_scores` averages
E[(T - Y)^2 | scores] of a simplified predictor over sampled scores: the same mean with a smaller
variance, at one number a token. With unit k, v and |v| = a,

    background token    v.x ~ N(rho z, 1 - rho^2) given its score z
    informative token   z = s kappa + gam g,  v.x ~ N(s theta + gam rho g, gam^2 (1 - rho^2)),
                        label N(gam eta g, gam^2 (1 - eta^2)), covariance gam^2 (nu - rho eta)

with the overlaps kappa = k.k*, eta = k.v*, theta = v.k*, nu = v.v*, rho = k.v, so with weights w

    E[(T - Y)^2 | scores] = (a (rho sum_l w_l z_l + w_J (s theta + gam rho g)) - gam eta g)^2
        + a^2 (1 - rho^2) (sum_l w_l^2 + gam^2 w_J^2) + gam^2 (1 - eta^2)
        - 2 a w_J gam^2 (nu - rho eta),    sums over background tokens.

Scores are float32, which rounds a risk by 1e-6 of itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import log
from typing import Any, NamedTuple

import numpy as np

from attnscope.claims.compare import mean_and_error
from attnscope.dynamics.networks.blocks import BlockHistory
from attnscope.dynamics.networks.length_curves import length_curves
from attnscope.predictors.attention import Softmax
from attnscope.predictors.blocks.compared_models import SimplifiedAttention, has_two_vectors
from attnscope.predictors.blocks.sequence_model import Parameters
from attnscope.predictors.blocks.transformer import TransformerBlock
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.risks.normalised_risk import weight_moments

__all__ = [
    "L0",
    "LENGTHS",
    "Curves",
    "length_samples",
    "logit_ratio",
    "risk_given_scores",
    "scaled_with_length",
    "simplified_weights",
]

L0 = 16  # tokens of a training sequence
LENGTHS = (L0, 512, 4096)
PART_SCORES = 2_000_000  # scores drawn at a time, 8 MB


class Curves(NamedTuple):
    """Sampled, (runs, lengths) each: excess, its error, weight of the informative token,
    sequences per length (lengths,).
    """

    excess: np.ndarray
    error: np.ndarray
    weight: np.ndarray
    samples: np.ndarray


def scaled_with_length(
    model: SimplifiedAttention | TransformerBlock, sharp: bool, length: int
) -> SimplifiedAttention | TransformerBlock:
    """The trained model with the inverse temperature for that length."""
    return replace(model, inverse_temperature=log(length) / log(L0)) if sharp else model


def length_samples(history: BlockHistory, repeats: int, seed: int) -> dict[bool, Curves]:
    """Length curves of every run at both inverse temperatures on the same sequences,
    `repeats` disjoint sets of them pooled.
    """
    rows: tuple[list, list] = ([], [])
    for task, model, p in (_in_span(history, p) for p in history.parameters):
        cases = [(partial(scaled_with_length, model, sharp), p) for sharp in (False, True)]
        parts = [length_curves(task, cases, LENGTHS, 1024, seed + i) for i in range(repeats)]
        for sharp in (False, True):
            excess = np.mean([part[sharp].excess for part in parts], axis=0)
            error = np.sqrt(
                np.mean([part[sharp].error ** 2 for part in parts], axis=0) / repeats
            )
            weight = np.mean([part[sharp].weight for part in parts], axis=0)
            rows[sharp].append((excess, error, weight))
    samples = repeats * parts[0][0].samples
    return {
        sharp: Curves(*(np.array([row[i] for row in rows[sharp]]) for i in range(3)), samples)  # type: ignore[call-arg]
        for sharp in (False, True)
    }


def _in_span(history: BlockHistory, p: Parameters) -> tuple[SingleLocation, Any, Parameters]:
    """A simplified predictor in the four dimensions of k*, v*, k, v, where it has the same law;
    a block stays where it is.
    """
    task = history.task
    model = history.model
    if not has_two_vectors(model):
        return task, model, p
    axes = np.linalg.qr(np.stack([task.key, task.value, p["k"], p["v"]]).T)[0].T  # (4, d)
    small = SingleLocation(
        4,
        task.length,
        task.gamma,
        task.noise,
        task.signal,
        key=axes @ task.key,
        value=axes @ task.value,
    )
    return small, replace(model, dim=4), {name: axes @ x for name, x in p.items()}


def risk_given_scores(
    history: BlockHistory, sharp: bool, lengths: tuple[int, ...], budget: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """(runs, lengths) each: mean and standard error of E[(T - Y)^2 | scores] of simplified
    predictors over `budget` sampled scores a length; all runs share the scores.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for length in lengths:
        model = scaled_with_length(history.model, sharp, length)  # type: ignore[arg-type]
        n = PART_SCORES // length
        losses = []
        for _ in range(budget // PART_SCORES):
            z = rng.standard_normal((n, length - 1), dtype=np.float32)
            g = rng.standard_normal(n)
            losses.append(
                [
                    _loss(history.task, model.inverse_temperature, p, z, g)
                    for p in history.parameters
                ]
            )
        rows.append([mean_and_error(x) for x in np.concatenate(losses, axis=1)])
    mean, error = np.array(rows).transpose(2, 1, 0)
    return mean, error


def _loss(
    task: SingleLocation, factor: float, p: Parameters, z: np.ndarray, g: np.ndarray
) -> np.ndarray:
    """(n,) E[(T - Y)^2 | scores] of a simplified predictor whose logits are multiplied by `factor`:
    z (n, L - 1) standard scores of background tokens, g (n,) of the informative one.
    """
    size, a = np.linalg.norm(p["k"]), np.linalg.norm(p["v"])
    lam = float(factor * size)
    k, v = p["k"] / size, p["v"] / a
    pairs = ((k, task.key), (k, task.value), (v, task.key), (v, task.value), (k, v))
    kappa, eta, theta, nu, rho = (float(x @ y) for x, y in pairs)
    gam, s = task.gamma, task.signal
    e = np.exp(np.float32(lam) * z - np.float32(lam * s * kappa))
    own = np.exp(lam * gam * g)
    total = e.sum(1, dtype=float) + own
    w = own / total
    first = np.einsum("nl,nl->n", e, z) / total
    squares = np.einsum("nl,nl->n", e, e) / total**2
    gap = a * (rho * first + w * (s * theta + gam * rho * g)) - gam * eta * g
    return (
        gap**2
        + a**2 * (1 - rho**2) * (squares + gam**2 * w**2)
        + gam**2 * (1 - eta**2)
        - 2 * a * w * gam**2 * (nu - rho * eta)
    )


def simplified_weights(history: BlockHistory, length: int) -> np.ndarray:
    """(runs,) exact mean weight of the informative token: scores are N(s k.k*, gam^2) for it and
    N(0, 1) for the others, times |k|.
    """
    task = history.task
    sizes = [float(np.linalg.norm(p["k"])) for p in history.parameters]
    shifts = [
        task.signal * float(p["k"] @ task.key) / size
        for p, size in zip(history.parameters, sizes)
    ]
    return np.array(
        [
            weight_moments(Softmax(lam), lam, task.gamma, shift, 1, length)[0]
            for lam, shift in zip(sizes, shifts)
        ]
    )


def logit_ratio(blocks: BlockHistory, simple: BlockHistory, seed: int) -> float:
    """How far the informative token's logit lies above the others' mean, on the same sequences:
    the least of the blocks over the mean of the simplified predictors.
    """
    batch = blocks.task.sample(1000, seed)
    block: TransformerBlock = blocks.model  # type: ignore[assignment]

    def above(logits: np.ndarray) -> float:
        own = logits[np.arange(len(logits)), batch.location]
        return float(np.mean(own - (logits.sum(1) - own) / (L0 - 1)))

    of_blocks = [
        above(np.log(block.attention(p, batch.tokens)[:, 0])) for p in blocks.parameters
    ]
    return min(of_blocks) / float(
        np.mean([above(batch.tokens @ p["k"]) for p in simple.parameters])
    )
