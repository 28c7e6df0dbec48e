"""Sequence models and small attention models against their formulas written out,
and their risks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from attnscope.dynamics.networks.attention_model import Contexts, losses
from stress.draws import choice, log_integer, log_uniform
from stress.estimates import answer_of
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import blocks as written
from stress.references import training as reference
from stress.subject import Setting, Subject
from stress.subjects.training import draw, task_of
from stress.tokens import orthonormal, unit

__all__ = ["SUBJECTS"]


# -- sequence models -------------------------------------------------------------------------------

# one shape for all settings: an executable is compiled for each
DIM = 4
TOKENS = 3


def _draw_model(rng: np.random.Generator) -> Setting:
    return {
        "model": choice(
            rng, ["block", "plain block", "softmax", "erf", "dense", "recurrent"]
        ),
        "inverse_temperature": log_uniform(rng, 1e-3, 1e3, (1.0,)),
        "tokens": rng.standard_normal((2, TOKENS, DIM)) * log_uniform(rng, 1e-3, 1e3, (1.0,)),
        "mask": rng.random((2, TOKENS)) < 0.7,
        "seed": int(rng.integers(1 << 31)),
    }


def _model(setting: Setting) -> Any:
    lam = setting["inverse_temperature"]
    models: dict[str, Any] = {
        "block": lambda: at.TransformerBlock(DIM, heads=2, hidden=5, inverse_temperature=lam),
        "plain block": lambda: at.TransformerBlock(
            DIM, hidden=0, norm=None, inverse_temperature=lam
        ),
        "softmax": lambda: at.SimplifiedAttention(DIM, "softmax", lam),
        "erf": lambda: at.SimplifiedAttention(DIM, "erf", lam),
        "dense": lambda: at.DenseNet(DIM, TOKENS, 5),
        "recurrent": lambda: at.GatedRecurrent(DIM, 5),
    }
    return models[setting["model"]]()


def _mask(setting: Setting) -> np.ndarray:
    mask = setting["mask"].copy()
    mask[:, 0] = True  # every sequence has a token
    return mask


def _model_error(setting: Setting) -> float:
    """Scores of size lam |x|^2 rounded to 1e-15 each, outputs of size |x|."""
    size = 1.0 + float(np.abs(setting["tokens"]).max()) * DIM
    sharp = setting["inverse_temperature"] * size**2 if setting["model"] != "dense" else 1.0
    return 1e-13 * size * (1 + sharp)


def _call_model(setting: Setting) -> Answer:
    model = _model(setting)
    out = model.predict(model.init(setting["seed"]), setting["tokens"], _mask(setting))
    return Answer(out, np.full(2, _model_error(setting)))


def _truth_model(setting: Setting) -> Truth:
    model = _model(setting)
    lam = setting["inverse_temperature"]
    p = model.init(setting["seed"])
    out = []
    for x, real in zip(setting["tokens"], _mask(setting), strict=True):
        if "block" in setting["model"]:
            out.append(written.block(p, x, real, lam)[0])
        elif setting["model"] in ("softmax", "erf"):
            out.append(written.simplified(p, x, real, lam, setting["model"]))
        else:
            out.append(
                (written.dense if setting["model"] == "dense" else written.recurrent)(
                    p, x, real
                )
            )
    return Truth(np.array(out))


def _relations_model(setting: Setting, answer: Answer) -> Iterable[Relation]:
    model = _model(setting)
    mask = _mask(setting)
    p = model.init(setting["seed"])
    hidden = np.where(mask[:, :, None], setting["tokens"], 7.0)
    yield same(
        "masked tokens do not matter", model.predict(p, hidden, mask), answer.value, 0.0
    )
    if setting["model"] not in ("dense", "recurrent"):
        turned = model.predict(p, setting["tokens"][:, ::-1], mask[:, ::-1])
        yield same("tokens in reverse order", turned, answer.value, 2 * answer.error)
    if "block" in setting["model"]:
        weights = model.attention(p, setting["tokens"], mask)
        yield at_most("weights of tokens sum to at most 1", weights.sum(2), 1.0, 1e-14)
        yield at_most("weights are not negative", -weights, 0.0, 0.0)


def _draw_simplified(rng: np.random.Generator) -> Setting:
    more = {
        "kind": "erf",
        "k_size": log_uniform(rng, 0.1, 10.0, (1.0,)),
        "v_size": log_uniform(rng, 0.01, 100.0, (1.0,)),
    }
    return draw(rng) | {"inverse_temperature": log_uniform(rng, 1e-3, 3.0)} | more


def _simplified(setting: Setting) -> tuple[Any, dict[str, np.ndarray]]:
    model = at.SimplifiedAttention(
        len(setting["k"]), setting["kind"], setting["inverse_temperature"]
    )
    return model, {
        "k": setting["k_size"] * setting["k"],
        "v": setting["v_size"] * setting["v"],
    }


def _call_simplified(setting: Setting) -> Answer:
    return answer_of(at.simplified_risk(task_of(setting), *_simplified(setting)))


def _truth_simplified(setting: Setting) -> Truth | None:
    k = setting["k"]
    v = setting["v"]
    stars = setting["stars"]
    lam = setting["inverse_temperature"] * setting["k_size"]
    if lam * max(1.0, setting["gamma"]) > 15:
        return None  # the reference's panels resolve erf up to here
    o = np.array([k @ stars[0], k @ stars[1], v @ stars[0], v @ stars[1], k @ v])
    numbers = (lam, setting["gamma"], setting["signal"], setting["length"])
    value = float(reference.head_excess("erf", o, *numbers, setting["v_size"]))
    # overlaps are rounded, and the moments are sums over L tokens of squares of size v_size^2
    g2 = setting["gamma"] ** 2
    size = (
        setting["v_size"] ** 2 * (setting["signal"] ** 2 + g2 + setting["length"] ** 2)
        + 1
        + g2
    )
    return Truth(value, 1e-14 * size)


def _draw_curve(rng: np.random.Generator) -> Setting:
    setting = _draw_simplified(rng)
    stars = orthonormal(rng, 2, DIM)
    more = {
        "k": unit(rng, DIM),
        "v": unit(rng, DIM),
        "stars": stars,
        "length": choice(rng, [2, 5]),
    }
    return (
        setting
        | more
        | {"kind": choice(rng, ["softmax", "erf"]), "v_size": log_uniform(rng, 0.1, 3.0)}
    )


def _call_curve(setting: Setting) -> Answer:
    model, p = _simplified(setting)
    found = at.length_curve(
        task_of(setting), model, p, [setting["length"]], samples=1024, seed=setting["seed"]
    )
    return Answer(found.excess[0], found.error[0], sampled=True)


def _truth_curve(setting: Setting) -> Truth:
    exact = at.simplified_risk(task_of(setting), *_simplified(setting))
    return Truth(exact.excess, exact.error)


# -- small attention models ------------------------------------------------------------------------


def _draw_attend(rng: np.random.Generator) -> Setting:
    n, L, M, d, dv, dy = (log_integer(rng, 1, 4, (1,)) for _ in range(6))
    scale = log_uniform(rng, 1e-3, 1e3, (1.0,))
    shapes = {
        "keys": (n + 1, L, d),
        "values": (n + 1, L, dv),
        "queries": (n + 1, M, d),
        "targets": (n + 1, M, dy),
    }
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()} | {
        "query_key": scale * rng.standard_normal((3, d, d)),
        "sink": None if rng.random() < 0.5 else float(rng.standard_normal() * 10),
        "output": rng.standard_normal((3, dy, dv)),
    }


def _contexts(setting: Setting) -> Contexts:
    return Contexts(*(setting[name] for name in ("keys", "values", "queries", "targets")))


def _parameters(setting: Setting, which: int) -> at.AttentionParameters:
    return at.AttentionParameters(
        setting["query_key"][which], setting["sink"], setting["output"][which]
    )


def _call_attend(setting: Setting) -> Answer:
    out = at.attend(_parameters(setting, 0), _contexts(setting))
    scores = (
        np.abs(setting["queries"])
        @ np.abs(setting["query_key"][0])
        @ np.abs(setting["keys"]).transpose(0, 2, 1)
    )
    delta = min(1e-14 * (1 + float(scores.max())), 1.0)
    reach = (
        float((np.abs(setting["values"]) @ np.abs(setting["output"][0]).T).max())
        * setting["keys"].shape[1]
    )
    return Answer(out, np.full(out.shape, delta * reach))


def _attended(setting: Setting, which: int) -> np.ndarray:
    numbers = (setting["query_key"][which], setting["sink"], setting["output"][which])
    rows = zip(setting["keys"], setting["values"], setting["queries"], strict=True)
    return np.array(
        [[reference.attend(*numbers, k, v, q) for q in queries] for k, v, queries in rows]
    )


def _truth_attend(setting: Setting) -> Truth:
    return Truth(_attended(setting, 0))


def _call_gap(setting: Setting) -> Answer:
    """The gap, and the three parts of the excess risk against a Bayes predictor that says 0."""
    test = _contexts(setting)
    train = Contexts(*(x[::-1] + 0.5 for x in test))
    fitted, best, returned = (_parameters(setting, i) for i in range(3))
    gap = at.generalisation_gap(fitted, best, train, test)
    parts = at.excess_risk(returned, fitted, best, test, lambda c: np.zeros_like(c.targets))
    out = np.array(
        [gap, parts.approximation, parts.generalisation, parts.optimisation, parts.excess]
    )
    size = float(
        max(losses(p, c).max() for p in (fitted, best, returned) for c in (train, test))
    )
    scores = float(np.abs(setting["query_key"]).max()) * 100
    return Answer(out, np.full(5, 1e-13 * (1 + size) * (1 + scores)))


def _truth_gap(setting: Setting) -> Truth:
    y = setting["targets"]
    shifted = setting | {
        name: setting[name][::-1] + 0.5 for name in ("keys", "values", "queries", "targets")
    }

    def risk(s: Setting, which: int) -> float:
        return float(np.mean(np.sum((_attended(s, which) - s["targets"]) ** 2, axis=2)))

    train_drop = risk(shifted, 1) - risk(shifted, 0)
    test = [risk(setting, i) for i in range(3)]  # fitted, best, returned
    bayes = float(np.mean(np.sum(y**2, axis=2)))
    gap = train_drop - (test[1] - test[0])
    return Truth(
        np.array(
            [gap, test[1] - bayes, test[0] - test[1], test[2] - test[0], test[2] - bayes]
        )
    )


SUBJECTS = [
    Subject(
        "sequence models",
        (
            "TransformerBlock.predict",
            "TransformerBlock.attention",
            "SimplifiedAttention.predict",
            "DenseNet.predict",
            "GatedRecurrent.predict",
        ),
        _draw_model,
        _call_model,
        _truth_model,
        _relations_model,
    ),
    Subject(
        "simplified_risk",
        ("simplified_risk",),
        _draw_simplified,
        _call_simplified,
        _truth_simplified,
    ),
    Subject(
        "length_curve", ("length_curve",), _draw_curve, _call_curve, _truth_curve, weight=0.3
    ),
    Subject(
        "attend", ("attend", "AttentionParameters"), _draw_attend, _call_attend, _truth_attend
    ),
    Subject(
        "generalisation_gap and excess_risk",
        ("generalisation_gap", "excess_risk"),
        _draw_attend,
        _call_gap,
        _truth_gap,
    ),
]
