"""Attention weights and predictions; blocks with layer norm; two gradient steps; the Cramer-Rao limit.

Weights and predictions carry no error: ROUNDING times the size of the scores (and of the tokens) is what is asked.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import attnscope as at
from attnscope.selftest.draws import choice, log_integer, log_uniform, pmf
from attnscope.selftest.references import attention, fisher, location_posterior
from attnscope.selftest.subject import Answer, Relation, Setting, Subject, Truth, at_most, same

__all__ = ["SUBJECTS"]

ROUNDING = 1e-15  # per term of a sum of d products
STANDARD_ERRORS = 6.0  # of a sampled truth against a bounding error: 2e-9 each
NORM = 3e-6  # what the neglected 1e-6 of a token's variance does to a weight
CLOSED = 1e-13  # relative, for closed forms that return plain numbers
LONG = 1e-13  # relative to the largest token, of the two gradients

KINDS = {
    "softmax": lambda lam, offset: at.Softmax(lam),
    "softmax_one": lambda lam, offset: at.SoftmaxOne(lam),
    "softplus": lambda lam, offset: at.SoftplusAttention(lam),
    "erf": lambda lam, offset: at.Erf(lam),
    "linear": at.LinearAttention,
}


# -- weights and predictions --------------------------------------------------------------------------------------------------


def _draw_tokens(rng: np.random.Generator) -> Setting:
    L, d = log_integer(rng, 1, 6, (1, 2)), log_integer(rng, 1, 5)
    mask = rng.random((2, L)) < 0.7
    mask[:, rng.integers(L)] = True
    scale = log_uniform(rng, 1e-6, 1e6, (0.0, 1.0))
    return {
        "kind": choice(rng, list(KINDS)),
        "temperature": log_uniform(rng, 1e-6, 1e6, (0.0, 1.0)),
        "offset": float(rng.normal()),
        "tokens": scale * rng.standard_normal((2, L, d)),
        "k": rng.standard_normal(d),
        "v": rng.standard_normal(d),
        "mask": mask if rng.random() < 0.5 else None,
    }


def _real(setting: Setting) -> np.ndarray:
    return np.ones(setting["tokens"].shape[:2], bool) if setting["mask"] is None else setting["mask"]


def _predictor(setting: Setting) -> Any:
    return KINDS[setting["kind"]](setting["temperature"], setting["offset"])


def _score_error(setting: Setting) -> np.ndarray:
    """Rounding of the scores (n, 1): the largest of a sequence, because normalised weights see them all."""
    size = np.abs(setting["tokens"]) @ np.abs(setting["k"])
    return ROUNDING * setting["tokens"].shape[2] * setting["temperature"] * size.max(axis=1, keepdims=True)


def _weight_error(setting: Setting, weights: np.ndarray) -> np.ndarray:
    delta = _score_error(setting)
    if setting["kind"] in ("erf", "linear"):
        return 1.2 * delta + 4 * ROUNDING * (np.abs(weights) + abs(setting["offset"]))
    return np.minimum(2 * delta, 1.0) * np.minimum(weights + 2 * delta, 1.0) + 10 * ROUNDING * weights + 1e-300


def _weights(setting: Setting) -> Answer:
    found = at.attention_weights(_predictor(setting), setting["k"], setting["tokens"], setting["mask"])
    return Answer(found, _weight_error(setting, found))


def _weights_truth(setting: Setting) -> Truth:
    arguments = setting["kind"], setting["offset"], setting["k"]
    rows = zip(setting["tokens"], _real(setting), strict=True)
    found = [attention.weights(*arguments, x, setting["temperature"], real) for x, real in rows]
    return Truth(np.array([[float(a) for a in row] for row in found]))


def _weight_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """Masked tokens have weight 0; normalised weights add up to 1, with a sink to less."""
    out = [same("masked", answer.value[~_real(setting)], np.zeros((~_real(setting)).sum()), 0.0)]
    total = answer.value.sum(axis=1)
    if setting["kind"] in ("softmax", "softplus"):
        out.append(same("sum to 1", total, np.ones_like(total), 1e-14))
    if setting["kind"] == "softmax_one":
        out.append(at_most("sum to at most 1", total, np.ones_like(total), 1e-14))
    return out


def _predict(setting: Setting) -> Answer:
    found = at.predict(_predictor(setting), setting["k"], setting["v"], setting["tokens"], setting["mask"])
    weights = at.attention_weights(_predictor(setting), setting["k"], setting["tokens"], setting["mask"])
    size = np.abs(setting["tokens"]) @ np.abs(setting["v"])
    per_token = (_weight_error(setting, weights) + 10 * ROUNDING * np.abs(weights)) * size
    return Answer(found, per_token.sum(axis=1) + 1e-300)


def _predict_truth(setting: Setting) -> Truth:
    arguments = setting["kind"], setting["offset"], setting["k"]
    out = []
    for x, real in zip(setting["tokens"], _real(setting), strict=True):
        weights = attention.weights(*arguments, x, setting["temperature"], real)
        values = [sum(attention.mpf(a) * attention.mpf(b) for a, b in zip(row, setting["v"], strict=True)) for row in x]
        out.append(float(sum(a * b for a, b in zip(weights, values, strict=True))))
    return Truth(np.array(out))


# -- layer norm ----------------------------------------------------------------------------------------------------------------


def _draw_block(rng: np.random.Generator) -> Setting:
    return {
        "dim": int(choice(rng, [4, 6, 8, 16, 32])),
        "length": choice(rng, [1, 2, log_integer(rng, 1, 30), log_integer(rng, 30, 10**12)]),
        "gamma": log_uniform(rng, 0.05, 5, (1.0,)),
        "signal": log_uniform(rng, 0.1, 30, (0.0,)),
        "heads": int(choice(rng, [1, 2])),
        "norm": choice(rng, ["layer", None]),
        "temperature": log_uniform(rng, 1e-2, 100, (1.0,)),
        "seed": int(rng.integers(100)),
    }


def _block(setting: Setting) -> tuple[Any, Any, Any]:
    task = at.SingleLocation(
        setting["dim"], setting["length"], setting["gamma"], signal=setting["signal"], seed=setting["seed"]
    )
    model = at.TransformerBlock(
        setting["dim"], setting["heads"], norm=setting["norm"], temperature=setting["temperature"]
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
    more = at.informative_weight(task, model, p, length=2 * setting["length"], head=setting["heads"] - 1)
    return [
        at_most("0 <= weight", 0.0, answer.value, answer.error),
        at_most("weight <= 1", answer.value, 1.0, answer.error),
        at_most("weight(2 L) <= weight(L)", more.excess, answer.value, more.error + answer.error),
    ]


def _vast_logits(setting: Setting) -> str:
    return (
        "logits that vary too much for the budget"
        if setting["norm"] and setting["temperature"] * setting["dim"] > 1e3
        else ""
    )


def _share_truth(setting: Setting) -> Truth | None:
    if setting["length"] > 30:
        return None
    task, _, p = _block(setting)
    head, r = setting["heads"] - 1, p["register"]
    normed = setting["norm"] is not None
    own = p["gain1"] * (r - r.mean()) / r.std() + p["bias1"] if normed else r
    width = setting["dim"] // setting["heads"]
    slope = p["key"][head].T @ (p["query"][head] @ own) * setting["temperature"] / math.sqrt(width)
    if setting["length"] == 1 and not normed:  # logistic(S_J - S_0) with S_J normal: one integral
        gap = float(slope @ own) - setting["signal"] * float(slope @ task.key)
        return Truth(
            float(location_posterior.lost(gap, setting["gamma"] * float(np.linalg.norm(slope)))), 1e-14 * (1 + abs(gap))
        )
    gain, bias = (p["gain1"], p["bias1"]) if normed else (1.0, 0.0)
    numbers = setting["gamma"], setting["signal"], setting["length"]
    value, error = attention.block_weight(task.key, *numbers, slope, gain, bias, float(slope @ own), normed)
    return Truth(value, STANDARD_ERRORS * error + NORM * (1 + float(np.abs(slope).sum())) + 1e-12)


def _floor(setting: Setting) -> Answer:
    task, _, _ = _block(setting)
    found = at.layer_norm_floor(task, samples=4000, seed=setting["seed"])
    return Answer(found.excess, found.error, sampled=True)


def _floor_truth(setting: Setting) -> Truth:
    task, _, _ = _block(setting)
    return Truth(*attention.floor(task.key, task.value, task.gamma, task.signal))


def _floor_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """Nobody who is told J loses more than the spread of Y, and the mean of a token is lost for sure."""
    task, _, _ = _block(setting)
    lost = setting["gamma"] ** 2 * float(task.value.sum()) ** 2 / setting["dim"]
    return [
        at_most("floor <= gam^2", answer.value, setting["gamma"] ** 2, answer.error, sampled=True),
        at_most("mean of a token <= floor", lost, answer.value, answer.error + CLOSED * lost, sampled=True),
    ]


# -- two gradient steps ----------------------------------------------------------------------------------------------------------


def _draw_sparse(rng: np.random.Generator) -> Setting:
    L = log_integer(rng, 2, 10**6, (2, 3))
    return {
        "dim": 50, "length": L, "marked": min(log_integer(rng, 1, L, (1,)), L - 1),
        "strength": log_uniform(rng, 1e-6, 1e6, (1.0,)), "samples_per_dim": log_uniform(rng, 1e-6, 1e6, (1.0,)),
    }  # fmt: skip


def _alignment(setting: Setting) -> Answer:
    task = at.SparseTokenClassification(
        setting["dim"], setting["length"], setting["strength"], marked=setting["marked"]
    )
    found = np.array(at.two_step_alignment(task, setting["samples_per_dim"]))
    return Answer(found, CLOSED * found)


def _alignment_truth(setting: Setting) -> Truth:
    numbers = (setting[name] for name in ("length", "marked", "strength", "samples_per_dim"))
    return Truth(np.array([float(x) for x in attention.alignment(*numbers)]), 1e-300)


def _draw_labelled(rng: np.random.Generator) -> Setting:
    shape = (log_integer(rng, 1, 40, (1,)), log_integer(rng, 1, 6, (1, 2)), log_integer(rng, 1, 6))
    tokens = log_uniform(rng, 1e-6, 1e6, (1.0,)) * rng.standard_normal(shape)
    return {"tokens": tokens, "target": rng.choice([-1.0, 1.0], shape[0])}


def _steps(setting: Setting) -> Answer:
    found = at.two_gradient_steps(setting["tokens"], setting["target"])
    size = float(np.abs(setting["tokens"]).max())
    d = setting["tokens"].shape[2]
    slack = np.repeat([LONG * size, LONG * d * size**3], d)
    return Answer(np.concatenate(found), slack)


def _steps_truth(setting: Setting) -> Truth:
    return Truth(np.concatenate(attention.two_steps(setting["tokens"], setting["target"])).astype(float))


# -- the Cramer-Rao limit ----------------------------------------------------------------------------------------------------------


def _draw_limit(rng: np.random.Generator) -> Setting:
    L = log_integer(rng, 1, 4, (1, 2))
    return {
        "dim": int(rng.integers(2, 4)),
        "length": L,
        "gamma": log_uniform(rng, 0.4, 2, (1.0,)),
        "signal": log_uniform(rng, 1, 20),
        "noise": log_uniform(rng, 0.05, 3),
        "probs": tuple(float(x) for x in pmf(rng, L)) if rng.random() < 0.3 else None,
        "n": log_integer(rng, 1, 10**6),
        "intercept": bool(rng.integers(2)),
        "background": bool(rng.integers(2)),
        "seed": int(rng.integers(1000)),
    }


def _limit_task(setting: Setting) -> at.SingleLocation:
    numbers = {name: setting[name] for name in ("dim", "length", "gamma", "noise", "signal", "seed")}
    return at.SingleLocation(location_probs=setting["probs"], **numbers)


def _limit(setting: Setting) -> Answer:
    more = {name: setting[name] for name in ("intercept", "background", "seed")}
    found = at.cramer_rao(_limit_task(setting), setting["n"], samples=6400, **more)
    return Answer(found.excess, found.error + CLOSED * found.excess, sampled=True)


def _limit_truth(setting: Setting) -> Truth | None:
    task = _limit_task(setting)
    probs = np.full(task.length, 1 / task.length) if setting["probs"] is None else task.location_probs
    if setting["length"] == 1:  # least squares on the only token, whatever else is unknown
        return Truth(setting["noise"] ** 2 * (setting["dim"] + setting["intercept"]) / setting["n"])
    more: Any = (setting["noise"], probs, setting["intercept"], setting["background"])
    value, error = fisher.limit(task.key, task.value, task.gamma, task.signal, *more)
    return Truth(value / setting["n"], error / setting["n"]) if error < 0.05 * value else None


def _limit_refusal(setting: Setting) -> str:
    """One token alone tells nothing of a background."""
    return "the background is never seen, or hardly told apart" if setting["background"] else ""


SUBJECTS: list[Subject] = [
    Subject(
        "attention_weights", ("attention_weights",), _draw_tokens, _weights, _weights_truth, _weight_relations, weight=1.0,
    ),
    Subject("predict", ("predict",), _draw_tokens, _predict, _predict_truth),
    Subject("informative_weight", ("informative_weight",), _draw_block, _share, _share_truth, _share_relations, _vast_logits, truths=0.5, weight=0.5),
    Subject("layer_norm_floor", ("layer_norm_floor",), _draw_block, _floor, _floor_truth, _floor_relations, truths=0.3, weight=0.3),
    Subject("two_step_alignment", ("two_step_alignment",), _draw_sparse, _alignment, _alignment_truth, weight=0.5),
    Subject("two_gradient_steps", ("two_gradient_steps",), _draw_labelled, _steps, _steps_truth, weight=0.5),
    Subject(
        "cramer_rao", ("cramer_rao",), _draw_limit, _limit, _limit_truth, may_refuse=_limit_refusal, truths=0.3, weight=0.3,
    ),
]  # fmt: skip
