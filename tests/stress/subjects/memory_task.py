"""A map that drifts: its posterior and Bayes risk, errors of memories, the best gates.

Promises without a stated error (docs/accuracy.md): the Kalman filter errs by ROUNDING (1 + L) over
the smaller of 1 and (1 - a^2) + s^2/(lam |k|^2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import mpmath as mp
import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.references import exchangeable
from stress.references import memory as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

ROUNDING = 1e-14  # fifty roundings
LAWS = ("normal", "sphere", "one-hot")


# -- the task --------------------------------------------------------------------------------------


def _draw_drift(rng: np.random.Generator) -> Setting:
    return {
        "dim_key": int(rng.integers(1, 4)),
        "dim_value": int(rng.integers(1, 3)),
        "prior_variance": log_uniform(rng, 1e-6, 1e6, [1.0]),
        "noise": log_uniform(rng, 1e-3, 1e3, [0.5]),
        "decay": choice(rng, [float(rng.random()), 1 - 10 ** rng.uniform(-6, -1), 0.0, 1.0]),
        "keys": choice(rng, LAWS),
        "length": log_integer(rng, 1, 8, [0, 1, 2]),
        "seed": int(rng.integers(2**31)),
    }


def _task(s: Setting) -> Any:
    names = ("dim_key", "dim_value", "prior_variance", "noise", "decay", "keys")
    return at.DriftingMap(*(s[name] for name in names))


def _drift_tokens(s: Setting) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(query, keys, values)."""
    rng = np.random.default_rng(s["seed"])
    k = _task(s).draw_keys(rng, (s["length"] + 1,))
    v = rng.standard_normal((s["length"], s["dim_value"])) * s["prior_variance"] ** 0.5
    return k[-1], k[:-1], v


def _call_drift(s: Setting) -> Answer:
    task = _task(s)
    q, k, v = _drift_tokens(s)
    mean, variance = task.predictive(q, k, v)
    log_p = float(task.log_probability(k, v))
    lam = s["prior_variance"]
    s2 = s["noise"] ** 2
    square = float(np.max(np.sum(k**2, axis=1), initial=1e-300))
    kap = 1 + lam * float(np.sum(k**2)) / s2
    floor = min(1.0, (1 - s["decay"] ** 2) + s2 / (lam * square))
    lost = ROUNDING * (1 + s["length"]) / floor
    size = math.sqrt(lam / s2) * float(np.linalg.norm(q)) * np.linalg.norm(v, axis=0)
    logs = v.size * (math.log(kap) + abs(math.log(s2)) + 3) + np.sum(v**2) / s2
    spread = s2 + lam * float(q @ q)
    errors = lost * math.sqrt(kap) * size + 1e-300
    predicted = task.bayes_predict(q, k, v)
    return Answer(
        [*mean, *predicted, float(variance), log_p],
        [*errors, *errors, lost * math.sqrt(kap) * spread, lost * math.sqrt(kap) * logs],
    )


def _true_drift(s: Setting) -> Truth:
    q, k, v = _drift_tokens(s)
    C, cross, own = reference.drift_covariance(k, q, s["prior_variance"], s["decay"])
    with mp.workdps(2 * reference.DIGITS):
        noise2 = mp.mpf(s["noise"]) ** 2
        for i in range(len(C)):
            C[i][i] += noise2
        means, variance = exchangeable.gaussian_predict(C, cross, own, v)
        log_p = exchangeable.log_density(C, v)
        return Truth([*means, *means, variance + float(noise2), log_p])


def _drift_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task = _task(s)
    q, k, v = _drift_tokens(s)
    C = task.posterior(k, v).covariance
    yield same("a symmetric covariance", C, C.T, 0.0)
    most = s["noise"] ** 2 + s["prior_variance"] * float(q @ q)
    yield at_most("variance within noise and prior", a.value[-2], most, a.error[-2])
    yield at_most("variance at least the noise", s["noise"] ** 2, a.value[-2], a.error[-2])


def _ill_conditioned(s: Setting) -> str:
    drift = 1 - s["decay"] ** 2
    floor = drift + s["noise"] ** 2 / (s["prior_variance"] * 40 * s["dim_key"])
    near = drift > 0 and 16 * 2.3e-16 * (s["length"] + 3) / floor > 1e-7
    _, _, v = _drift_tokens(s)
    lost = s["decay"] == 1 and np.max(np.abs(v), initial=0.0) > 1e10 * s["noise"]
    return "hardly any drift and hardly any noise: rounding decides" if near or lost else ""


def _draw_bayes(rng: np.random.Generator) -> Setting:
    s = _draw_drift(rng)
    s["noise"] = s["prior_variance"] ** 0.5 * log_uniform(rng, 0.05, 30, [0.5])
    return s


def _call_bayes(s: Setting) -> Answer:
    e = _task(s).bayes_risk(s["length"], samples=800, seed=s["seed"] % 1000)
    return Answer(e.excess, e.error, "Monte Carlo" in e.method)


def _true_bayes(s: Setting) -> Truth:
    lam, d = s["prior_variance"], s["dim_key"]
    scale = s["dim_value"] / (1 if s["keys"] == "normal" else d)
    if not s["length"]:
        return Truth(scale * lam * d)
    if s["keys"] == "one-hot":
        left = reference.slot(lam, s["noise"], s["decay"], 1 / d, s["length"])
        return Truth(scale * d * left)
    where = (d, lam, s["noise"], s["decay"], s["keys"] == "sphere", s["length"])
    trace, error = reference.sampled_trace(*where, s["seed"])
    return Truth(scale * trace, scale * error + 1e-12 * scale * lam * d)


def _bayes_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task = _task(s)
    best = at.memory_curve(task, s["length"])
    slack = a.error + best.error
    yield at_most("below the best blind memory", a.value, best.excess, slack, a.sampled)


# -- exact curves ----------------------------------------------------------------------------------


def _draw_curve(rng: np.random.Generator) -> Setting:
    s = _draw_drift(rng)
    s["dim_key"] = log_integer(rng, 1, 1000, [1])
    s["length"] = log_integer(rng, 1, 60, [0, 1])
    s["noise"] = log_uniform(rng, 1e-6, 1e3, [1e-30])
    return s | {
        "share": float(rng.random()),
        "gate": choice(rng, [float(rng.random()), 1.0, 0.0, s["decay"]]),
        "rule": choice(rng, ["delta", "linear", "best"]),
    }


def _curve_gates(s: Setting) -> tuple[np.ndarray | None, float | None]:
    if s["rule"] == "best":
        return None, None
    kappa, kappa2 = _task(s).key_moments
    rng = np.random.default_rng(s["seed"])
    steps = s["share"] * 2 * kappa / kappa2 * rng.random(max(s["length"], 1))
    return steps, s["gate"]


def _call_curve(s: Setting) -> Answer:
    rule = "delta" if s["rule"] == "best" else s["rule"]
    e = at.memory_curve(_task(s), s["length"], *_curve_gates(s), rule)
    return Answer(e.excess, e.error)


def _true_curve(s: Setting) -> Truth:
    task = _task(s)
    moments = task.key_moments
    scale = moments[0] * s["dim_key"] * s["dim_value"]
    steps, gate = _curve_gates(s)
    gate = s["decay"] if gate is None else gate
    where = (moments, s["prior_variance"], s["noise"], s["decay"])
    if steps is None:
        steps = at.best_gates(task, max(s["length"], 1)).step
    erase = s["rule"] != "linear"
    return Truth(scale * reference.curve(*where, steps[: s["length"]], gate, erase))


def _curve_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    best = at.memory_curve(_task(s), s["length"])
    yield at_most("never below the best gates", best.excess, a.value, a.error + best.error)


def _draw_forgetting(rng: np.random.Generator) -> Setting:
    s = _draw_bayes(rng)
    s["length"] = log_integer(rng, 1, 12, [0, 1])
    s["keys"] = choice(rng, ["normal", "sphere"])
    ridge = s["noise"] ** 2 / s["prior_variance"] * log_uniform(rng, 0.1, 10, [1.0])
    return s | {"forget": log_uniform(rng, 0.2, 1.0, [0.0, 1.0]), "ridge": ridge}


def _call_forgetting(s: Setting) -> Answer:
    more = {"rule": "least squares", "ridge": s["ridge"], "samples": 300}
    e = at.memory_curve(
        _task(s), s["length"], decay=s["forget"], seed=s["seed"] % 1000, **more
    )
    return Answer(e.excess, e.error, True)


def _true_forgetting(s: Setting) -> Truth:
    lam, d = s["prior_variance"], s["dim_key"]
    scale = s["dim_value"] * _task(s).key_moments[0] * d
    if not s["length"]:
        return Truth(scale * lam)
    where = (d, lam, s["noise"], s["decay"], s["keys"] == "sphere", s["length"])
    value, error = reference.sampled_squares(*where, s["forget"], s["ridge"], s["seed"])
    return Truth(scale * value, scale * error)


def _draw_gates(rng: np.random.Generator) -> Setting:
    s = _draw_curve(rng)
    s["decay"] = choice(rng, [float(rng.random()), 1 - 10 ** rng.uniform(-9, -1), 0.0])
    return s


def _call_gates(s: Setting) -> Answer:
    best = at.best_gates(_task(s))
    # (1 - a^2) has lost what a is rounded by
    lost = ROUNDING + 4e-16 / (1 - s["decay"])
    return Answer(
        [best.step, best.risk.excess],
        [lost * best.step, best.risk.error + lost * best.risk.excess],
    )


def _true_gates(s: Setting) -> Truth:
    moments = _task(s).key_moments
    where = (moments, s["prior_variance"], s["noise"], s["decay"])
    step, left = reference.best_step(*where)
    return Truth([step, moments[0] * s["dim_key"] * s["dim_value"] * left])


SUBJECTS: list[Subject] = [
    Subject(
        "DriftingMap.posterior, predictive, log_probability",
        ("DriftingMap",),
        _draw_drift,
        _call_drift,
        _true_drift,
        _drift_relations,
        _ill_conditioned,
    ),
    Subject(
        "DriftingMap.bayes_risk",
        ("DriftingMap.bayes_risk",),
        _draw_bayes,
        _call_bayes,
        _true_bayes,
        _bayes_relations,
        _ill_conditioned,
        weight=0.3,
    ),
    Subject(
        "memory_curve",
        ("memory_curve",),
        _draw_curve,
        _call_curve,
        _true_curve,
        _curve_relations,
    ),
    Subject(
        "memory_curve of least squares",
        ("memory_curve",),
        _draw_forgetting,
        _call_forgetting,
        _true_forgetting,
        weight=0.1,
    ),
    Subject(
        "best_gates",
        ("best_gates",),
        _draw_gates,
        _call_gates,
        _true_gates,
        weight=0.5,
    ),
]
