"""Blocks with layer norm: the weight of the informative token, the floor below which no risk falls.

Closed forms carry no error: CLOSED times their size is what is asked.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most
from stress.references import attention, location_posterior
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

STANDARD_ERRORS = 6.0  # of a sampled truth against a bounding error: 2e-9 each

CLOSED = 1e-13  # relative, for closed forms that return plain numbers
NORM = 3e-6  # what the neglected 1e-6 of a token's variance does to a weight

# -- layer norm ------------------------------------------------------------------------------------


def _draw_block(rng: np.random.Generator) -> Setting:
    return {
        "dim": int(choice(rng, [4, 6, 8, 16, 32])),
        "length": choice(rng, [1, 2, log_integer(rng, 1, 30), log_integer(rng, 30, 10**12)]),
        "gamma": log_uniform(rng, 0.05, 5, (1.0,)),
        "signal": log_uniform(rng, 0.1, 30, (0.0,)),
        "heads": int(choice(rng, [1, 2])),
        "norm": choice(rng, ["layer", None]),
        "inverse_temperature": log_uniform(rng, 1e-2, 100, (1.0,)),
        "seed": int(rng.integers(100)),
    }


def _block(setting: Setting) -> tuple[Any, Any, Any]:
    task = at.SingleLocation(
        setting["dim"],
        setting["length"],
        setting["gamma"],
        signal=setting["signal"],
        seed=setting["seed"],
    )
    model = at.TransformerBlock(
        setting["dim"],
        setting["heads"],
        norm=setting["norm"],
        inverse_temperature=setting["inverse_temperature"],
    )
    p: dict[str, Any] = dict(model.init(setting["seed"]))
    rng = np.random.default_rng(setting["seed"])
    p["register"] = rng.standard_normal(setting["dim"])
    if setting["norm"]:
        p["gain1"] = 1 + 0.3 * rng.standard_normal(setting["dim"])
        p["bias1"] = 0.3 * rng.standard_normal(setting["dim"])
    return task, model, p


def _share(setting: Setting) -> Answer:
    task, model, p = _block(setting)
    found = at.informative_weight(task, model, p, head=setting["heads"] - 1)
    return Answer(found.excess, found.error)


def _share_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """A probability that falls when tokens are added."""
    task, model, p = _block(setting)
    more = at.informative_weight(
        task, model, p, length=2 * setting["length"], head=setting["heads"] - 1
    )
    return [
        at_most("0 <= weight", 0.0, answer.value, answer.error),
        at_most("weight <= 1", answer.value, 1.0, answer.error),
        at_most(
            "weight(2 L) <= weight(L)", more.excess, answer.value, more.error + answer.error
        ),
    ]


def _vast_logits(setting: Setting) -> str:
    return (
        "logits that vary too much for the budget"
        if setting["norm"] and setting["inverse_temperature"] * setting["dim"] > 1e3
        else ""
    )


def _share_truth(setting: Setting) -> Truth | None:
    if setting["length"] > 30:
        return None
    task, _, p = _block(setting)
    head = setting["heads"] - 1
    r = p["register"]
    normed = setting["norm"] is not None
    own = p["gain1"] * (r - r.mean()) / r.std() + p["bias1"] if normed else r
    width = setting["dim"] // setting["heads"]
    slope = (
        p["key"][head].T
        @ (p["query"][head] @ own)
        * setting["inverse_temperature"]
        / math.sqrt(width)
    )
    # logistic(S_J - S_0) with S_J normal: one integral
    if setting["length"] == 1 and not normed:
        gap = float(slope @ own) - setting["signal"] * float(slope @ task.key)
        return Truth(
            float(
                location_posterior.lost(gap, setting["gamma"] * float(np.linalg.norm(slope)))
            ),
            1e-14 * (1 + abs(gap)),
        )
    gain, bias = (p["gain1"], p["bias1"]) if normed else (1.0, 0.0)
    numbers = setting["gamma"], setting["signal"], setting["length"]
    value, error = attention.block_weight(
        task.key, *numbers, slope, gain, bias, float(slope @ own), normed
    )
    return Truth(
        value, STANDARD_ERRORS * error + NORM * (1 + float(np.abs(slope).sum())) + 1e-12
    )


def _floor(setting: Setting) -> Answer:
    task, _, _ = _block(setting)
    found = at.layer_norm_floor(task, samples=4000, seed=setting["seed"])
    return Answer(found.excess, found.error, sampled=True)


def _floor_truth(setting: Setting) -> Truth:
    task, _, _ = _block(setting)
    return Truth(*attention.floor(task.key, task.value, task.gamma, task.signal))


def _floor_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """Nobody who is told J loses more than the spread of Y,
    and the mean of a token is lost for sure.
    """
    task, _, _ = _block(setting)
    lost = setting["gamma"] ** 2 * float(task.value.sum()) ** 2 / setting["dim"]
    return [
        at_most(
            "floor <= gam^2", answer.value, setting["gamma"] ** 2, answer.error, sampled=True
        ),
        at_most(
            "mean of a token <= floor",
            lost,
            answer.value,
            answer.error + CLOSED * lost,
            sampled=True,
        ),
    ]


SUBJECTS: list[Subject] = [
    Subject(
        "informative_weight",
        ("informative_weight",),
        _draw_block,
        _share,
        _share_truth,
        _share_relations,
        _vast_logits,
        truths=0.5,
        weight=0.3,
    ),
    Subject(
        "layer_norm_floor",
        ("layer_norm_floor",),
        _draw_block,
        _floor,
        _floor_truth,
        _floor_relations,
        truths=0.3,
        weight=0.3,
    ),
]
