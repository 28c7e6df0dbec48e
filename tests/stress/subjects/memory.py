"""Memories as attention, and local linear attention.

Promises without a stated error (docs/accuracy.md). A memory errs by ROUNDING (1 + L) times its
growth of sum_t e |k_t||v_t||q|; least squares by ROUNDING times the condition number of its Gram
matrix. A local fit errs by LOCAL times the square of the condition of the keys around the query,
its filter by ROUNDING (d + m)(1 + m)^2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, same
from stress.references import memory as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

ROUNDING = 1e-14  # fifty roundings
LOCAL = 1e-14  # of a fit with its mean subtracted


# -- operators -------------------------------------------------------------------------------------


def _draw_tokens(rng: np.random.Generator) -> Setting:
    return {
        "length": int(rng.integers(0, 9)),
        "dim_key": int(rng.integers(1, 4)),
        "dim_value": int(rng.integers(1, 4)),
        "size": log_uniform(rng, 1e-3, 3.0, [1.0]),
        "values": log_uniform(rng, 1e-6, 1e6, [1.0, 1e40]),
        "seed": int(rng.integers(2**31)),
    }


def _draw_memory(rng: np.random.Generator) -> Setting:
    return _draw_tokens(rng) | {
        "step": log_uniform(rng, 1e-3, 3.0, [0.0, 1.0]),
        "decay": log_uniform(rng, 1e-3, 1.0, [0.0, 1.0, 0.5]),
        "each": bool(rng.random() < 0.5),
        "erase": bool(rng.random() < 0.7),
    }


def _tokens(s: Setting) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(query, keys, values)."""
    rng = np.random.default_rng(s["seed"])
    k = s["size"] * rng.standard_normal((s["length"] + 1, s["dim_key"]))
    return k[-1], k[:-1], s["values"] * rng.standard_normal((s["length"], s["dim_value"]))


def _gates(s: Setting) -> tuple[Any, Any]:
    if not s["each"]:
        return s["step"], s["decay"]
    rng = np.random.default_rng([s["seed"], 1])
    one = rng.random((2, s["length"]))
    return s["step"] * one[0], s["decay"] * one[1]


def _growth(s: Setting) -> float:
    """The most that the tokens can stretch: products of max(1, |1 - e k^2|)."""
    _, k, _ = _tokens(s)
    e = np.broadcast_to(_gates(s)[0], s["length"])
    if not s["erase"]:
        return 1.0
    return float(np.prod(np.maximum(1.0, np.abs(1 - e * np.sum(k**2, axis=1)))))


def _call_memory(s: Setting) -> Answer:
    q, k, v = _tokens(s)
    e, g = _gates(s)
    if s["erase"]:
        value = at.delta_attention(q, k, v, e, g)
    else:
        value = at.gated_linear_attention(q, k, v, g, e)
    sizes = np.broadcast_to(e, s["length"]) * np.linalg.norm(k, axis=1)
    size = np.linalg.norm(q) * (sizes @ np.abs(v))
    return Answer(value, ROUNDING * (1 + s["length"]) * _growth(s) ** 2 * size)


def _true_memory(s: Setting) -> Truth:
    e, g = (np.broadcast_to(x, s["length"]) for x in _gates(s))
    return Truth(reference.read_memory(*_tokens(s), e, g, s["erase"]))


def _memory_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    q, k, v = _tokens(s)
    e, g = _gates(s)
    if not s["length"]:
        return
    asked = np.repeat(q[None], s["length"], axis=0)
    if s["erase"]:
        each = at.delta_attention(asked, k, v, e, g, causal=True)
        many = at.delta_attention(np.repeat(q[None], 9, axis=0), k, v, e, g)
    else:
        each = at.gated_linear_attention(asked, k, v, g, e, causal=True)
        many = at.gated_linear_attention(np.repeat(q[None], 9, axis=0), k, v, g, e)
    yield same("read after each token", each[-1], a.value, a.error)
    yield same("carried along", many[4], a.value, a.error)


def _unstable(s: Setting) -> str:
    return "a memory that grows" if _growth(s) > 1e5 else ""


def _draw_squares(rng: np.random.Generator) -> Setting:
    return _draw_tokens(rng) | {
        "decay": log_uniform(rng, 0.1, 1.0, [0.0, 1.0]),
        "ridge": log_uniform(rng, 1e-9, 1e6, [0.25, 0.0]),
    }


def _gram(s: Setting) -> tuple[float, float]:
    """(condition number, smallest eigenvalue) of the Gram matrix."""
    _, k, _ = _tokens(s)
    weights = s["decay"] ** np.arange(s["length"] - 1, -1, -1.0)
    eigen = np.linalg.eigvalsh((k.T * weights) @ k) + s["ridge"]
    low = max(float(eigen[0]), s["ridge"])
    return (float(eigen[-1]) / low if low > 0 else math.inf), low


def _call_squares(s: Setting) -> Answer:
    q, k, v = _tokens(s)
    value = at.recursive_least_squares(q, k, v, s["decay"], s["ridge"])
    kap, low = _gram(s) if s["length"] else (1.0, 1.0)
    size = np.linalg.norm(q) / math.sqrt(low) * np.linalg.norm(v, axis=0) if low > 0 else 0.0
    return Answer(value, ROUNDING * kap * size + np.zeros(s["dim_value"]) + 1e-300)


def _true_squares(s: Setting) -> Truth | None:
    found = reference.least_squares(*_tokens(s), s["decay"], s["ridge"])
    return None if found is None else Truth(found)


def _not_spanned(s: Setting) -> str:
    if s["ridge"] or not s["length"]:
        return ""
    _, k, _ = _tokens(s)
    age = np.arange(s["length"] - 1, -1, -1.0)
    S = np.linalg.svd((s["decay"] ** age)[:, None] ** 0.5 * k, compute_uv=False)
    few = s["length"] < s["dim_key"] or S[-1] <= 1e-9 * S[0]
    return "no ridge, and keys that hardly span the space" if few else ""


def _draw_fit(rng: np.random.Generator) -> Setting:
    s = _draw_tokens(rng)
    s["length"] = int(rng.integers(0, 12))
    s["values"] = log_uniform(rng, 1e-6, 1e6, [1.0])
    return s | {
        "bandwidth": log_uniform(rng, 0.1, 1e4, [1.0]),
        "ridge": log_uniform(rng, 1e-9, 1e6, [0.25, 0.0]),
    }


def _fit_condition(s: Setting) -> tuple[float, float]:
    """(largest singular value of the weighted, centred keys over the smallest, |q - mean| over
    the smallest).
    """
    q, k, _ = _tokens(s)
    scores = k @ q / s["bandwidth"]
    w = np.exp(scores - scores.max())
    w /= w.sum()
    apart = k - w @ k
    S = np.linalg.svd(np.sqrt(w)[:, None] * apart, compute_uv=False)
    short = len(k) <= len(q)
    low = math.sqrt((0.0 if short else float(S[-1])) ** 2 + s["ridge"])
    far = float(np.linalg.norm(q - w @ k))
    size = float(np.linalg.norm(k, axis=1).max()) + far
    return (math.inf, math.inf) if low == 0 else (1 + size / low, far / low)


def _call_fit(s: Setting) -> Answer:
    q, k, v = _tokens(s)
    value = at.local_linear_attention(q, k, v, s["bandwidth"], s["ridge"])
    if not len(k):
        return Answer(value, np.zeros(s["dim_value"]))
    kap, reach = _fit_condition(s)
    scores = 1 + np.abs(k @ q).max() / s["bandwidth"]
    error = LOCAL * scores * kap**2 * (1 + reach) * np.abs(v).max(axis=0)
    return Answer(value, np.minimum(error, 1e300) + 1e-300)


def _true_fit(s: Setting) -> Truth | None:
    if not s["length"]:
        return Truth(np.zeros(s["dim_value"]))
    found = reference.local_fit(*_tokens(s), s["bandwidth"], s["ridge"])
    return None if found is None else Truth(found)


def _undetermined(s: Setting) -> str:
    if s["ridge"] or not s["length"]:
        return ""
    return "no ridge, and few keys near the query" if _fit_condition(s)[0] > 1e6 else ""


def _draw_filter(rng: np.random.Generator) -> Setting:
    return {
        "dim": log_integer(rng, 2, 1000, [2, 3]),
        "bandwidth": log_uniform(rng, 1e-6, 1e4, [1.0]),
        "degree": log_integer(rng, 1, 40, [0, 1, 2]),
    }


def _call_filter(s: Setting) -> Answer:
    value = float(at.local_linear_filter(s["dim"], s["bandwidth"], s["degree"]))
    m = s["degree"]
    return Answer(value, ROUNDING * (s["dim"] + m) * (1 + m) ** 2)


def _true_filter(s: Setting) -> Truth:
    return Truth(reference.filter_of_fit(s["dim"], s["bandwidth"], s["degree"]))


SUBJECTS: list[Subject] = [
    Subject(
        "delta_attention, gated_linear_attention",
        ("delta_attention", "gated_linear_attention"),
        _draw_memory,
        _call_memory,
        _true_memory,
        _memory_relations,
        _unstable,
    ),
    Subject(
        "recursive_least_squares",
        ("recursive_least_squares",),
        _draw_squares,
        _call_squares,
        _true_squares,
        may_refuse=_not_spanned,
        weight=0.5,
    ),
    Subject(
        "local_linear_attention",
        ("local_linear_attention",),
        _draw_fit,
        _call_fit,
        _true_fit,
        may_refuse=_undetermined,
    ),
    Subject(
        "local_linear_filter",
        ("local_linear_filter",),
        _draw_filter,
        _call_filter,
        _true_filter,
        weight=0.5,
    ),
]
