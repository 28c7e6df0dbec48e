"""Attention as an operator, and its limits on the sphere.

Promises without a stated error (docs/accuracy.md): softmax attention is an average whose scores are
rounded, ROUNDING (1 + |q||k|/h) of the largest value. CME attention and its variance err by
ROUNDING times the condition number of K + lam I, unless `cme_solve` states a bound. Filters and
eigenvalues are relative: ROUNDING per degree and per unit of 1/h.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import operators as reference
from stress.subject import Setting, Subject

__all__ = ["ROUNDING", "SUBJECTS"]

ROUNDING = 1e-14  # fifty roundings
KERNELS = ("linear", "rbf", "exponential")


# -- operators -------------------------------------------------------------------------------------


def _draw_context(rng: np.random.Generator) -> Setting:
    return {
        "length": int(rng.integers(0, 7)),
        "dim_key": int(rng.integers(1, 4)),
        "dim_value": int(rng.integers(1, 3)),
        "size": log_uniform(rng, 1e-3, 1e3, [1.0, 1e6]),
        "values": log_uniform(rng, 1e-6, 1e6, [1.0, 1e40]),
        "keys": choice(rng, ["apart", "equal", "close"]),
        "seed": int(rng.integers(2**31)),
    }


def _context(s: Setting) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(query, keys, values)."""
    rng = np.random.default_rng(s["seed"])
    k = rng.standard_normal((s["length"] + 1, s["dim_key"]))
    if s["keys"] != "apart":
        k[1:] = k[0] + (1e-6 * k[1:] if s["keys"] == "close" else 0.0)
    return (
        s["size"] * k[-1],
        s["size"] * k[:-1],
        s["values"] * rng.standard_normal((s["length"], s["dim_value"])),
    )


def _draw_softmax(rng: np.random.Generator) -> Setting:
    bandwidth = log_uniform(rng, 1e-6, 1e6, [0.2, 1e-50, 1e50])
    sink = None if rng.random() < 0.5 else float(rng.normal() * 10 ** rng.uniform(-1, 3))
    return _draw_context(rng) | {"bandwidth": bandwidth, "sink": sink}


def _call_softmax(s: Setting) -> Answer:
    q, k, v = _context(s)
    value = at.softmax_attention(q, k, v, s["bandwidth"], s["sink"])
    longest = np.max(np.linalg.norm(k, axis=1), initial=0.0)
    scores = np.linalg.norm(q) * longest / s["bandwidth"] + abs(s["sink"] or 0.0)
    # an error of the scores moves weights by its size, and never by more than 1
    return Answer(
        value,
        np.full(
            value.shape, min(2.0, ROUNDING * (1 + scores)) * np.max(np.abs(v), initial=0.0)
        ),
    )


def _true_softmax(s: Setting) -> Truth:
    return Truth(reference.softmax(*_context(s), s["bandwidth"], s["sink"]))


def _softmax_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    q, k, v = _context(s)
    turned = at.softmax_attention(q, k[::-1], v[::-1], s["bandwidth"], s["sink"])
    yield same("tokens in another order", turned, a.value, a.error)
    low = (
        np.minimum(v.min(axis=0, initial=np.inf), 0.0) if len(v) else np.zeros(s["dim_value"])
    )
    high = (
        np.maximum(v.max(axis=0, initial=-np.inf), 0.0)
        if len(v)
        else np.zeros(s["dim_value"])
    )
    slack = ROUNDING * np.maximum(np.abs(low), np.abs(high))
    yield at_most(
        "an average of values and 0", np.maximum(a.value - high, low - a.value), 0.0, slack
    )


def _draw_linear(rng: np.random.Generator) -> Setting:
    return _draw_context(rng) | {"scale": log_uniform(rng, 1e-9, 1e9, [0.0, -1.0])}


def _call_linear(s: Setting) -> Answer:
    q, k, v = _context(s)
    value = at.linear_attention(q, k, v, s["scale"])
    sizes = abs(s["scale"]) * (np.abs(k) @ np.abs(q)) @ np.abs(v)
    return Answer(value, ROUNDING * sizes)


def _draw_cme(rng: np.random.Generator) -> Setting:
    s = _draw_context(rng)
    s["size"] = log_uniform(rng, 1e-2, 10, [1.0])
    return s | {
        "kernel": choice(rng, KERNELS),
        "bandwidth": log_uniform(rng, 0.3, 1e4, [1.0]),
        "ridge": log_uniform(rng, 1e-9, 1e6, [0.25, 0.0]),
    }


def _condition(s: Setting, q: np.ndarray, k: np.ndarray) -> tuple[float, float, float]:
    """(largest eigenvalue of K + lam I over its smallest, k(q, q), the smallest)."""
    points = np.concatenate([k, q[None]])
    K = np.array(
        [
            [float(reference.kernel_entry(s["kernel"], x, y, s["bandwidth"])) for y in points]
            for x in points
        ]
    )
    eigen = np.linalg.eigvalsh(K[:-1, :-1]) if len(k) else np.ones(1)
    low = max(eigen[0], 0.0) + s["ridge"]
    return (eigen[-1] + s["ridge"]) / low if low > 0 else math.inf, float(K[-1, -1]), low


def _call_cme(s: Setting) -> Answer:
    q, k, v = _context(s)
    rest = (s["kernel"], s["bandwidth"], s["ridge"])
    value = at.cme_attention(q, k, v, *rest)
    variance = float(at.cme_variance(q, k, *rest))
    kap, own, low = _condition(s, q, k)
    # rounded before it is one
    exponent = 1 + float(np.sum(q**2) + np.sum(k**2)) / s["bandwidth"]
    # |K^-1/2 k_q| <= sqrt(k(q, q)): a prediction is at most sqrt(k(q, q)/low) |v|, and both lose
    # the condition number
    error = (
        ROUNDING * kap * exponent * math.sqrt(own / low) * np.linalg.norm(v, axis=0) + 1e-300
    )
    return Answer([*value, variance], [*error, ROUNDING * kap * exponent * own])


def _true_cme(s: Setting) -> Truth | None:
    found = reference.cme(*_context(s), s["kernel"], s["bandwidth"], s["ridge"])
    return None if found is None else Truth([*found[0], found[1]])


def _cme_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    q, k, v = _context(s)
    if s["ridge"] and len(k):
        solved = at.cme_solve(q, k, v, s["kernel"], s["bandwidth"], s["ridge"])
        found = reference.cme(q, k, v, s["kernel"], s["bandwidth"], s["ridge"])
        if found is not None:
            rounding = 1e-15 * np.abs(np.asarray(found[0]))
            yield same(
                "cme_solve within its bound",
                solved.value,
                np.asarray(found[0]),
                solved.error + rounding,
            )
    turned = at.cme_attention(q, k[::-1], v[::-1], s["kernel"], s["bandwidth"], s["ridge"])
    yield same("tokens in another order", turned, a.value[:-1], 2 * np.asarray(a.error[:-1]))
    yield at_most("variance >= 0", -a.value[-1], 0.0, 0.0)


def _singular(s: Setting) -> str:
    q, k, _ = _context(s)
    points = np.concatenate([k, q[None]])
    if (
        s["kernel"] == "exponential"
        and float(np.max(points @ points.T)) / s["bandwidth"] > 699
    ):
        return "exp(q.k/bandwidth) is no float64"
    kap, _, _ = _condition(s, q, k)
    return (
        "K + ridge I so ill conditioned that the answer is not known to 1e-6 of its scale"
        if kap > 1e8
        else ""
    )


# -- filters ---------------------------------------------------------------------------------------


def _draw_filter(rng: np.random.Generator) -> Setting:
    return {
        "dim": log_integer(rng, 2, 10**4, [2, 3]),
        "bandwidth": log_uniform(rng, 1e-6, 1e4, [1.0, 1e-8]),
        "degree": log_integer(rng, 1, 60, [0, 1]),
        "ridge": log_uniform(rng, 1e-12, 1e3),
    }


def _call_filter(s: Setting) -> Answer:
    where = (s["dim"], s["bandwidth"], s["degree"])
    value = [
        at.softmax_filter(*where),
        at.kernel_eigenvalues(*where),
        at.cme_filter(*where, s["ridge"]),
    ]
    found = np.asarray(value, dtype=float)
    # exponents of size 1/h and d log(...) are rounded once
    size = (
        1 + s["degree"] + 1 / s["bandwidth"] + s["dim"] * (1 + abs(math.log(s["bandwidth"])))
    )
    relative = np.array([ROUNDING * (1 + s["degree"]), ROUNDING * size, ROUNDING * size])
    return Answer(found, relative * found + 1e-300)


def _true_filter(s: Setting) -> Truth | None:
    if s["dim"] > 2000 and s["bandwidth"] < 1e-3:
        return None  # mpmath's series has too many terms
    first = reference.eigenvalue(s["dim"], s["bandwidth"], 0)
    here = reference.eigenvalue(s["dim"], s["bandwidth"], s["degree"])
    return Truth([float(here / first), float(here), float(here / (here + s["ridge"]))])


def _underflow(s: Setting) -> str:
    here = reference.eigenvalue(s["dim"], s["bandwidth"], s["degree"])
    first = reference.eigenvalue(s["dim"], s["bandwidth"], 0)
    return "an eigenvalue below the smallest float64" if here / first < 1e-300 else ""


def _draw_bias(rng: np.random.Generator) -> Setting:
    return {
        "bandwidth": log_uniform(rng, 1e-9, 1e3),
        "dim": int(rng.integers(2, 30)),
        "seed": int(rng.integers(2**31)),
    }


def _call_bias(s: Setting) -> Answer:
    rng = np.random.default_rng(s["seed"])
    g, p = rng.standard_normal((2, s["dim"]))
    laplacian = float(rng.standard_normal())
    value = float(at.density_bias(s["bandwidth"], np.array(laplacian), g, p))
    return Answer(value, ROUNDING * s["bandwidth"] * (abs(laplacian) + np.abs(g) @ np.abs(p)))


def _true_bias(s: Setting) -> Truth:
    """Half the bandwidth times (Laplacian + 2 <g, p>), summed exactly."""
    rng = np.random.default_rng(s["seed"])
    g, p = rng.standard_normal((2, s["dim"]))
    laplacian = float(rng.standard_normal())
    return Truth(s["bandwidth"] / 2 * math.fsum([laplacian, *(2 * g * p)]))


SUBJECTS: list[Subject] = [
    Subject(
        "softmax_attention",
        ("softmax_attention",),
        _draw_softmax,
        _call_softmax,
        _true_softmax,
        _softmax_relations,
    ),
    Subject(
        "linear_attention",
        ("linear_attention",),
        _draw_linear,
        _call_linear,
        lambda s: Truth(reference.linear(*_context(s), s["scale"])),
        weight=0.5,
    ),
    Subject(
        "cme_attention, cme_solve, cme_variance",
        ("cme_attention", "cme_solve", "cme_variance"),
        _draw_cme,
        _call_cme,
        _true_cme,
        _cme_relations,
        _singular,
        weight=2,
    ),
    Subject(
        "softmax_filter, kernel_eigenvalues, cme_filter",
        ("softmax_filter", "kernel_eigenvalues", "cme_filter"),
        _draw_filter,
        _call_filter,
        _true_filter,
        may_refuse=_underflow,
    ),
    Subject(
        "density_bias",
        ("density_bias",),
        _draw_bias,
        _call_bias,
        _true_bias,
        weight=0.3,
    ),
]
