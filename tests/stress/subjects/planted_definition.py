"""What a planted task of the user's gets by enumeration: posterior and Bayes prediction against
Bayes' rule in 60 digits (references.planted), Bayes and null risk against single-location
regression, which the definition below is.

notation and promised errors: stress/tokens.py.
"""

from __future__ import annotations

import numpy as np

import attnscope as at
from stress import tokens as law
from stress.draws import log_integer, log_uniform
from stress.judged import Answer, Truth
from stress.references import planted as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

SAMPLES = 8192  # of the sampled risks


class Defined(at.Planted):
    """One token, at a uniform place, has the mean `signal` on the key and the scale `gamma`."""

    teachers = ("key", "value")  # type: ignore[assignment]  # names; read as vectors
    gamma: float = 1.0
    signal: float = 1.0

    def latents(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(self.length), np.full(self.length, 1 / self.length)

    def means(self, latent: np.ndarray) -> np.ndarray:
        out = np.zeros((len(latent), self.length, 2))
        out[np.arange(len(latent)), latent, 0] = self.signal
        return out

    def scales(self, latent: np.ndarray) -> np.ndarray:
        out = np.ones((len(latent), self.length))
        out[np.arange(len(latent)), latent] = self.gamma
        return out

    def label(
        self, fields: np.ndarray, latent: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        return fields[np.arange(len(fields)), latent, 1]


def _task(setting: Setting) -> Defined:
    return Defined(**{name: setting[name] for name in ("dim", "length", "gamma", "signal")})


def _draw_posterior(rng: np.random.Generator) -> Setting:
    gamma, signal = law.gamma_and_signal(rng)
    numbers = {
        "dim": log_integer(rng, 2, 6, (2,)),
        "length": log_integer(rng, 1, 20, (1, 2)),
        "gamma": gamma,
        "signal": signal,
    }
    return law.with_tokens(rng, numbers)


def _call_posterior(setting: Setting) -> Answer:
    task = _task(setting)
    x = law.tokens_of(task, setting)
    delta = law.gaussian_delta(x, task.gamma, task.signal)
    says = np.linalg.norm(x[0], axis=1)
    return law.inferred(task.posterior(x), task.bayes_predict(x), says, delta)


def _truth_posterior(setting: Setting) -> Truth:
    task = _task(setting)
    x = law.tokens_of(task, setting)[0]
    one = np.zeros(task.length + 1)
    one[1] = 1.0
    key, value = (getattr(task, name) for name in task.teacher_names)
    found = reference.multi_location(x, key, value, task.gamma, task.signal, one, one)
    return law.truth_of(found)


def _draw_risk(rng: np.random.Generator) -> Setting:
    # where mistakes are not rare: a sampled mean of what happens once in 10^9 draws is a bound only
    gamma = log_uniform(rng, 0.5, 2.0, (1.0,))
    return {
        "dim": log_integer(rng, 2, 12, (2,)),
        "length": log_integer(rng, 1, 8, (1, 2)),
        "gamma": gamma,
        "signal": log_uniform(rng, 0.1, 2.5, (0.0,)) * min(1.0, gamma),
        "seed": int(rng.integers(1 << 31)),
    }


def _call_risk(setting: Setting) -> Answer:
    task = _task(setting)
    found = [
        task.bayes_risk(SAMPLES, setting["seed"]),
        task.null_risk(SAMPLES, setting["seed"]),
    ]
    values, errors = (
        np.array([getattr(x, name) for x in found]) for name in ("value", "error")
    )
    # a single token is no choice: no risk, and rounding alone
    return Answer(values, errors + 1e-14, sampled=True)


def _truth_risk(setting: Setting) -> Truth:
    numbers = {name: setting[name] for name in ("dim", "length", "gamma", "signal")}
    task = at.SingleLocation(**numbers)
    best = task.bayes_risk()
    return Truth(np.array([best.value, task.gamma**2]), np.array([best.error, 0.0]))


SUBJECTS = [
    Subject(
        "Planted posterior",
        ("Planted.posterior", "Planted.bayes_predict"),
        _draw_posterior,
        _call_posterior,
        _truth_posterior,
        law.permuted(_task, 1),
    ),
    Subject(
        "Planted.bayes_risk, null_risk",
        ("Planted.bayes_risk", "Planted.null_risk"),
        _draw_risk,
        _call_risk,
        _truth_risk,
    ),
]
