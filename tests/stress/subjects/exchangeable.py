"""Gaussian latents, posteriors and predictions: a location, a linear map, a function on the sphere.

Promises without a stated error (docs/accuracy.md). With kap = 1 + lam |Phi|^2/s^2 (lam prior
variance, s noise, Phi features) a prediction is at most sqrt(lam) |phi(q)| |V|/s; it errs by at
most ROUNDING sqrt(kap) of that. Log probabilities are sums of squares and logarithms: ROUNDING
times their sizes.
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
from stress.references import exchangeable as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS", "draw_sphere"]

ROUNDING = 1e-14  # fifty roundings
# of spherical harmonics: the basis comes from an eigenproblem of condition number up to 1e3
HARMONICS = 1e-13


# -- Gaussian location -----------------------------------------------------------------------------


def _draw_location(rng: np.random.Generator) -> Setting:
    return {
        "dim": int(rng.integers(1, 4)),
        "prior_variance": log_uniform(rng, 1e-12, 1e12, [1e-50, 1e50]),
        "noise_variance": log_uniform(rng, 1e-12, 1e12, [1e-50, 1e50]),
        "length": int(rng.integers(0, 6)),
        "offset": log_uniform(rng, 1e-3, 1e6, [0.0]),
        "noise": log_uniform(rng, 1e-6, 10, [0.0]),
        "readout": bool(rng.random() < 0.5),
        "seed": int(rng.integers(2**31)),
    }


def _location(s: Setting) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(s["seed"])
    readout = rng.standard_normal((s["dim"],)) if s["readout"] else None
    task = at.GaussianLocation(
        s["dim"], s["prior_variance"], s["noise_variance"], readout, s["noise"]
    )
    return task, s["offset"] + rng.standard_normal((s["length"], s["dim"]))


def _call_location(s: Setting) -> Answer:
    task, x = _location(s)
    mean, variance = task.posterior(x)
    e = task.bayes_risk(s["length"])
    value = [
        *mean,
        variance,
        *np.atleast_1d(task.bayes_predict(x)),
        float(task.log_probability(x)),
        e.excess,
    ]
    t2 = s["prior_variance"]
    s2 = s["noise_variance"]
    each = ROUNDING * t2 / (s2 + len(x) * t2) * np.abs(x).sum(axis=0)
    a = np.ones(s["dim"]) if task.readout is None else np.abs(task.readout)
    predicted = each if task.readout is None else [float(a @ each)]
    centre = x - (x.mean(axis=0) if len(x) else 0)
    # squares about the mean feel the rounding of x: |x| eps of |x - mean|, twice over
    squares = (np.sum(np.abs(x) * np.abs(centre)) + 1e-15 * np.sum(x**2)) / s2 + np.sum(
        x**2
    ) / (s2 + len(x) * t2)
    logs = (
        x.size * (abs(math.log(s2)) + abs(math.log(t2)) + math.log(len(x) + 2) + 3) + squares
    )
    return Answer(value, [*each, ROUNDING * variance, *predicted, ROUNDING * logs, e.error])


def _true_location(s: Setting) -> Truth:
    task, x = _location(s)
    with mp.workdps(reference.DIGITS):
        t2 = mp.mpf(s["prior_variance"])
        s2 = mp.mpf(s["noise_variance"])
        C = [[t2 + (s2 if i == j else 0) for j in range(len(x))] for i in range(len(x))]
        means, variance = reference.gaussian_predict(C, [t2] * len(x), t2, x)
        log_p = reference.log_density(C, x)
    mean = np.asarray(means)
    weight = s["dim"] if task.readout is None else float(task.readout @ task.readout)
    label = mean if task.readout is None else [float(mean @ task.readout)]
    return Truth([*mean, variance, *label, log_p, weight * variance])


def _location_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task, x = _location(s)
    yield same(
        "tokens in another order",
        task.posterior(x[::-1]).mean,
        a.value[: s["dim"]],
        a.error[: s["dim"]],
    )
    before = task.bayes_risk(max(s["length"] - 1, 0))
    yield at_most(
        "one more token never hurts", a.value[-1], before.excess, a.error[-1] + before.error
    )


# -- linear map and sphere: predictions ------------------------------------------------------------


def _draw_map(rng: np.random.Generator) -> Setting:
    return {
        "dim_key": int(rng.integers(1, 4)),
        "dim_value": int(rng.integers(1, 3)),
        "prior_variance": log_uniform(rng, 1e-8, 1e8, [1e-40, 1e20]),
        "noise": log_uniform(rng, 1e-6, 1e3, [1e-12, 1e-3]),
        "length": log_integer(rng, 1, 7, [0, 1, 2]),
        "keys": choice(rng, ["normal", "equal", "large"]),
        "seed": int(rng.integers(2**31)),
    }


def _map(s: Setting) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    """(task, keys, values, query)."""
    rng = np.random.default_rng(s["seed"])
    task = at.LinearMap(s["dim_key"], s["dim_value"], s["prior_variance"], s["noise"])
    k = rng.standard_normal((s["length"] + 1, s["dim_key"]))
    if s["keys"] == "equal":
        k[1:] = k[0]
    if s["keys"] == "large":
        k *= 1e4
    values = rng.standard_normal((s["length"], s["dim_value"])) * s["prior_variance"] ** 0.5
    return task, k[:-1], values, k[-1]


def _predictions(
    task: Any, k: np.ndarray, v: np.ndarray, q: np.ndarray, rounding: float = ROUNDING
) -> Answer:
    """`rounding` of the features moves a direction by as much:
    sqrt(kap) in a prediction, kap rounding^2 in a square.
    """
    mean, variance = task.predictive(q, k, v)
    log_p = float(task.log_probability(k, v))
    Phi = task.features(k)
    phi = task.features(q)
    lam = task.prior_variance
    s2 = task.noise**2
    kap = 1 + lam * float(np.sum(Phi**2)) / s2
    size = math.sqrt(lam / s2) * float(np.linalg.norm(phi)) * np.linalg.norm(v, axis=0)
    spread = s2 + lam * float(phi @ phi)
    logs = v.size * (math.log(kap) + abs(math.log(s2)) + 3) + np.sum(v**2) / s2 * (
        1 + kap * rounding
    )
    logs += v.shape[1] * len(phi) * math.sqrt(kap)
    predicted = task.bayes_predict(q, k, v)
    errors = rounding * math.sqrt(kap) * size + 1e-300
    return Answer(
        [*mean, *predicted, float(variance), log_p],
        [*errors, *errors, rounding * math.sqrt(kap) * spread, rounding * logs],
    )


def _call_map(s: Setting) -> Answer:
    return _predictions(*_map(s))


def _true_map(s: Setting) -> Truth:
    _, k, v, q = _map(s)
    lam = s["prior_variance"]
    noise2 = mp.mpf(s["noise"]) ** 2
    C = reference.inner_products(k, k, lam, 0.0)
    cross = [row[0] for row in reference.inner_products(k, q[None], lam, 0.0)]
    own = reference.inner_products(q[None], q[None], lam, 0.0)[0][0]
    return _gaussian_truth(C, cross, own, noise2, v)


def _gaussian_truth(C: Any, cross: list, own: Any, noise2: Any, v: np.ndarray) -> Truth:
    with mp.workdps(reference.DIGITS):
        for i in range(len(C)):
            C[i][i] += noise2
        means, variance = reference.gaussian_predict(C, cross, own, v)
        return Truth([*means, *means, variance + float(noise2), reference.log_density(C, v)])


def _map_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task, k, v, q = _map(s)
    m = s["dim_value"]
    turned = task.bayes_predict(q, k[::-1], v[::-1])
    yield same("tokens in another order", turned, a.value[:m], 2 * np.asarray(a.error[:m]))
    yield at_most(
        "variance within noise and prior",
        a.value[-2],
        s["noise"] ** 2 + s["prior_variance"] * float(q @ q),
        a.error[-2],
    )
    yield at_most("variance at least the noise", s["noise"] ** 2, a.value[-2], a.error[-2])
    C = task.posterior(k, v).covariance
    yield same("a symmetric covariance", C, C.T, 0.0)


def _rounded_values(s: Setting) -> str:
    _, _, v, _ = _map(s)
    lost = len(v) > s["dim_key"] and np.max(np.abs(v), initial=0.0) > 1e11 * s["noise"]
    return (
        "log_probability of more tokens than features, the noise below the rounding of the values"
        if lost
        else ""
    )


def draw_sphere(rng: np.random.Generator) -> Setting:
    degrees = sorted(rng.choice(5, size=int(rng.integers(1, 4)), replace=False).tolist())
    return {
        "dim": int(rng.integers(2, 5)),
        "noise": log_uniform(rng, 1e-3, 10, [1e-6]),
        "degrees": degrees,
        "weights": [log_uniform(rng, 1e-4, 1e4, [1.0]) for _ in degrees],
        "length": log_integer(rng, 1, 8, [0, 1, 2]),
        "seed": int(rng.integers(2**31)),
    }


def _sphere(s: Setting) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(s["seed"])
    task = at.SphereRegression(s["dim"], s["noise"], s["degrees"], s["weights"])
    k = rng.standard_normal((s["length"] + 1, s["dim"]))
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    return (
        task,
        k[:-1],
        rng.standard_normal((s["length"], 1)) * sum(s["weights"]) ** 0.5,
        k[-1],
    )


def _covariance(s: Setting, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    gram = np.clip(left @ right.T, -1, 1)
    return sum(
        w * reference.zonal(s["dim"], m, gram) for m, w in zip(s["degrees"], s["weights"])
    )


def _true_sphere(s: Setting) -> Truth:
    _, k, v, q = _sphere(s)
    weights = dict(zip(s["degrees"], s["weights"]))
    C = reference.sphere_covariance(s["dim"], weights, k, k)
    cross = [row[0] for row in reference.sphere_covariance(s["dim"], weights, k, q[None])]
    return _gaussian_truth(C, cross, mp.mpf(sum(s["weights"])), mp.mpf(s["noise"]) ** 2, v)


def _sphere_relations(s: Setting, a: Answer) -> Iterable[Relation]:
    task, k, _, q = _sphere(s)
    found = task.covariance(q, k)
    yield same("covariance", found, _covariance(s, q[None], k)[0], 1e-12 * sum(s["weights"]))
    yield same(
        "covariance by features",
        task.features(k) @ task.features(q),
        found,
        1e-11 * sum(s["weights"]),
    )


SUBJECTS: list[Subject] = [
    Subject(
        "GaussianLocation: all",
        tuple(
            f"GaussianLocation.{name}"
            for name in (
                "posterior",
                "posterior_variance",
                "bayes_predict",
                "bayes_risk",
                "log_probability",
            )
        ),
        _draw_location,
        _call_location,
        _true_location,
        _location_relations,
    ),
    Subject(
        "LinearMap.posterior, predictive, log_probability",
        tuple(
            f"LinearMap.{name}"
            for name in (
                "posterior",
                "predictive",
                "bayes_predict",
                "log_probability",
                "conditional_mean",
            )
        ),
        _draw_map,
        _call_map,
        _true_map,
        _map_relations,
        _rounded_values,
        weight=2,
    ),
    Subject(
        "SphereRegression.predictive, log_probability",
        tuple(
            f"SphereRegression.{name}"
            for name in (
                "posterior",
                "predictive",
                "bayes_predict",
                "log_probability",
                "covariance",
            )
        ),
        draw_sphere,
        lambda s: _predictions(*_sphere(s), rounding=HARMONICS),
        _true_sphere,
        _sphere_relations,
    ),
]
