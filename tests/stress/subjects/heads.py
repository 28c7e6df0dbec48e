"""Several heads: weights and predictions against 40 digits.

notation: as in references.head_weights. A score of size q is known to ROUNDINGS d eps q, weights of
a softmax to twice that relatively.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, same
from stress.predictors import HEADS, predictor_of
from stress.references import head_weights as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

EPS = float(np.finfo(np.float64).eps)
ROUNDINGS = 16  # per score: a product and a sum over d, the exponential, the sum of weights


# -- weights and predictions -----------------------------------------------------------------------


def _draw_weights(rng: np.random.Generator) -> Setting:
    H = log_integer(rng, 1, 3)
    d = log_integer(rng, 1, 6, (1,))
    L = log_integer(rng, 1, 6, (1, 2))
    real = rng.random(L) < 0.7
    real[rng.integers(L)] = True
    return {
        "kind": choice(rng, list(HEADS)),
        "inverse_temperature": log_uniform(rng, 1e-6, 1e6, (0.0,)),
        "keys": rng.standard_normal((H, d)) * log_uniform(rng, 1e-2, 1e2, (1.0,)),
        "values": rng.standard_normal((H, d)),
        "tokens": rng.standard_normal((1, L, d)) * log_uniform(rng, 1e-3, 1e3, (1.0, 0.0)),
        "mask": None if rng.random() < 0.5 else real[None],
        "bias": rng.standard_normal(H) * log_uniform(rng, 1e-2, 1e2),
        "curvature": log_uniform(rng, 1e-3, 1e3, (0.0,)) * rng.choice([-1, 1]),
    }


def _score_error(setting: Setting) -> float:
    lengths = (
        np.linalg.norm(setting["tokens"][0], axis=1).max()
        * np.linalg.norm(setting["keys"], axis=1).max()
    )
    d = setting["tokens"].shape[2]
    return ROUNDINGS * EPS * (d + 2) * (1.0 + setting["inverse_temperature"] * float(lengths))


def _weight_error(kind: str, a: np.ndarray, delta: float) -> np.ndarray:
    if kind == "linear":
        return np.full(a.shape, delta)
    if kind == "erf":
        return np.full(a.shape, min(2.0, 1.2 * delta))  # |erf'| <= 2/sqrt(pi)
    return np.ones_like(a) if delta > 0.25 else a * np.expm1(4 * delta) + 4 * EPS


def _with_prediction(
    a: np.ndarray, error: np.ndarray, prediction: np.ndarray, setting: Setting
) -> Answer:
    """Weights (H, L), then sum_hl a_hl x_l.v_h."""
    reach = np.abs(setting["values"]) @ np.abs(setting["tokens"][0]).T  # (H, L)
    spread = float(np.sum((error + ROUNDINGS * EPS * np.abs(a)) * reach)) + 1e-300
    return Answer(np.append(a.ravel(), prediction), np.append(error.ravel(), spread))


def _call_multi_head(setting: Setting) -> Answer:
    model = at.MultiHead(predictor_of(setting), len(setting["keys"]))
    a = at.attention_weights(model, setting["keys"], setting["tokens"], setting["mask"])[0]
    said = at.predict(
        model, setting["keys"], setting["values"], setting["tokens"], setting["mask"]
    )
    return _with_prediction(
        a, _weight_error(setting["kind"], a, _score_error(setting)), said, setting
    )


def _real(setting: Setting) -> np.ndarray:
    return (
        np.ones(setting["tokens"].shape[1], bool)
        if setting["mask"] is None
        else setting["mask"][0]
    )


def _truth_of(a: np.ndarray, setting: Setting) -> Truth:
    said = float(np.sum(a * (setting["values"] @ setting["tokens"][0].T)))
    return Truth(np.append(a.ravel(), said))


def _truth_multi_head(setting: Setting) -> Truth:
    x = setting["tokens"][0]
    real = _real(setting)
    numbers = (setting["kind"], setting["inverse_temperature"])
    return _truth_of(
        np.array([reference.one_head(*numbers, k, x, real) for k in setting["keys"]]), setting
    )


def _relations_multi_head(setting: Setting, answer: Answer) -> Iterable[Relation]:
    """A MultiHead of one head is that head."""
    one = predictor_of(setting)
    a = at.attention_weights(one, setting["keys"][0], setting["tokens"], setting["mask"])[0]
    yield same(
        "one head of several is the head",
        a,
        answer.value[: a.size],
        2 * answer.error[: a.size],
    )
    masked = answer.value[:-1].reshape(-1, a.size)[:, ~_real(setting)]
    yield same("masked tokens have weight 0", masked, np.zeros_like(masked), 0.0)


def _bent(setting: Setting) -> float:
    """Error of the joint softmax's scores."""
    squares = float((setting["tokens"][0] ** 2).sum(1).max())
    more = abs(setting["curvature"]) * squares / 2 + float(np.abs(setting["bias"]).max())
    return _score_error(setting) + ROUNDINGS * EPS * (setting["tokens"].shape[2] + 2) * more


def _call_joint(setting: Setting) -> Answer:
    model = at.BayesSoftmax(
        setting["inverse_temperature"], setting["bias"], setting["curvature"]
    )
    a = at.attention_weights(model, setting["keys"], setting["tokens"], setting["mask"])[0]
    said = at.predict(
        model, setting["keys"], setting["values"], setting["tokens"], setting["mask"]
    )
    return _with_prediction(a, _weight_error("softmax", a, _bent(setting)), said, setting)


def _truth_joint(setting: Setting) -> Truth:
    numbers = (
        setting["inverse_temperature"],
        setting["keys"],
        setting["bias"],
        setting["curvature"],
    )
    return _truth_of(
        reference.joint_softmax(*numbers, setting["tokens"][0], _real(setting)), setting
    )


def _draw_grid(rng: np.random.Generator) -> Setting:
    M = log_integer(rng, 1, 4, (1,))
    N = log_integer(rng, 1, 4, (1,))
    kind = choice(rng, ["softmax", "softmax", "erf", "softmax-1"])
    return {
        "kind": kind,
        "inverse_temperature": log_uniform(rng, 1e-4, 1e3, (0.0,)),
        "rows": M,
        "columns": N,
        "entropy": bool(kind == "softmax" and rng.random() < 0.5),
        "keys": np.ones((1, 1)),
        "values": np.ones((1, 1)),
        "tokens": rng.standard_normal((1, M * N, 1)),
    }


def _call_grid(setting: Setting) -> Answer:
    model = at.RowColumn(
        predictor_of(setting), setting["rows"], setting["columns"], setting["entropy"]
    )
    a = at.attention_weights(model, setting["keys"][0], setting["tokens"])
    said = at.predict(model, setting["keys"][0], setting["values"][0], setting["tokens"])
    # the row step's error enters the column step's scores, which are sums over a row of scores
    # times weights
    size = (
        1.0
        + setting["inverse_temperature"]
        * float(np.abs(setting["tokens"]).max())
        * setting["columns"]
    )
    delta = _score_error(setting) * (2 + 2 * size)
    kind = "softmax" if setting["kind"] != "erf" else "erf"
    return _with_prediction(a, _weight_error(kind, a, delta), said, setting)


def _truth_grid(setting: Setting) -> Truth:
    scores = setting["inverse_temperature"] * setting["tokens"][0, :, 0]
    shape = (setting["rows"], setting["columns"], setting["entropy"])
    return _truth_of(reference.grid_weights(setting["kind"], scores, *shape)[None], setting)


def _relations_grid(setting: Setting, answer: Answer) -> Iterable[Relation]:
    """With the entropies added it is the softmax over all cells."""
    if setting["entropy"]:
        joint = at.attention_weights(
            predictor_of(setting), setting["keys"][0], setting["tokens"]
        )[0]
        yield same(
            "entropy=True is the joint softmax",
            answer.value[:-1],
            joint,
            2 * answer.error[:-1],
        )


def _draw_full(rng: np.random.Generator) -> Setting:
    d, p, o, L = (log_integer(rng, 1, 4, (1,)) for _ in range(4))
    shapes = {
        "Q": (d, p),
        "K": (d, p),
        "V": (d, p),
        "O": (o, p),
        "tokens": (1, L, d),
        "cls": (d,),
    }
    numbers = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    return numbers | {"inverse_temperature": log_uniform(rng, 1e-4, 1e4, (0.0,))}


def _call_full(setting: Setting) -> Answer:
    """All rows, then the [CLS] row."""
    layer = at.FullAttention(
        **{name: setting[name] for name in ("Q", "K", "V", "O", "inverse_temperature")}
    )
    x = setting["tokens"]
    out = np.append(layer.rows(x)[0].ravel(), layer.cls_row(x, setting["cls"])[0])
    everyone = np.vstack([x[0], setting["cls"]])
    scores = np.abs(everyone) @ np.abs(setting["Q"]) @ np.abs(setting["K"]).T @ np.abs(x[0]).T
    delta = (
        ROUNDINGS
        * EPS
        * sum(setting["Q"].shape)
        * (1 + setting["inverse_temperature"] * float(scores.max()))
    )
    reach = float(np.max(np.abs(x[0]) @ np.abs(setting["V"]) @ np.abs(setting["O"]).T))
    error = reach * len(x[0]) * (1.0 if delta > 0.25 else float(np.expm1(4 * delta)))
    return Answer(out, np.full(out.shape, error))


def _truth_full(setting: Setting) -> Truth:
    x, Q, K, V, O = setting["tokens"][0], *(setting[name] for name in "QKVO")
    everyone = np.vstack([x, setting["cls"]])
    found = reference.softmax_rows(
        everyone @ Q, x @ K, x @ V @ O.T, setting["inverse_temperature"]
    )
    return Truth(found.ravel())


def _relations_full(setting: Setting, answer: Answer) -> Iterable[Relation]:
    """With one output the [CLS] row is softmax attention."""
    if len(setting["O"]) == 1:
        layer = at.FullAttention(
            **{name: setting[name] for name in ("Q", "K", "V", "O", "inverse_temperature")}
        )
        said = at.predict(*layer.reduced(setting["cls"]), setting["tokens"])[0]
        yield same("reduced", said, answer.value[-1], 2 * answer.error[-1])


SUBJECTS: list[Subject] = [
    Subject(
        "MultiHead",
        ("MultiHead", "attention_weights", "predict"),
        _draw_weights,
        _call_multi_head,
        _truth_multi_head,
        _relations_multi_head,
    ),
    Subject("BayesSoftmax", ("BayesSoftmax",), _draw_weights, _call_joint, _truth_joint),
    Subject(
        "RowColumn", ("RowColumn",), _draw_grid, _call_grid, _truth_grid, _relations_grid
    ),
    Subject(
        "FullAttention",
        ("FullAttention",),
        _draw_full,
        _call_full,
        _truth_full,
        _relations_full,
    ),
]
