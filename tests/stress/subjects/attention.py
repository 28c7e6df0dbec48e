"""Attention weights and predictions.

Weights and predictions carry no error: ROUNDING times the size of the scores (and of the tokens) is
what is asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import attention
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

ROUNDING = 1e-15  # per term of a sum of d products

KINDS = {
    "softmax": lambda lam, offset: at.Softmax(lam),
    "softmax_one": lambda lam, offset: at.SoftmaxOne(lam),
    "softplus": lambda lam, offset: at.SoftplusAttention(lam),
    "erf": lambda lam, offset: at.Erf(lam),
    "linear": at.LinearAttention,
}


# -- weights and predictions -----------------------------------------------------------------------


def _draw_tokens(rng: np.random.Generator) -> Setting:
    L = log_integer(rng, 1, 6, (1, 2))
    d = log_integer(rng, 1, 5)
    mask = rng.random((2, L)) < 0.7
    mask[:, rng.integers(L)] = True
    scale = log_uniform(rng, 1e-6, 1e6, (0.0, 1.0))
    return {
        "kind": choice(rng, list(KINDS)),
        "inverse_temperature": log_uniform(rng, 1e-6, 1e6, (0.0, 1.0)),
        "offset": float(rng.normal()),
        "tokens": scale * rng.standard_normal((2, L, d)),
        "k": rng.standard_normal(d),
        "v": rng.standard_normal(d),
        "mask": mask if rng.random() < 0.5 else None,
    }


def _real(setting: Setting) -> np.ndarray:
    return (
        np.ones(setting["tokens"].shape[:2], bool)
        if setting["mask"] is None
        else setting["mask"]
    )


def _predictor(setting: Setting) -> Any:
    return KINDS[setting["kind"]](setting["inverse_temperature"], setting["offset"])


def _score_error(setting: Setting) -> np.ndarray:
    """Rounding of the scores (n, 1): the largest of a sequence,
    because normalised weights see them all.
    """
    size = np.abs(setting["tokens"]) @ np.abs(setting["k"])
    return (
        ROUNDING
        * setting["tokens"].shape[2]
        * setting["inverse_temperature"]
        * size.max(axis=1, keepdims=True)
    )


def _weight_error(setting: Setting, weights: np.ndarray) -> np.ndarray:
    delta = _score_error(setting)
    if setting["kind"] in ("erf", "linear"):
        return 1.2 * delta + 4 * ROUNDING * (np.abs(weights) + abs(setting["offset"]))
    return (
        np.minimum(2 * delta, 1.0) * np.minimum(weights + 2 * delta, 1.0)
        + 10 * ROUNDING * weights
        + 1e-300
    )


def _weights(setting: Setting) -> Answer:
    found = at.attention_weights(
        _predictor(setting), setting["k"], setting["tokens"], setting["mask"]
    )
    return Answer(found, _weight_error(setting, found))


def _weights_truth(setting: Setting) -> Truth:
    arguments = setting["kind"], setting["offset"], setting["k"]
    rows = zip(setting["tokens"], _real(setting), strict=True)
    found = [
        attention.weights(*arguments, x, setting["inverse_temperature"], real)
        for x, real in rows
    ]
    return Truth(np.array([[float(a) for a in row] for row in found]))


def _weight_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """Masked tokens have weight 0; normalised weights add up to 1, with a sink to less."""
    out = [
        same("masked", answer.value[~_real(setting)], np.zeros((~_real(setting)).sum()), 0.0)
    ]
    total = answer.value.sum(axis=1)
    if setting["kind"] in ("softmax", "softplus"):
        out.append(same("sum to 1", total, np.ones_like(total), 1e-14))
    if setting["kind"] == "softmax_one":
        out.append(at_most("sum to at most 1", total, np.ones_like(total), 1e-14))
    return out


def _predict(setting: Setting) -> Answer:
    found = at.predict(
        _predictor(setting), setting["k"], setting["v"], setting["tokens"], setting["mask"]
    )
    weights = at.attention_weights(
        _predictor(setting), setting["k"], setting["tokens"], setting["mask"]
    )
    size = np.abs(setting["tokens"]) @ np.abs(setting["v"])
    per_token = (_weight_error(setting, weights) + 10 * ROUNDING * np.abs(weights)) * size
    return Answer(found, per_token.sum(axis=1) + 1e-300)


def _predict_truth(setting: Setting) -> Truth:
    arguments = setting["kind"], setting["offset"], setting["k"]
    out = []
    for x, real in zip(setting["tokens"], _real(setting), strict=True):
        weights = attention.weights(*arguments, x, setting["inverse_temperature"], real)
        values = [
            sum(
                attention.mpf(a) * attention.mpf(b)
                for a, b in zip(row, setting["v"], strict=True)
            )
            for row in x
        ]
        out.append(float(sum(a * b for a, b in zip(weights, values, strict=True))))
    return Truth(np.array(out))


SUBJECTS: list[Subject] = [
    Subject(
        "attention_weights",
        ("attention_weights",),
        _draw_tokens,
        _weights,
        _weights_truth,
        _weight_relations,
        weight=1.0,
    ),
    Subject("predict", ("predict",), _draw_tokens, _predict, _predict_truth),
]
