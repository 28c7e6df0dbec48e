"""What samples tell attention: two gradient steps on labelled tokens, the Cramer-Rao limit.

Closed forms carry no error: CLOSED times their size is what is asked; of two gradients, LONG times
the largest token.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import attnscope as at
from stress.draws import log_integer, log_uniform, pmf
from stress.judged import Answer, Truth
from stress.references import attention, fisher
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

CLOSED = 1e-13  # relative, for closed forms that return plain numbers
LONG = 1e-13  # relative to the largest token, of the two gradients

# -- two gradient steps ----------------------------------------------------------------------------


def _draw_sparse(rng: np.random.Generator) -> Setting:
    L = log_integer(rng, 2, 10**6, (2, 3))
    return {
        "dim": 50,
        "length": L,
        "marked": min(log_integer(rng, 1, L, (1,)), L - 1),
        "strength": log_uniform(rng, 1e-6, 1e6, (1.0,)),
        "samples_per_dim": log_uniform(rng, 1e-6, 1e6, (1.0,)),
    }


def _alignment(setting: Setting) -> Answer:
    task = at.SparseTokenClassification(
        setting["dim"], setting["length"], setting["strength"], marked=setting["marked"]
    )
    found = np.array(at.two_step_alignment(task, setting["samples_per_dim"]))
    return Answer(found, CLOSED * found)


def _alignment_truth(setting: Setting) -> Truth:
    numbers = (setting[name] for name in ("length", "marked", "strength", "samples_per_dim"))
    return Truth(np.array([float(x) for x in attention.alignment(*numbers)]), 1e-300)


def _draw_labelled(rng: np.random.Generator) -> Setting:
    shape = (
        log_integer(rng, 1, 40, (1,)),
        log_integer(rng, 1, 6, (1, 2)),
        log_integer(rng, 1, 6),
    )
    tokens = log_uniform(rng, 1e-6, 1e6, (1.0,)) * rng.standard_normal(shape)
    return {"tokens": tokens, "target": rng.choice([-1.0, 1.0], shape[0])}


def _steps(setting: Setting) -> Answer:
    found = at.two_gradient_steps(setting["tokens"], setting["target"])
    size = float(np.abs(setting["tokens"]).max())
    d = setting["tokens"].shape[2]
    slack = np.repeat([LONG * size, LONG * d * size**3], d)
    return Answer(np.concatenate(found), slack)


def _steps_truth(setting: Setting) -> Truth:
    return Truth(
        np.concatenate(attention.two_steps(setting["tokens"], setting["target"])).astype(
            float
        )
    )


# -- the Cramer-Rao limit --------------------------------------------------------------------------


def _draw_limit(rng: np.random.Generator) -> Setting:
    L = log_integer(rng, 1, 4, (1, 2))
    return {
        "dim": int(rng.integers(2, 4)),
        "length": L,
        "gamma": log_uniform(rng, 0.4, 2, (1.0,)),
        "signal": log_uniform(rng, 1, 20),
        "noise": log_uniform(rng, 0.05, 3),
        "probs": tuple(float(x) for x in pmf(rng, L)) if rng.random() < 0.3 else None,
        "n": log_integer(rng, 1, 10**6),
        "intercept": bool(rng.integers(2)),
        "background": bool(rng.integers(2)),
        "seed": int(rng.integers(1000)),
    }


def _limit_task(setting: Setting) -> at.SingleLocation:
    numbers = {
        name: setting[name] for name in ("dim", "length", "gamma", "noise", "signal", "seed")
    }
    return at.SingleLocation(location_probs=setting["probs"], **numbers)


def _limit(setting: Setting) -> Answer:
    more = {name: setting[name] for name in ("intercept", "background", "seed")}
    found = at.cramer_rao(_limit_task(setting), setting["n"], samples=6400, **more)
    return Answer(found.excess, found.error + CLOSED * found.excess, sampled=True)


def _limit_truth(setting: Setting) -> Truth | None:
    task = _limit_task(setting)
    probs = (
        np.full(task.length, 1 / task.length)
        if setting["probs"] is None
        else task.location_probs
    )
    if setting["length"] == 1:  # least squares on the only token, whatever else is unknown
        return Truth(
            setting["noise"] ** 2 * (setting["dim"] + setting["intercept"]) / setting["n"]
        )
    more: Any = (setting["noise"], probs, setting["intercept"], setting["background"])
    value, error = fisher.limit(task.key, task.value, task.gamma, task.signal, *more)
    return Truth(value / setting["n"], error / setting["n"]) if error < 0.05 * value else None


def _limit_refusal(setting: Setting) -> str:
    """One token alone tells nothing of a background."""
    return (
        "the background is never seen, or hardly told apart" if setting["background"] else ""
    )


SUBJECTS: list[Subject] = [
    Subject(
        "two_step_alignment",
        ("two_step_alignment",),
        _draw_sparse,
        _alignment,
        _alignment_truth,
        weight=0.5,
    ),
    Subject(
        "two_gradient_steps",
        ("two_gradient_steps",),
        _draw_labelled,
        _steps,
        _steps_truth,
        weight=0.5,
    ),
    Subject(
        "cramer_rao",
        ("cramer_rao",),
        _draw_limit,
        _limit,
        _limit_truth,
        may_refuse=_limit_refusal,
        truths=0.3,
        weight=0.3,
    ),
]
