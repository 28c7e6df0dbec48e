"""Risks of one head: on several informative tokens, on a max-type location, sampled, and before a
correlated background.

notation: as in references.heads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import attnscope as at
from stress.draws import choice, log_integer, log_uniform, overlaps, pmf
from stress.estimates import answer_of
from stress.judged import Answer, Relation, Truth, at_most, same
from stress.predictors import HEADS, predictor_of
from stress.references import heads as reference
from stress.subject import Setting, Subject
from stress.tokens import orthonormal

__all__ = ["SUBJECTS"]

# share of the settings of a max-type location with inverse temperatures up to 60: some take seconds
SHARP = 0.05
SAMPLES = 4000  # of sampled risks; their promise does not depend on it
# inverse temperatures that a best one must not lose against, wherever it is
ELSEWHERE = (1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)


# -- risks of one head -----------------------------------------------------------------------------


def _draw_head(rng: np.random.Generator) -> Setting:
    kind = choice(rng, list(HEADS))
    L = log_integer(rng, 1, 8, (2, 2, 2))
    wide = kind in ("softmax", "erf") and rng.random() < 0.5
    random = rng.random() < 0.5
    relevant: Any = pmf(rng, L + 1) if random else int(rng.integers(1, L + 1))
    return {
        "kind": kind,
        "inverse_temperature": log_uniform(rng, 1e-3, 1e6 if wide else 3.0, (0.0,)),
        "gain": float(rng.choice([-1, 1]) * log_uniform(rng, 1e-2, 1e2, (1.0, 0.0))),
        "length": L,
        "relevant": relevant,
        "weights": choice(rng, ["equal", "sum", "dirichlet"]),
        "gamma": log_uniform(rng, 1e-4, 1e4) if wide else log_uniform(rng, 0.3, 2.0, (1.0,)),
        "signal": log_uniform(rng, 1e-2, 1e4 if wide else 5.0, (0.0,)),
    }


def _head_task(setting: Setting) -> at.MultiLocation:
    names = ("length", "relevant", "weights", "gamma", "signal")
    return at.MultiLocation(2, **{name: setting[name] for name in names})


def _call_head(setting: Setting) -> Answer:
    return answer_of(
        at.head_risk(_head_task(setting), predictor_of(setting), setting["gain"])
    )


def _truth_head(setting: Setting) -> Truth | None:
    task = _head_task(setting)
    numbers = (
        setting["kind"],
        setting["inverse_temperature"],
        setting["gain"],
        task.gamma,
        task.signal,
    )
    found = reference.multi_head(*numbers, task.count_probs, *task.weight_moments())
    return found and Truth(*found)


def _relations_head(setting: Setting, answer: Answer) -> Iterable[Relation]:
    task = _head_task(setting)
    yield at_most("a risk is at least 0", 0.0, answer.value, answer.error)
    if setting["gain"] == 1:
        risk = at.risk(task, predictor_of(setting), at.Overlaps.oracle())
        yield same("risk at the oracle", risk.excess, answer.value, 0.0)
    if setting["gain"] == 0:
        null = task.null_risk()
        yield same(
            "gain 0 is the null predictor",
            answer.value,
            null.excess,
            answer.error + null.error,
        )


def _too_sharp(setting: Setting) -> str:
    normalised = setting["kind"] in ("softmax", "softmax-1", "softplus")
    sharp = setting["inverse_temperature"] > 60 / max(1.0, setting.get("gamma", 1.0))
    return (
        "normalised weights are served up to inverse temperature 60/max(1, gamma)"
        if normalised and sharp
        else ""
    )


def _draw_max_head(rng: np.random.Generator) -> Setting:
    steepest = 60.0 if rng.random() < SHARP else 10.0
    return {
        "kind": choice(rng, ["softmax", "softmax", "erf", "softmax-1", "softplus"]),
        "inverse_temperature": log_uniform(rng, 1e-3, steepest, (0.0, 1.0)),
        "gain": float(log_uniform(rng, 1e-2, 1e2, (1.0, 0.0))),
        "length": log_integer(rng, 1, 10**6, (2, 2, 2)),
        "strength": log_uniform(rng, 1e-3, steepest, (0.0, 1.0)),
    }


def _max_task(setting: Setting) -> at.MaxLocation:
    return at.MaxLocation(2, setting["length"], setting["strength"])


def _call_max_head(setting: Setting) -> Answer:
    return answer_of(at.head_risk(_max_task(setting), predictor_of(setting), setting["gain"]))


def _truth_max_head(setting: Setting) -> Truth | None:
    if setting["length"] != 2:
        return None
    found = reference.max_head(
        setting["kind"], setting["inverse_temperature"], setting["gain"], setting["strength"]
    )
    return found and Truth(*found)


def _relations_max_head(setting: Setting, answer: Answer) -> Iterable[Relation]:
    bayes = _max_task(setting).bayes_risk()
    yield at_most(
        "Bayes <= every head", bayes.excess, answer.value, answer.error + bayes.error
    )
    matched = (
        setting["kind"] == "softmax"
        and setting["inverse_temperature"] == setting["strength"]
        and setting["gain"] == 1
    )
    if matched:
        yield same(
            "softmax at the strength is Bayes",
            answer.value,
            bayes.excess,
            answer.error + bayes.error,
        )


# -- sampled risks of one head ---------------------------------------------------------------------


def _draw_sampled(rng: np.random.Generator) -> Setting:
    setting = _draw_head(rng) | {
        "inverse_temperature": log_uniform(rng, 1e-2, 10.0, (0.0,)),
        "gain": 1.0,
    }
    place = choice(rng, ["single", "single", "multi", "max"])
    more = {"place": place, "overlaps": overlaps(rng), "seed": int(rng.integers(1 << 31))}
    near = {
        "gamma": log_uniform(rng, 0.3, 2.0, (1.0,)),
        "signal": log_uniform(rng, 1e-2, 6.0, (0.0,)),
    }
    if place != "single":  # where the exact risk is known
        more["overlaps"] = (1.0, 0.0, 0.0, 1.0, 0.0)
    if setting["kind"] == "linear" and place == "max":
        # the exact risk of an unbounded weight is another family's
        setting["kind"] = "softmax"
    return setting | more | near


def _sampled_task(setting: Setting) -> Any:
    if setting["place"] == "single":
        return at.SingleLocation(
            4, setting["length"], setting["gamma"], 0.0, setting["signal"]
        )
    if setting["place"] == "max":
        return at.MaxLocation(2, setting["length"], setting["signal"])
    return _head_task(setting)


def _call_sampled(setting: Setting) -> Answer:
    o = at.Overlaps(*setting["overlaps"])
    task = _sampled_task(setting)
    found = at.risk(
        task, predictor_of(setting), o, "monte-carlo", samples=SAMPLES, seed=setting["seed"]
    )
    return answer_of(found)


def _truth_sampled(setting: Setting) -> Truth:
    exact = at.risk(
        _sampled_task(setting), predictor_of(setting), at.Overlaps(*setting["overlaps"])
    )
    return Truth(exact.excess, exact.error)


# -- before a correlated background ----------------------------------------------------------------


def _draw_correlated(rng: np.random.Generator) -> Setting:
    d = log_integer(rng, 2, 6, (2,))
    frame = orthonormal(rng, d, d)
    sizes = np.exp(rng.uniform(0, np.log(log_uniform(rng, 1.0, 1e3, (1.0,))), d))
    oracle = rng.random() < 0.5
    return {
        "dim": d,
        "length": log_integer(rng, 1, 1000, (1, 2)),
        "gamma": log_uniform(rng, 0.1, 10.0, (1.0,)),
        "signal": log_uniform(rng, 1e-2, 10.0, (0.0,)),
        "mean": rng.standard_normal(d) * log_uniform(rng, 1e-3, 10.0, (0.0,)),
        "covariance": (frame * sizes) @ frame.T,
        "freedom": None if rng.random() < 0.6 else 2.2 + log_uniform(rng, 1e-2, 1e4, (1.0,)),
        "informative": choice(rng, ["scaled", "isotropic"]),
        "inverse_temperature": log_uniform(rng, 1e-3, 1e2, (0.0, 1e6)),
        "k": None if oracle else rng.standard_normal(d),
        "v": None if oracle else rng.standard_normal(d),
        "intercept": bool(rng.random() < 0.5),
    }


def _correlated(setting: Setting) -> at.CorrelatedBackground:
    inner = at.SingleLocation(
        setting["dim"], setting["length"], setting["gamma"], 0.0, setting["signal"]
    )
    return at.CorrelatedBackground(
        inner, *(setting[name] for name in ("mean", "covariance", "freedom", "informative"))
    )


def _call_correlated(setting: Setting) -> Answer:
    head = at.Erf(setting["inverse_temperature"])
    names = ("k", "v", "intercept")
    return answer_of(
        at.correlated_risk(_correlated(setting), head, *(setting[name] for name in names))
    )


def _truth_correlated(setting: Setting) -> Truth | None:
    task = _correlated(setting)
    n = setting["freedom"]
    if n is not None and (n < 3 or n > 300):
        return None  # the reference's integral over scales is too long, or its steps too many
    k = task.key if setting["k"] is None else setting["k"]
    v = task.value if setting["v"] is None else setting["v"]
    background = (task.mean, task.covariance, n)
    informative = (task.informative_mean, task.informative_covariance)
    numbers = (background, informative, task.length, setting["intercept"])
    return Truth(
        *reference.correlated_excess(
            setting["inverse_temperature"], (k, v, task.value), *numbers
        )
    )


def _relations_correlated(setting: Setting, answer: Answer) -> Iterable[Relation]:
    task = _correlated(setting)
    head = at.Erf(setting["inverse_temperature"])
    both = [
        at.correlated_risk(task, head, setting["k"], setting["v"], flag)
        for flag in (False, True)
    ]
    yield at_most(
        "the best constant helps",
        both[1].excess,
        both[0].excess,
        both[0].error + both[1].error,
    )
    if setting["v"] is not None:
        turned = at.correlated_risk(
            task, head, -setting["k"], -setting["v"], setting["intercept"]
        )
        yield same(
            "(-k, -v) is (k, v)", turned.excess, answer.value, turned.error + answer.error
        )


def _call_inverse_temperature(setting: Setting) -> Answer:
    """The smallest risk over inverse temperatures."""
    return answer_of(
        at.correlated_inverse_temperature(
            _correlated(setting), intercept=setting["intercept"]
        )[1]
    )


def _relations_inverse_temperature(setting: Setting, answer: Answer) -> Iterable[Relation]:
    task = _correlated(setting)
    more = {"intercept": setting["intercept"]}
    best, found = at.correlated_inverse_temperature(task, **more)
    again = at.correlated_risk(task, at.Erf(best), **more)
    yield same("the risk at the inverse temperature found", again.excess, found.excess, 0.0)
    nearby = {f"{factor} of it": factor * best for factor in (0.3, 0.9, 1.1, 3.0)}
    anywhere = {f"{lam:.3g}": lam for lam in (*ELSEWHERE, setting["inverse_temperature"])}
    for name, lam in (nearby | anywhere).items():
        other = at.correlated_risk(task, at.Erf(lam), **more)
        # a minimum found to 1e-7 in log inverse temperature: what is left is of second order
        slack = other.error + found.error + 1e-12 * found.excess
        yield at_most(f"no better at {name}", found.excess, other.excess, slack)


SUBJECTS = [
    Subject(
        "head_risk MultiLocation",
        ("head_risk", "risk"),
        _draw_head,
        _call_head,
        _truth_head,
        _relations_head,
        _too_sharp,
        weight=2.0,
    ),
    Subject(
        "head_risk MaxLocation",
        ("head_risk", "risk"),
        _draw_max_head,
        _call_max_head,
        _truth_max_head,
        _relations_max_head,
        _too_sharp,
    ),
    Subject(
        "risk monte-carlo",
        ("risk",),
        _draw_sampled,
        _call_sampled,
        _truth_sampled,
        truths=0.7,
    ),
    Subject(
        "correlated_risk",
        ("correlated_risk",),
        _draw_correlated,
        _call_correlated,
        _truth_correlated,
        _relations_correlated,
        truths=0.7,
    ),
    Subject(
        "correlated_inverse_temperature",
        ("correlated_inverse_temperature",),
        _draw_correlated,
        _call_inverse_temperature,
        relations=_relations_inverse_temperature,
        weight=0.1,
    ),
]
