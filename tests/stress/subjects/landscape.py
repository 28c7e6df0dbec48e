"""Stationary points and what follows from them: critical inverse temperatures, rates, escape times,
basins.

Key and value are perpendicular throughout (elsewhere these functions refuse). Curvatures carry no
error: SPECTRUM of the largest eigenvalue is what is asked, the fraction below which the project
itself calls an eigenvalue zero.
"""

from __future__ import annotations

import math

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform, overlaps
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.location_settings import task_of
from stress.predictors import plain_predictor
from stress.references import landscape
from stress.subject import Setting, Subject

__all__ = ["CLOSED", "SUBJECTS", "TINY", "draw_perpendicular", "numbers_of"]

SPECTRUM = 1e-9  # of the largest eigenvalue
# a point is accepted at 1e-9 (1 + s^2) in the project's own rounding of the overlaps
STATIONARY = 2e-9
CLEAR = 1e-6  # an eigenvalue beyond this fraction of the largest has a sign
# critical inverse temperatures are right to 1e-13; the sign of the determinant is asked this far
# beside
CROSSING = 1e-8
MODES = 1e-6  # escape times and basins rest on differences of the gradient
CLOSED = 1e-13  # relative, for closed forms that return plain numbers
TINY = 1e-300


def draw_perpendicular(rng: np.random.Generator) -> Setting:
    return {
        "dim": log_integer(rng, 2, 10**9, (2, 3, 4, 5)),
        "length": log_integer(rng, 1, 10**12, (1, 2)),
        "gamma": log_uniform(rng, 1e-2, 1e2, (1.0, 0.5**0.5)),
        "signal": log_uniform(rng, 1e-2, 1e4, (0.0, 1.0)),
        "noise": 0.0,
    }


def numbers_of(setting: Setting) -> tuple[float, float, int]:
    return setting["gamma"], setting["signal"], setting["length"]


# -- the oracle ------------------------------------------------------------------------------------


def _critical(setting: Setting) -> Answer:
    value = at.critical_inverse_temperature(task_of(setting))
    return Answer(min(value, 1e300), CROSSING * min(value, 1e300))


def _critical_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """The determinant of the oracle's Hessian is positive below and negative just above;
    positive everywhere if infinite.
    """
    if answer.value < 1e300:
        below = [answer.value * x for x in (0.3, 1 - CROSSING)]
        above = [answer.value * (1 + CROSSING)]
    else:
        below = [0.3, 1.0, 3.0, 100.0]
        above = []
    out = [
        at_most(f"a minimum at {lam:.9g}", -_determinant(setting, lam), 0.0, 0.0)
        for lam in below
    ]
    return out + [
        at_most(f"a saddle at {lam:.9g}", _determinant(setting, lam), 0.0, 0.0)
        for lam in above
    ]


def _determinant(setting: Setting, lam: float) -> float:
    """Its sign, 0 where the determinant is too small for the differences behind it."""
    a, b, c = landscape.oracle_block(("erf",), lam, *numbers_of(setting))
    size = a * a + b * b + c * c  # differences are good to 1e-30 of the larger curvature
    value = a * c - b * b
    return (
        float(np.sign(float(value / size))) if size > 0 and abs(value) > 1e-27 * size else 0.0
    )


# -- stationary points -----------------------------------------------------------------------------


def _draw_points(rng: np.random.Generator) -> Setting:
    kind = choice(rng, ["erf", "erf", "linear", "softmax"])
    out = draw_perpendicular(rng) | {
        "kind": kind,
        "inverse_temperature": log_uniform(rng, 1e-4, 1e3, (0.0, 0.1)),
    }
    if kind == "softmax":
        out |= {
            "signal": log_uniform(rng, 0.1, 30),
            "inverse_temperature": log_uniform(rng, 1e-2, 10),
        }
        out |= {
            "gamma": log_uniform(rng, 0.3, 3),
            "length": log_integer(rng, 1, 10**4, (1, 2)),
        }
    return out


def _sigma(setting: Setting) -> tuple | None:
    pieces = ("pieces", ((-math.inf, math.inf, (0.5, 1.0)),))
    return {"erf": ("erf",), "linear": pieces, "softmax": None}[setting["kind"]]


def _points(setting: Setting) -> Answer:
    """Eigenvalues of every point, each followed by the gradient's norm (0)
    and by whether it is called a minimum.
    """
    value = []
    error = []
    for point in at.stationary_points(task_of(setting), plain_predictor(setting)):
        spectrum = np.sort(point.eigenvalues)
        value += [*spectrum, 0.0, float(point.kind == "minimum")]
        error += [SPECTRUM * np.abs(spectrum).max() + TINY] * len(spectrum)
        error += [STATIONARY * (1 + setting["signal"] ** 2), 0.0]
    return Answer(np.array(value), np.array(error))


def _points_truth(setting: Setting) -> Truth | None:
    sigma = _sigma(setting)
    if sigma is None:
        return None
    value = []
    error = []
    for point in at.stationary_points(task_of(setting), plain_predictor(setting)):
        place = (
            sigma,
            point.overlaps,
            setting["inverse_temperature"],
            *numbers_of(setting),
            setting["dim"],
        )
        norm, spectrum = landscape.curvature(*place)
        steep = norm > STATIONARY * (1 + setting["signal"] ** 2)
        norms, values = landscape.rounded_curvature(*place) if steep else (0.0, 0.0)
        lowest = spectrum[0]
        largest = np.abs(spectrum).max()
        called = float(point.kind == "minimum")
        clear = abs(lowest) > CLEAR * largest
        value += [*spectrum, norm, float(lowest > 0) if clear else called]
        error += [*[TINY + values] * len(spectrum), TINY + norms, 0.0]
    return Truth(np.array(value), np.array(error))


def _point_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """Names say where a point is; multiplicities add up to the dimension of the spheres;
    the best comes first.
    """
    points = at.stationary_points(task_of(setting), plain_predictor(setting))
    out = [
        at_most(f"named {p.name}", float(_named(p.name, tuple(p.overlaps))), 0.0, 0.0)
        for p in points
    ]
    room = 2 * (setting["dim"] - 1)
    out += [
        same("directions", float(p.multiplicities.sum()), float(room), 0.0) for p in points
    ]
    out += [
        same("counted", float(sum(p.count(sign) for sign in (-1, 0, 1))), float(room), 0.0)
        for p in points
    ]
    risks = [p.risk.value for p in points]
    return [*out, same("best first", np.array(risks), np.sort(risks), 0.0)]


def _named(name: str, o: tuple) -> bool:
    """Whether the name is wrong for these overlaps."""
    kap, eta, the, nu, _ = o
    at_ends = min(abs(kap), abs(nu)) > 1 - 1e-5
    return {
        "oracle": not (at_ends and kap > 0 and nu > 0),
        "reversed": not (at_ends and min(kap, nu) < 0),
        "degenerate": max(abs(x) for x in o[:4]) > 1e-5,
        "swapped": abs(eta) < abs(kap) or abs(the) < abs(nu),
        "other": at_ends,
    }.get(name, True)


# -- training --------------------------------------------------------------------------------------


def _draw_training(rng: np.random.Generator) -> Setting:
    out = draw_perpendicular(rng) | {"inverse_temperature": log_uniform(rng, 1e-3, 0.5)}
    out |= {
        "dim": log_integer(rng, 5, 10**9),
        "signal": log_uniform(rng, 0.1, 1e3),
        "limit": choice(rng, ["oracle", "swapped"]),
    }
    # longer steps do not contract
    out["step_size"] = log_uniform(rng, 1e-6, 1.0) / _largest(out)
    size = log_uniform(rng, 1e-6, 0.1)
    return out | {"overlaps": (*(float(size * x) for x in overlaps(rng)[:4]), 0.0)}


def _rate(setting: Setting) -> Answer:
    found = at.predicted_rate(
        task_of(setting),
        at.Erf(setting["inverse_temperature"]),
        setting["step_size"],
        setting["limit"],
    )
    points = {
        p.name: p
        for p in at.stationary_points(
            task_of(setting), at.Erf(setting["inverse_temperature"])
        )
    }
    slack = SPECTRUM * float(np.abs(points[setting["limit"]].eigenvalues).max())
    decay = setting["step_size"] * slack + CLOSED * found.decay
    return Answer(np.array([found.eigenvalue, found.decay]), np.array([slack, 2 * decay]))


def _rate_truth(setting: Setting) -> Truth | None:
    points = {
        p.name: p
        for p in at.stationary_points(
            task_of(setting), at.Erf(setting["inverse_temperature"])
        )
    }
    o = points[setting["limit"]].overlaps
    _, mu = landscape.curvature(
        ("erf",), o, setting["inverse_temperature"], *numbers_of(setting), setting["dim"]
    )
    largest = np.abs(mu).max()
    if np.any((np.abs(mu) < 1e3 * SPECTRUM * largest) & (np.abs(mu) > 1e-20 * largest)):
        return None  # an eigenvalue near what counts as zero
    mu = mu[np.abs(mu) > SPECTRUM * largest]
    slowest = mu[np.argmax(np.abs(1 - setting["step_size"] * mu))]
    return Truth(np.array([slowest, -math.log1p(-setting["step_size"] * slowest)]), TINY)


def _largest(setting: Setting) -> float:
    """A bound on the largest eigenvalue, generous: the informative token's part and the
    background's, whose outputs add up with rho.
    """
    gam, s, L = numbers_of(setting)
    lam = setting["inverse_temperature"]
    informative = (s * s + gam * gam + 1) * (1 + lam * (1 + gam)) ** 2
    return 20 * informative + 20 * (L * min(lam, 1.0)) ** 2


def _rate_refusal(setting: Setting) -> str:
    return "the swapped point may be a saddle" if setting["limit"] == "swapped" else ""


def _escape(setting: Setting) -> Answer:
    o = at.Overlaps(*setting["overlaps"])
    steps = float(
        at.escape_time(
            task_of(setting), at.Erf(setting["inverse_temperature"]), setting["step_size"], o
        )
    )
    return Answer(steps, MODES * steps + TINY)


def _escape_truth(setting: Setting) -> Truth | None:
    values, vectors = np.linalg.eigh(
        landscape.saddle_block(("erf",), setting["inverse_temperature"], *numbers_of(setting))
    )
    down = values < -CLEAR * np.abs(values).max()
    if not down.any() or np.any(
        (np.abs(values) < 1e-5 * np.abs(values).max()) & ~down & (values < 0)
    ):
        return None
    size = np.abs(np.array(setting["overlaps"][:4]) @ vectors[:, down])
    if (size < 1e-9).any():
        return None  # a start on the stable side: rounding decides when it leaves
    times = np.log(0.3 / size) / np.log1p(-setting["step_size"] * values[down])
    return Truth(float(np.maximum(times, 0).min()), TINY)


def _no_saddle(setting: Setting) -> str:
    """Growth below 1e-6 of the largest curvature is not told from none."""
    values = np.linalg.eigvalsh(
        landscape.saddle_block(("erf",), setting["inverse_temperature"], *numbers_of(setting))
    )
    return (
        "no unstable direction to speak of"
        if values[0] > -1e-5 * np.abs(values).max()
        else ""
    )


def _basin(setting: Setting) -> Answer:
    found = at.basin_prediction(
        task_of(setting), setting["inverse_temperature"], at.Overlaps(*setting["overlaps"])
    )
    return Answer(float(str(found) == "oracle"), 0.0)


def _basin_truth(setting: Setting) -> Truth:
    H = landscape.saddle_block(("erf",), setting["inverse_temperature"], *numbers_of(setting))
    pairs = []
    # (kap, nu) towards the oracle, (eta, the) towards the swapped minimum
    for axes in ([0, 3], [1, 2]):
        values, vectors = np.linalg.eigh(H[np.ix_(axes, axes)])
        pairs.append(
            abs(np.array(setting["overlaps"])[axes] @ vectors[:, int(np.argmin(values))])
        )
    return Truth(
        float(pairs[0] > pairs[1]),
        2.0 if abs(pairs[0] - pairs[1]) <= MODES * (pairs[0] + pairs[1]) else 0.0,
    )


SUBJECTS: list[Subject] = [
    Subject(
        "critical_inverse_temperature",
        ("critical_inverse_temperature",),
        draw_perpendicular,
        _critical,
        relations=_critical_relations,
        weight=0.5,
    ),
    Subject(
        "stationary_points",
        ("stationary_points",),
        _draw_points,
        _points,
        _points_truth,
        _point_relations,
        truths=0.3,
        weight=0.5,
    ),
    Subject(
        "predicted_rate",
        ("predicted_rate",),
        _draw_training,
        _rate,
        _rate_truth,
        may_refuse=_rate_refusal,
        truths=0.5,
        weight=0.5,
    ),
    Subject(
        "escape_time",
        ("escape_time",),
        _draw_training,
        _escape,
        _escape_truth,
        may_refuse=_no_saddle,
        weight=0.5,
    ),
    Subject(
        "basin_prediction",
        ("basin_prediction",),
        _draw_training,
        _basin,
        _basin_truth,
        weight=0.5,
    ),
]
