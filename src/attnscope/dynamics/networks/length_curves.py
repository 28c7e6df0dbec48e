"""Trained models on sequences of other lengths: measured risk, and the weight of the informative
token.

notation: as in blocks. Sequences are drawn once for several models; measured risks have sampling
errors, which are given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from attnscope.dynamics.networks.blocks import check_fits, mean_and_error, noiseless_batch
from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.whole_values import refuse_lost
from attnscope.predictors.blocks.sequence_model import (
    Parameters,
    SequenceModel,
    is_sequence_model,
)
from attnscope.tasks.planted.single_location import Batch, SingleLocation
from attnscope.theory.risk import checked_task

__all__ = ["LengthCurve", "at_length", "length_curve", "length_curves"]

# tokens per length of a length curve, a second of drawing at d = 32; but never fewer sequences
TOKENS_PER_LENGTH = 1 << 20
FEWEST_SEQUENCES = 256


class LengthCurve(NamedTuple):
    """A trained model on sequences of other lengths.

    excess, error, samples: (lengths,) measured risk over noise^2, its standard error, sequences
    drawn. weight, weight_error: (lengths, heads) mean attention weight of the informative token,
    its standard error; heads = 0 for other models than blocks.
    """

    length: np.ndarray
    excess: np.ndarray
    error: np.ndarray
    samples: np.ndarray
    weight: np.ndarray
    weight_error: np.ndarray


def length_curve(
    task: SingleLocation,
    model: SequenceModel | Callable[[int], SequenceModel],
    parameters: Parameters,
    lengths: Sequence[int],
    samples: int = 4096,
    seed: int = 0,
) -> LengthCurve:
    """Measure a trained model on `samples` sequences of every length (fewer of the longest:
    TOKENS_PER_LENGTH), location uniform.

    Args:
        task: a SingleLocation.
        model: a trained sequence model, or a function of the length that returns one, as lambda L:
            replace(block, inverse_temperature=log(L)/log(16)).
        parameters: of the model, as `train_block` returns them.
        lengths: at which to measure, >= 1 each.
        samples: sequences of each length, >= 2.
        seed: the same gives the same sequences.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=8, length=4)
    >>> parameters = {"k": task.key, "v": task.value}
    >>> curve = at.length_curve(task, at.SimplifiedAttention(8), parameters, [4, 8], samples=64)
    >>> [name for name in curve._fields][:3], curve[0].tolist()
    (['length', 'excess', 'error'], [4, 8])
    """
    return length_curves(task, [(model, parameters)], lengths, samples, seed)[0]


def length_curves(
    task: SingleLocation,
    cases: Sequence[tuple[SequenceModel | Callable[[int], SequenceModel], Parameters]],
    lengths: Sequence[int],
    samples: int = 4096,
    seed: int = 0,
) -> list[LengthCurve]:
    """`length_curve` of every case (model, parameters) on the same sequences,
    which are drawn once.
    """
    of = "length_curve"
    checked_task(task, of)
    most = check.integer(samples, "samples", of, 2)
    seed = check.seed_value(seed, of)
    refuse_lost(lengths, "lengths", of)
    if np.ndim(lengths) != 1:
        raise bad("lengths", of, "a list of lengths", lengths, "[4, 8]")
    if not all(is_sequence_model(model) or callable(model) for model, _ in cases):
        raise bad("model", of, "a sequence model, or a function of the length", cases[0][0])
    tasks = [at_length(task, check.integer(length, "lengths", of, 1)) for length in lengths]
    models = [
        [_model_at_length(model, longer.length) for model, _ in cases] for longer in tasks
    ]
    for longer, row in zip(tasks, models):
        for chosen in row:
            check_fits(longer, chosen, of)
    rows: list[list[tuple[Any, ...]]] = [[] for _ in cases]
    for longer, row in zip(tasks, models):
        test = noiseless_batch(
            longer, min(most, max(FEWEST_SEQUENCES, TOKENS_PER_LENGTH // longer.length)), seed
        )
        for chosen, (_, parameters), out in zip(row, cases, rows):
            loss, weight = _errors_and_weights(chosen, parameters, test)
            out.append(
                (longer.length, *mean_and_error(loss), len(loss), *mean_and_error(weight))
            )
    return [LengthCurve(*(np.array(x) for x in zip(*out))) for out in rows]


def _model_at_length(model: Any, length: int) -> SequenceModel:
    return model if is_sequence_model(model) else model(length)


def _errors_and_weights(
    model: SequenceModel, parameters: Parameters, test: Batch
) -> tuple[np.ndarray, np.ndarray]:
    """Squared errors (n,) and the informative token's weights (n, heads)."""
    if hasattr(model, "observe"):
        output, weights = model.observe(parameters, test.tokens)
        return (output - test.target) ** 2, weights[np.arange(len(output)), :, test.location]
    return (model.predict(parameters, test.tokens) - test.target) ** 2, np.empty(
        (len(test.target), 0)
    )


def at_length(task: SingleLocation, length: int) -> SingleLocation:
    """The task with the same directions and numbers on sequences of another length,
    location uniform.
    """
    return SingleLocation(
        task.dim,
        length,
        task.gamma,
        task.noise,
        task.signal,
        key=task.key,
        value=task.value,
        seed=task.seed,
    )
