"""SingleLocation: exact risks, posteriors and Bayes predictions.

Settings: d to 1e9, L to 1e12 (or given position probabilities, some of them 0 or 1e-20), gamma
1e-4..1e4, signal 0..1e8. Posteriors and predictions carry no error: POSTERIOR times the size of the
logits is what is asked (rounding of the logits themselves).
"""

from __future__ import annotations

import math

import numpy as np

import attnscope as at
from stress.draws import CORNER, choice, log_integer, log_uniform, pmf
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.location_settings import task_of
from stress.references import location_posterior, single_location
from stress.subject import Setting, Subject

__all__ = [
    "RARE",
    "STANDARD_ERRORS",
    "SUBJECTS",
    "draw_location",
    "linear_truth",
    "location_task",
    "location_truth",
    "numbers_of",
    "out_of_reach",
]

STANDARD_ERRORS = 6.0  # of a sampled truth against a bounding error: 2e-9 each
# relative error that the two-token rule states of itself; from there on it is no reference
RESOLVED = 1e-3
RARE = 30.0  # plain draws see an event only if about this many of them fall into it
POSTERIOR = 1e-14  # per unit of the logits' terms: a few dozen roundings of 1e-16
TINY = 1e-300  # below: underflow


# -- settings --------------------------------------------------------------------------------------


def draw_location(rng: np.random.Generator) -> Setting:
    out: Setting = {
        "dim": log_integer(rng, 2, 10**9, (2, 3)),
        "length": log_integer(rng, 1, 10**12, (1, 2, 2, 3)),
        "gamma": log_uniform(rng, 1e-4, 1e4, (1.0, 0.5**0.5, 1 - 1e-9)),
        "signal": log_uniform(rng, 1e-3, 1e4, (0.0, 1.0, 1e8)),
        "noise": log_uniform(rng, 1e-6, 1e2, (0.0,)),
        "c": 0.0,
        "probs": None,
    }
    if rng.random() < 0.5:  # where references reach
        out["dim"], out["gamma"] = (
            log_integer(rng, 2, 500, (2, 3)),
            log_uniform(rng, 0.3, 3, (1.0, 0.5**0.5)),
        )
        out["signal"] = log_uniform(rng, 0.1, 8, (0.0,))
        out["length"] = choice(rng, [2, 2, log_integer(rng, 2, 200)])
    if rng.random() < CORNER:
        out["length"] = log_integer(rng, 1, 50, (1, 2))
        out["probs"] = tuple(float(x) for x in pmf(rng, out["length"]))
    if out["dim"] <= 500 and rng.random() < CORNER:
        out["c"] = choice(rng, [1.0, -1.0, 0.5, float(rng.uniform(-1, 1)), 1e-6])
    return out


def location_task(setting: Setting) -> at.SingleLocation:
    task = task_of(setting)
    if setting.get("probs") is not None:
        given = task.given
        return at.SingleLocation(
            task.dim,
            task.length,
            task.gamma,
            task.noise,
            task.signal,
            np.array(setting["probs"]),
            given["key"],
            given["value"],
        )
    return task


def numbers_of(setting: Setting) -> tuple[float, float, int]:
    return setting["gamma"], setting["signal"], setting["length"]


# -- Bayes risk and location error -----------------------------------------------------------------


def location_truth(setting: Setting, which: int) -> Truth | None:
    """which = 0: Bayes risk, 1: location error."""
    gam, s, L = numbers_of(setting)
    c = location_task(setting).alignment
    probs = setting["probs"] or (0.5, 0.5)
    if L == 1:
        return Truth(0.0)
    if L == 2 and gam == 1 and (which or c == 0):
        value = float(location_posterior.pair_error(s, probs))
        return Truth(value, 1e-15 * value + TINY)
    if L == 2 and (which or c == 0):
        found = location_posterior.two_tokens(setting["dim"], gam, s, probs)
        if found is not None and found[2] < RESOLVED:
            return Truth(found[which], found[2] * found[which])
    if L > 300 or setting["dim"] > 10**6 or not 1e-2 <= gam <= 1e2:
        return None
    many = np.array(setting["probs"]) if setting["probs"] else L
    found4 = location_posterior.sampled_risks(setting["dim"], gam, s, many, c)
    value, error = found4[2 * which : 2 * which + 2]
    seen = value > RARE * L / location_posterior.DRAWS
    return Truth(value, STANDARD_ERRORS * error) if seen and error < value / 5 else None


def out_of_reach(setting: Setting) -> str:
    """What docs/bayes_risk.md leaves open: rounding of terms of size d |log gam| + s^2/gam^2,
    and the limits of the integral.
    """
    gam, s, _ = numbers_of(setting)
    terms = setting["dim"] * abs(math.log(gam)) + (s / min(gam, 1.0)) ** 2
    return (
        "terms too large for float64, or an integrand too wide"
        if terms > 1e6 or not 1e-2 <= gam <= 1e2
        else ""
    )


def _bayes_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """0 <= Bayes <= linear <= null; no more tokens, no less risk: R(L - 1) <= R(L) <= (L - 1) R(2)
    for uniform positions.

    A genie who names one background token leaves the task of length L - 1; for the other bound drop
    from 1/S all but two tokens.
    """
    task = location_task(setting)
    linear = task.linear_risk()
    null = task.null_risk()
    out = [
        at_most("0 <= Bayes", 0.0, answer.value, answer.error),
        at_most("Bayes <= linear", answer.value, linear.excess, answer.error + linear.error),
        at_most(
            "linear <= null",
            linear.excess,
            null.excess,
            linear.error + null.error + 1e-15 * null.excess,
        ),
    ]
    if setting["probs"] is None and setting["length"] > 2:
        pair = location_task(setting | {"length": 2}).bayes_risk()
        less = location_task(setting | {"length": setting["length"] // 2}).bayes_risk()
        most = (setting["length"] - 1) * pair.excess
        slack = answer.error + (setting["length"] - 1) * pair.error + 1e-15 * most + TINY
        out.append(at_most("Bayes(L) <= (L-1) Bayes(2)", answer.value, most, slack))
        out.append(
            at_most(
                "Bayes(L/2) <= Bayes(L)",
                less.excess,
                answer.value,
                less.error + answer.error + TINY,
            )
        )
    return out


def _bayes(setting: Setting) -> Answer:
    found = location_task(setting).bayes_risk()
    return Answer(found.excess, found.error)


def _location_error(setting: Setting) -> Answer:
    found = location_task(setting).location_error()
    return Answer(found.excess, found.error)


def _error_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """A probability, at most that of guessing from the prior;
    at gamma = 1 and orthogonal vectors it is the Bayes risk.
    """
    pi = setting["probs"]
    guess = 1 - 1 / setting["length"] if pi is None else 1 - sum(x * x for x in pi)
    out = [at_most("location error <= guessing", answer.value, guess, answer.error + 1e-15)]
    if setting["gamma"] == 1 and setting["c"] == 0:
        bayes = location_task(setting).bayes_risk()
        out.append(
            same(
                "Bayes risk at gamma = 1",
                answer.value,
                bayes.excess,
                answer.error + bayes.error,
            )
        )
    return out


# -- linear and null -------------------------------------------------------------------------------


def linear_truth(setting: Setting) -> Truth | None:
    if setting["length"] > 12:
        return None
    gam, s, L = numbers_of(setting)
    probs = list(setting["probs"] or [1 / L] * L)
    exact = single_location.linear_risk(gam, s, probs, location_task(setting).alignment)
    return Truth(float(exact.value), float(exact.size) * 1e-55 + TINY)


def _linear(setting: Setting) -> Answer:
    found = location_task(setting).linear_risk()
    return Answer(found.excess, found.error)


def _linear_relations(setting: Setting, answer: Answer) -> list[Relation]:
    """At orthogonal vectors and uniform positions it is gam^2 (L-1)/(L-1+gam^2), and no affine
    predictor of L tokens does better.
    """
    gam, _, L = numbers_of(setting)
    null = location_task(setting).null_risk()
    out = [
        same(
            "null = gam^2 + noise^2",
            null.value,
            gam**2 + setting["noise"] ** 2,
            null.error + 1e-15 * null.value,
        ),
        at_most("linear <= null", answer.value, null.excess, answer.error + null.error),
    ]
    if setting["probs"] is None and setting["c"] == 0:
        closed = gam**2 * (L - 1) / (L - 1 + gam**2)
        out.append(same("closed form", answer.value, closed, answer.error + 1e-15 * closed))
    return out


# -- posteriors and predictions --------------------------------------------------------------------


def _draw_tokens(rng: np.random.Generator) -> Setting:
    out = draw_location(rng)
    out["dim"] = log_integer(rng, 2, 8)
    out["length"] = log_integer(rng, 1, 6, (1, 2))
    if out["probs"] is not None:
        out["probs"] = tuple(float(x) for x in pmf(rng, out["length"]))
    scale = log_uniform(rng, 1e-3, 1e3, (0.0, 1.0))
    tokens = scale * rng.standard_normal((2, out["length"], out["dim"]))
    tokens[:, 0] += out["signal"] * (rng.random() < 0.5)
    return out | {"tokens": tokens}


def _posterior_sizes(setting: Setting) -> np.ndarray:
    """What the logits' terms of each sequence add up to, (n,)."""
    gam, s, _ = numbers_of(setting)
    x = setting["tokens"]
    square = np.sum(x * x, axis=2)
    terms = s * np.sqrt(square) / gam**2 + (1 / gam**2 + 1) * square
    return 1 + setting["dim"] + terms.max(axis=1)


def _posterior_truth(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    task = location_task(setting)
    with np.errstate(divide="ignore"):
        prior = (
            np.log(task.location_probs)
            if task.location_probs is not None
            else np.zeros(task.length)
        )
    rows = [
        location_posterior.posterior(x, task.key, task.gamma, task.signal, prior, task.value)
        for x in setting["tokens"]
    ]
    return np.array([[float(p) for p in row[0]] for row in rows]), np.array(
        [float(row[1]) for row in rows]
    )


def _posterior(setting: Setting) -> Answer:
    p = location_task(setting).location_posterior(setting["tokens"])
    slack = POSTERIOR * _posterior_sizes(setting)[:, None]
    return Answer(p, np.minimum(slack * np.minimum(1, p + slack), 1.0) + TINY)


def _prediction(setting: Setting) -> Answer:
    task = location_task(setting)
    mean = task.bayes_predict(setting["tokens"])
    size = (
        np.abs(setting["tokens"] @ task.value).max(axis=1)
        + np.abs(setting["tokens"]).max(axis=(1, 2)) * 1e-2
    )
    return Answer(
        mean,
        size * np.minimum(POSTERIOR * setting["length"] * _posterior_sizes(setting), 2.0)
        + TINY,
    )


SUBJECTS: list[Subject] = [
    Subject(
        "SingleLocation.bayes_risk",
        ("SingleLocation.bayes_risk",),
        draw_location,
        _bayes,
        lambda s: location_truth(s, 0),
        _bayes_relations,
        out_of_reach,
        truths=0.5,
        weight=2.0,
    ),
    Subject(
        "SingleLocation.location_error",
        ("SingleLocation.location_error",),
        draw_location,
        _location_error,
        lambda s: location_truth(s, 1),
        _error_relations,
        out_of_reach,
        truths=0.5,
    ),
    Subject(
        "SingleLocation.linear_risk",
        ("SingleLocation.linear_risk", "SingleLocation.null_risk"),
        draw_location,
        _linear,
        linear_truth,
        _linear_relations,
    ),
    Subject(
        "SingleLocation.location_posterior",
        ("SingleLocation.location_posterior", "SingleLocation.posterior"),
        _draw_tokens,
        _posterior,
        lambda s: Truth(_posterior_truth(s)[0]),
    ),
    Subject(
        "SingleLocation.bayes_predict",
        ("SingleLocation.bayes_predict",),
        _draw_tokens,
        _prediction,
        lambda s: Truth(_posterior_truth(s)[1]),
    ),
]
