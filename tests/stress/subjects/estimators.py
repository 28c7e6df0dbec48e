"""The two estimators on small bags, honest and nasty: no reference, but what every answer must
satisfy.

Labels and tokens are standardised before anything else, so powers of two as factors move no bit of
the fit (EXACT allows for the way back); the order of tokens changes the order of sums and nothing
else (SUMS).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from attnscope.estimators.fit.witness_law import WITNESS
from attnscope.numerics.compiled.data_pass import SIGMOID
from stress.draws import choice, log_uniform
from stress.judged import Answer, Relation, at_most, same
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

EXACT = 1e-12  # relative: a prediction is scaled back and shifted once
# sums over the tokens of a bag in another order, through exponentials of scores up to 1e6
SUMS = 1e-9
HALF = 0.5  # a coverage that two bags reach
KINDS = (
    "task",
    "noise",
    "one label",
    "one token",
    "few bags",
    "heavy tails",
    "an outlier",
    "constant feature",
)


def _draw(rng: np.random.Generator) -> Setting:
    return {
        "kind": choice(rng, KINDS),
        "bags": int(rng.integers(6, 30)),
        "length": int(rng.integers(1, 5)),
        "dim": int(rng.integers(1, 4)),
        "ragged": bool(rng.random() < 0.3),
        "label_scale": log_uniform(rng, 1e-8, 1e8, [1.0]),
        "label_shift": log_uniform(rng, 1e-3, 1e3, [0.0]),
        "token_scale": log_uniform(rng, 1e-8, 1e8, [1.0]),
        "options": choice(
            rng,
            [
                {},
                {"alpha": (np.inf, 1.0)},
                {"n_starts": 2, "gate": "linear", "robust": False},
            ],
        ),
        "factor": float(2.0 ** rng.integers(-20, 20)),
        "seed": int(rng.integers(2**31)),
    }


def _data(s: Setting) -> tuple[Any, np.ndarray]:
    """(bags, labels of scale 1)."""
    n = 2 if s["kind"] == "few bags" else s["bags"]
    L = s["length"]
    d = s["dim"]
    rng = np.random.default_rng(s["seed"])
    x = rng.standard_normal((n, L, d))
    if s["kind"] == "heavy tails":
        x = rng.standard_t(1.5, size=(n, L, d))
    where = rng.integers(L, size=n)
    if s["kind"] == "task":
        x[np.arange(n), where, 0] += 5.0
    y = x[np.arange(n), where, -1] + 0.1 * rng.standard_normal(n)
    if s["kind"] == "noise":
        y = rng.standard_normal(n)
    if s["kind"] == "one label":
        y = np.full(n, 1.0)
    if s["kind"] == "one token":
        x[:] = x[0, 0]
    if s["kind"] == "an outlier":
        x[n // 2, 0] = 1e10
    if s["kind"] == "constant feature":
        x[..., 0] = 3.0
    x = x * s["token_scale"]
    bags = [x[i, : 1 + int(rng.integers(L))] for i in range(n)] if s["ragged"] else x
    return bags, y


def _fitted(model: Any, bags: Any, labels: np.ndarray) -> Any:
    """The fit, without the sentence that warns of an extreme token: it is asked for here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*farthest token", category=UserWarning)
        return model.fit(bags, labels)


def _flat(weights: Any) -> np.ndarray:
    return np.concatenate([np.ravel(w) for w in weights])


def _lengths(bags: Any) -> np.ndarray:
    return np.array([len(bag) for bag in bags])


def _turned(bags: Any) -> Any:
    """Tokens of each bag in the opposite order."""
    return [bag[::-1] for bag in bags] if isinstance(bags, list) else bags[:, ::-1]


def _common(model: Any, bags: Any, answers: Any) -> Iterable[Relation]:
    """Relations of both estimators; `answers` maps bags to what is predicted, (n, ...),
    of scale 1.
    """
    weights = _flat(model.attention(bags))
    L = _lengths(bags)
    starts = np.cumsum(L) - L
    yield same(
        "weights sum to 1 in each bag",
        np.add.reduceat(weights, starts),
        np.ones(len(L)),
        EXACT,
    )
    yield at_most(
        "weights in [0, 1]", np.maximum(-weights, weights - 1), np.zeros(len(weights)), EXACT
    )
    place = model.locate(bags)
    yield at_most(
        "a place within the bag", np.maximum(-place, place - L + 1), np.zeros(len(L)), 0.0
    )
    own = _flat(model.locate_set(bags, coverage=HALF))
    yield same("a set holds the located token", own[starts + place], np.ones(len(L)), 0.0)
    more = _flat(model.locate_set(bags, coverage=0.9))
    yield at_most("a larger set for more coverage", own, more, 0.0)
    yield at_most(
        "the tokens of a set have the weight that was asked for",
        HALF * (1 - model._mean_share),
        np.add.reduceat(own * weights, starts),
        EXACT,
    )
    turned = _turned(bags)
    mirror = np.concatenate([start + np.arange(n)[::-1] for start, n in zip(starts, L)])
    yield same(
        "attention follows the tokens", _flat(model.attention(turned))[mirror], weights, SUMS
    )
    first = answers(bags)
    # an outlier's answer is as large as the outlier
    rounding = SUMS * np.maximum(1.0, np.abs(first))
    yield same("tokens in another order", answers(turned), first, rounding)
    yield same("bags in another order", answers(bags[::-1])[::-1], first, rounding)


def _token_by_token(model: Any, bags: Any, predicted: np.ndarray) -> Iterable[Relation]:
    """Scores and values, put together again, are attention and prediction, where the model is a
    mixture and nothing that reads all tokens alike has a share.
    """
    if model._mean_share or model.fitted_.combine in (SIGMOID, WITNESS):
        return
    L = _lengths(bags)
    starts = np.cumsum(L) - L
    scores = _flat(model.scores(bags))
    odds = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), L))
    weights = odds / np.repeat(np.add.reduceat(odds, starts), L)
    yield same(
        "attention is the scores' softmax", _flat(model.attention(bags)), weights, SUMS
    )
    parts = weights * _flat(model.values(bags))
    rounding = SUMS * np.add.reduceat(np.abs(parts), starts) + SUMS * np.abs(predicted)
    yield same("attention times values", np.add.reduceat(parts, starts), predicted, rounding)


# -- numbers ---------------------------------------------------------------------------------------


def _regressor(
    s: Setting, factor: float = 1.0, tokens: float = 1.0
) -> tuple[Any, Any, float]:
    bags, y = _data(s)
    scaled = [bag * tokens for bag in bags] if isinstance(bags, list) else bags * tokens
    unit = s["label_scale"] * factor
    labels = unit * y + unit * s["label_shift"]
    return _fitted(at.SingleLocationRegressor(**s["options"]), scaled, labels), scaled, unit


def _call_numbers(s: Setting) -> Answer:
    model, bags, _ = _regressor(s)
    value = np.concatenate(
        [
            model.predict(bags),
            model.predict_interval(bags, HALF).ravel(),
            _flat(model.attention(bags)),
        ]
    )
    return Answer(value, np.zeros(value.shape))


def _number_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    model, bags, unit = _regressor(s)
    size = 1 + s["label_shift"]
    predicted = model.predict(bags)
    yield from _common(model, bags, lambda b: model.predict(b) / unit / size)
    yield from _token_by_token(model, bags, predicted)
    low, high = model.predict_interval(bags, HALF).T
    yield at_most(
        "the prediction within its interval",
        np.maximum(low - predicted, predicted - high),
        0.0,
        EXACT * unit * size,
    )
    most = len(bags) / (len(bags) + 1)  # what so many bags reach
    wide = model.predict_interval(bags, coverage=most)
    yield at_most(
        "a wider interval for more coverage", wide[:, 0] - low, 0.0, EXACT * unit * size
    )
    other, _, scale = _regressor(s, factor=s["factor"])
    yield same(
        "labels times a power of two",
        other.predict(bags) / scale,
        predicted / unit,
        EXACT * size,
    )
    other, scaled, _ = _regressor(s, tokens=s["factor"])
    yield same(
        "tokens times a power of two",
        other.predict(scaled) / unit,
        predicted / unit,
        EXACT * size,
    )


# -- classes ---------------------------------------------------------------------------------------


def _classifier(s: Setting, names: Any, **more: Any) -> tuple[Any, Any]:
    bags, y = _data(s)
    number = (
        np.digitize(y, np.quantile(y, [0.4, 0.7]))
        if s["seed"] % 2
        else (y > np.median(y)).astype(int)
    )
    return _fitted(
        at.SingleLocationClassifier(**s["options"], **more), bags, np.asarray(names)[number]
    ), bags


def _call_classes(s: Setting) -> Answer:
    model, bags = _classifier(s, [0, 1, 2])
    value = np.concatenate([model.predict_proba(bags).ravel(), _flat(model.attention(bags))])
    return Answer(value, np.zeros(value.shape))


def _class_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    model, bags = _classifier(s, [0, 1, 2])
    p = model.predict_proba(bags)
    yield same("probabilities sum to 1", p.sum(axis=1), np.ones(len(p)), EXACT)
    yield at_most("probabilities in [0, 1]", np.maximum(-p, p - 1), np.zeros(p.shape), 0.0)
    chosen = np.searchsorted(model.classes_, model.predict(bags))
    yield same(
        "the class is the most probable", p[np.arange(len(p)), chosen], p.max(axis=1), 0.0
    )
    few = model.predict_set(bags, HALF)
    yield same("a set holds the class", few[np.arange(len(p)), chosen], np.ones(len(p)), 0.0)
    most = len(bags) / (len(bags) + 1)  # what so many bags reach
    yield at_most("more classes for more coverage", few, model.predict_set(bags, most), 0.0)
    yield from _common(model, bags, model.predict_proba)
    if p.shape[1] == 2:
        yield from _token_by_token(model, bags, p[:, 1])
    logs = np.log(np.maximum(p, 1e-300))
    logs = logs[:, 1] - logs[:, 0] if p.shape[1] == 2 else logs
    yield same("log odds", model.decision_function(bags), logs, EXACT * (1 + np.abs(logs)))
    # 0 and 1 may be read as witnesses, other names are not unless one asks
    named, _ = _classifier(s, ["a", "b", "c"], assumption=model.assumption_)
    yield same("names of the classes do not matter", named.predict_proba(bags), p, 0.0)


def _one_class(s: Setting) -> str:
    return "fewer than two classes" if s["kind"] in ("one label", "few bags") else ""


SUBJECTS: list[Subject] = [
    Subject(
        "SingleLocationRegressor",
        tuple(
            f"SingleLocationRegressor.{name}"
            for name in (
                "predict",
                "predict_interval",
                "attention",
                "locate",
                "locate_set",
                "scores",
                "values",
            )
        ),
        _draw,
        _call_numbers,
        relations=_number_relations,
        weight=0.5,
    ),
    Subject(
        "SingleLocationClassifier",
        tuple(
            f"SingleLocationClassifier.{name}"
            for name in (
                "predict",
                "predict_proba",
                "predict_set",
                "decision_function",
                "attention",
                "locate",
                "locate_set",
                "scores",
                "values",
            )
        ),
        _draw,
        _call_classes,
        relations=_class_relations,
        may_refuse=_one_class,
        weight=0.3,
    ),
]
