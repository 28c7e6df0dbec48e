"""What a predictor of a plugin must satisfy.

loads       a plain word of its own, made from its defaults
weights     finite, of the scores' shape, moved with the tokens, 0 on masked tokens
risk        on SingleLocation, against the mean loss of sampled tokens and against
            risk(method="monte-carlo"), which samples projections
gradient    against central differences of the risk, of activations and normalised weights
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from attnscope.plugin_checks.record import CheckFailed, CheckRecord, CheckSkipped, checks
from attnscope.plugin_checks.sampled_risk import (
    compared,
    gradient_strain,
    head_vectors,
    risk_strain,
)
from attnscope.plugin_checks.settings import worst_of_settings
from attnscope.plugin_checks.task_checks import announced_entry, load_step
from attnscope.plugins import EntryPoint
from attnscope.predictors.attention import has_one_head, is_componentwise, is_normalised
from attnscope.registry import Entry
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk

__all__ = ["predictor_records"]

TASK = SingleLocation(dim=10, length=5, signal=2.0, noise=0.2)
SHAPE = (50, 7)  # sequences and tokens of the scores
SCORE_SCALES = (1.0, 30.0)  # a typical and a sharp head
WEIGHT_ROUNDING = 1e-9  # relative to the largest weight: sums in another order


def predictor_records(point: EntryPoint, settings: int) -> Iterator[CheckRecord]:
    """The checks of one predictor."""

    def entry() -> Entry:
        return announced_entry(point, "predictor")

    steps: list[tuple[str, Callable[[], float | None]]] = [
        load_step(entry),
        (
            "weights follow the tokens",
            lambda: _one_head_worst(_weights, entry(), settings),
        ),
        ("risk against two samplings", lambda: _one_head_worst(_risks, entry(), settings)),
        (
            "gradient against differences",
            lambda: _one_head_worst(_gradients, entry(), settings),
        ),
    ]
    yield from checks(point.origin, "predictor", point.name, steps)


def _one_head_worst(
    check: Callable[[Any, int, str], float], entry: Entry, settings: int
) -> float | None:
    def checked(predictor: Any, seed: int, where: str) -> float:
        if not has_one_head(predictor):
            raise CheckSkipped("only predictors of one head are checked")
        if not getattr(predictor, "any_length", True):
            raise CheckSkipped("a predictor of sequences of one length is not checked")
        return check(predictor, seed, where)

    return worst_of_settings(checked, entry, settings)


def _weights(predictor: Any, seed: int, where: str) -> float:
    rng = np.random.default_rng([seed, 0x3E16])
    worst = 0.0
    for scale in SCORE_SCALES:
        scores = scale * rng.standard_normal(SHAPE)
        weights = np.asarray(predictor.weights(scores))
        if weights.shape != SHAPE or not np.isfinite(weights).all():
            raise CheckFailed(
                f"weights are not finite numbers of the scores' shape at {where}."
            )
        order = rng.permutation(SHAPE[1])
        size = WEIGHT_ROUNDING * max(float(np.abs(weights).max()), 1e-300)
        moved = np.abs(np.asarray(predictor.weights(scores[:, order])) - weights[:, order])
        worst = max(worst, float(moved.max()) / size)
        if worst > 1:
            raise CheckFailed(
                f"weights change by {moved.max():.3g} where the tokens change places at {where}.",
                worst,
            )
        mask = np.arange(SHAPE[1]) < 4
        masked = np.asarray(predictor.weights(scores, np.broadcast_to(mask, SHAPE)))
        alone = np.asarray(predictor.weights(scores[:, mask]))
        if masked[:, ~mask].any() or np.abs(masked[:, mask] - alone).max() > size:
            raise CheckFailed(
                f"masked tokens have weight or change that of others at {where}."
            )
    return worst


def _risks(predictor: Any, seed: int, where: str) -> float:
    by_tokens = risk_strain(TASK, predictor, seed, where)
    o = Overlaps.of(TASK, *head_vectors(TASK, seed))
    drawn = risk(TASK, predictor, o, method="monte-carlo", seed=seed + 2)
    by_projections = compared(
        "risk",
        risk(TASK, predictor, o),
        float(drawn.value),
        float(drawn.error),
        f"method='monte-carlo' at {where}",
    )
    return max(by_tokens, by_projections)


def _gradients(predictor: Any, seed: int, where: str) -> float:
    if not (is_componentwise(predictor) or is_normalised(predictor)):
        raise CheckSkipped("only activations and normalised weights have a gradient")
    return gradient_strain(TASK, predictor, seed, where)
