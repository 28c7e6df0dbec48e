"""fit_linear_attention: the optimum, the certificate and predictions, at coordinates of any sizes,
copied or absent coordinates, targets that heads explain to any number of digits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import choice, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import linear_attention as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

NEW = 3  # contexts that are predicted


def _draw(rng: np.random.Generator) -> Setting:
    dim = int(rng.integers(1, 4))
    queries = int(rng.integers(1, 3))
    features = queries * dim * (dim + 1) // 2
    short = rng.random() < 0.1
    return {
        "dim": dim,
        "queries": queries,
        "outputs": int(rng.integers(1, 3)),
        "contexts": max(1, features - 1) if short else features + int(rng.integers(0, 25)),
        "length": int(rng.integers(1, 6)),
        "kind": choice(rng, ["any", "any", "copied", "absent", "whole"]),
        "scales": [log_uniform(rng, 1e-6, 1e6, [1.0]) for _ in range(dim + queries)],
        "heads": int(rng.integers(0, 3)),
        "noise": log_uniform(rng, 1e-9, 10, [0.0, 1.0]),
        "ridge": choice(rng, [0.0, 0.0, log_uniform(rng, 1e-6, 1.0)]),
        "seed": int(rng.integers(2**31)),
    }


def _data(
    s: Setting,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(s["seed"])
    n = s["contexts"] + NEW
    tokens = rng.standard_normal((n, s["length"], s["dim"]))
    query = rng.standard_normal((n, s["queries"]))
    if s["kind"] == "whole":
        tokens = np.round(2 * tokens)
    if s["kind"] == "copied" and s["dim"] > 1:
        tokens[:, :, 1] = -2 * tokens[:, :, 0]
    if s["kind"] == "absent":
        query[:, 0] = 0.0
    tokens = tokens * _powers(s["scales"][: s["dim"]])
    query = query * _powers(s["scales"][s["dim"] :])
    V = rng.standard_normal((s["heads"], s["outputs"], s["dim"]))
    Q = rng.standard_normal((s["heads"], s["dim"], s["queries"]))
    y = np.einsum("hai,nli,nlj,hjk,nk->na", V, tokens, tokens, Q, query, optimize=True)
    size = max(float(np.abs(y).max(initial=0.0)), 1e-300) if s["heads"] else 1.0
    y = y / size + s["noise"] * rng.standard_normal(y.shape)
    m = s["contexts"]
    return tokens[:m], query[:m], y[:m], (tokens[m:], query[m:])


def _powers(scales: list[float]) -> np.ndarray:
    """Powers of two: copied coordinates stay exact copies."""
    return np.exp2(np.round(np.log2(scales)))


def _fit(s: Setting) -> tuple[Any, tuple[np.ndarray, np.ndarray]]:
    tokens, query, target, new = _data(s)
    return at.fit_linear_attention(tokens, query, target, ridge=s["ridge"]), new


def _call(s: Setting) -> Answer:
    fit, new = _fit(s)
    predicted, error = fit.predict(*new, return_error=True)
    value = [fit.optimum.value, fit.loss.value, *predicted.ravel()]
    return Answer(
        np.array(value), np.array([fit.optimum.error, fit.loss.error, *error.ravel()])
    )


def _true(s: Setting) -> Truth:
    found = _reference(s)
    value = [found["optimum"], found["loss"], *found["predictions"].ravel()]
    return Truth(np.array(value), 4e-16 * np.abs(value))


def _reference(s: Setting) -> dict[str, Any]:
    return reference.least_squares(*_data(s), s["ridge"])


def _relations(s: Setting, a: Answer) -> Iterable[Relation]:
    fit, new = _fit(s)
    truth = _reference(s)
    yield same("nullity", fit.nullity, truth["nullity"], 0.0)
    top = truth["spectrum"][0]
    yield same("spectrum", fit.spectrum, truth["spectrum"], 1e-12 * top + 1e-300)
    yield at_most("the ridge is no better", a.value[0], a.value[1], a.error[0] + a.error[1])
    if fit.ridge:
        return
    heads = fit.heads()
    yield at_most("bound on heads", heads.at_least, len(heads.value), 1e-9)
    if fit.identified:
        again = np.einsum(
            "hai,nli,nlj,hjk,nk->na", heads.value, new[0], new[0], heads.score, new[1]
        )
        size = np.linalg.norm(fit.predict(*_data(s)[:2])) + np.linalg.norm(a.value[2:])
        condition = (fit.spectrum[0] / fit.spectrum[-1]) ** 0.5
        yield same(
            "heads compute the fit",
            again.ravel(),
            a.value[2:],
            a.error[2:] + 1e-7 * condition * size,
        )


def _may_refuse(s: Setting) -> str:
    features = s["queries"] * s["dim"] * (s["dim"] + 1) // 2
    if s["contexts"] < features and s["ridge"] == 0:
        return "fewer contexts than features leave the layer open"
    if s["contexts"] < 2 * features and s["ridge"] == 0:
        return "few contexts may be dependent: a prediction beyond them is refused"
    return ""


SUBJECTS: list[Subject] = [
    Subject(
        "fit_linear_attention",
        ("fit_linear_attention", "LinearAttentionFit"),
        _draw,
        _call,
        _true,
        _relations,
        _may_refuse,
        weight=1.0,
    ),
]
