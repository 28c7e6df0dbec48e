"""Posteriors and Bayes predictions before other backgrounds and with several directions, against
Bayes' rule in 60 digits.

notation and promised errors: stress/tokens.py.
"""

from __future__ import annotations

import numpy as np

import attnscope as at
from stress import tokens as law
from stress.draws import CORNER, choice, log_integer, log_uniform, pmf
from stress.judged import Answer, Truth
from stress.references import planted as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

SMALL = 5  # tokens at most where locations are listed
FEW = 4  # tokens at most where ordered positions are listed: 64 of them for three directions


# -- before a correlated background ----------------------------------------------------------------


def _draw_correlated(rng: np.random.Generator) -> Setting:
    d = log_integer(rng, 2, 4, (2,))
    L = log_integer(rng, 1, SMALL, (1, 2))
    gamma, signal = law.gamma_and_signal(rng)
    condition = log_uniform(rng, 1.0, 1e3, (1.0, 1e10))
    sizes = np.exp(rng.uniform(0, np.log(condition), d))
    sizes[0] = 1.0
    frame = law.orthonormal(rng, d, d)
    numbers = {
        "dim": d,
        "length": L,
        "gamma": gamma,
        "signal": signal,
        "probs": None if rng.random() < 0.5 else pmf(rng, L),
        "mean": None
        if rng.random() < CORNER
        else rng.standard_normal(d) * log_uniform(rng, 1e-2, 1e2),
        "covariance": (frame * sizes) @ frame.T,
        "freedom": None if rng.random() < 0.5 else 2 + log_uniform(rng, 1e-3, 1e9, (1e-9,)),
        "informative": choice(rng, ["scaled", "isotropic"]),
    }
    return law.with_tokens(rng, numbers)


def _correlated(setting: Setting) -> at.CorrelatedBackground:
    d = setting["dim"]
    L = setting["length"]
    inner = at.SingleLocation(
        d, L, setting["gamma"], 0.0, setting["signal"], setting["probs"]
    )
    more = (
        setting["mean"],
        setting["covariance"],
        setting["freedom"],
        setting["informative"],
    )
    return at.CorrelatedBackground(inner, *more)


def _correlated_delta(task: at.CorrelatedBackground, x: np.ndarray) -> float:
    """Whitening multiplies relative errors by the condition number;
    the constants of Student's t are of size (n + d) log n.
    """
    sizes = np.linalg.eigvalsh(task.covariance)
    smallest = min(sizes[0], 1.0) if task.informative == "isotropic" else sizes[0]
    d = task.dim
    reach = np.linalg.norm(x[0], axis=1) + np.linalg.norm(task.mean) + task.signal
    quadratic = reach**2 * (1 / sizes[0] + 1 / (smallest * task.gamma**2))
    constant = d * (abs(np.log(task.gamma)) + float(np.max(np.abs(np.log(sizes)))))
    return (
        law.ROUNDINGS
        * law.EPS
        * (d + 4)
        * sizes[-1]
        / sizes[0]
        * float(np.sum(1.0 + quadratic + constant))
    )


def _call_correlated(setting: Setting) -> Answer:
    """Posterior and prediction."""
    task = _correlated(setting)
    x = law.tokens_of(task, setting)
    says = np.linalg.norm(x[0], axis=1)
    return law.inferred(
        task.location_posterior(x), task.bayes_predict(x), says, _correlated_delta(task, x)
    )


def _call_ratio(setting: Setting) -> Answer:
    task = _correlated(setting)
    x = law.tokens_of(task, setting)
    return Answer(
        task.log_likelihood_ratio(x)[0], np.full(task.length, _correlated_delta(task, x))
    )


def _reference_correlated(setting: Setting) -> tuple[np.ndarray, reference.Inference]:
    task = _correlated(setting)
    probs = (
        np.full(task.length, 1 / task.length)
        if task.task.location_probs is None
        else task.task.location_probs
    )
    background = (task.mean, task.covariance, task.degrees_of_freedom)
    informative = (task.informative_mean, task.informative_covariance)
    return reference.correlated(
        law.tokens_of(task, setting)[0], background, informative, task.value, probs
    )


def _truth_correlated(setting: Setting) -> Truth:
    return law.truth_of(_reference_correlated(setting)[1])


def _truth_ratio(setting: Setting) -> Truth:
    return Truth(_reference_correlated(setting)[0])


# -- a direction pair each -------------------------------------------------------------------------


def _draw_directions(rng: np.random.Generator) -> Setting:
    F = log_integer(rng, 1, 3, (1,))
    positions = choice(rng, ["distinct", "independent"])
    d = log_integer(rng, 1, 7, (1, 2))
    gamma, signal = law.gamma_and_signal(rng)
    keys = np.stack([law.unit(rng, d) for _ in range(F)])
    values = np.stack([law.unit(rng, d) for _ in range(F)])
    numbers = {
        "dim": d,
        "length": log_integer(rng, F if positions == "distinct" else 1, FEW, (F,)),
        "directions": F,
        "positions": positions,
        "gamma": gamma,
        "signal": signal,
        "keys": keys,
        "values": values,
    }
    return law.with_tokens(rng, numbers)


def _directions(setting: Setting) -> at.MultiDirection:
    names = ("dim", "length", "directions", "positions", "gamma", "signal", "keys", "values")
    return at.MultiDirection(**{name: setting[name] for name in names})


def _call_directions(setting: Setting) -> Answer:
    task = _directions(setting)
    x = law.tokens_of(task, setting)
    says = np.tile(np.linalg.norm(x[0], axis=1), task.directions)
    delta = task.directions * law.gaussian_delta(x, task.gamma, task.directions * task.signal)
    return law.inferred(task.posterior(x), task.bayes_predict(x), says, delta)


def _reference_directions(setting: Setting) -> reference.Inference:
    task = _directions(setting)
    x = law.tokens_of(task, setting)[0]
    numbers = (task.gamma, task.signal, task.positions == "distinct")
    return reference.multi_direction(x, task.keys, task.values, *numbers)


def _call_directions_variance(setting: Setting) -> Answer:
    task = _directions(setting)
    x = law.tokens_of(task, setting)
    delta = task.directions * law.gaussian_delta(x, task.gamma, task.directions * task.signal)
    return law.variance_answer(
        task, x, delta, 2 * task.directions * float(np.linalg.norm(x[0], axis=1).max())
    )


# -- spikes ----------------------------------------------------------------------------------------


def _draw_spikes(rng: np.random.Generator) -> Setting:
    H = log_integer(rng, 1, 4, (1,))
    d = log_integer(rng, 1, 6, (1, 2))
    gamma, signal = law.gamma_and_signal(rng)
    prior = np.maximum(pmf(rng, H), 1e-20)
    numbers = {
        "dim": d,
        "length": log_integer(rng, 1, SMALL, (1, 2)),
        "gamma": gamma,
        "means": np.stack([signal * law.unit(rng, d) for _ in range(H)]),
        "outputs": np.stack([law.unit(rng, d) for _ in range(H)]),
        "prior": prior / prior.sum(),
    }
    return law.with_tokens(rng, numbers)


def _spikes(setting: Setting) -> at.SpikeMixture:
    names = ("dim", "length", "gamma", "means", "outputs", "prior")
    return at.SpikeMixture(**{name: setting[name] for name in names})


def _spikes_delta(task: at.SpikeMixture, x: np.ndarray) -> float:
    longest = float(np.linalg.norm(task.means, axis=1).max())
    return law.gaussian_delta(x, task.gamma, longest) + law.ROUNDINGS * law.EPS * float(
        np.abs(np.log(task.prior)).max()
    )


def _call_spikes(setting: Setting) -> Answer:
    task = _spikes(setting)
    x = law.tokens_of(task, setting)
    says = np.tile(np.linalg.norm(x[0], axis=1), task.spikes)
    return law.inferred(
        task.posterior(x), task.bayes_predict(x), says, _spikes_delta(task, x)
    )


def _reference_spikes(setting: Setting) -> reference.Inference:
    task = _spikes(setting)
    x = law.tokens_of(task, setting)[0]
    return reference.spike_mixture(x, task.means, task.outputs, task.prior, task.gamma)


def _call_spikes_variance(setting: Setting) -> Answer:
    task = _spikes(setting)
    x = law.tokens_of(task, setting)
    return law.variance_answer(
        task, x, _spikes_delta(task, x), 2 * float(np.linalg.norm(x[0], axis=1).max())
    )


SUBJECTS = [
    Subject(
        "CorrelatedBackground posterior",
        ("CorrelatedBackground.location_posterior", "CorrelatedBackground.bayes_predict"),
        _draw_correlated,
        _call_correlated,
        _truth_correlated,
        law.probabilities,
    ),
    Subject(
        "CorrelatedBackground log_likelihood_ratio",
        ("CorrelatedBackground.log_likelihood_ratio",),
        _draw_correlated,
        _call_ratio,
        _truth_ratio,
    ),
    Subject(
        "MultiDirection posterior",
        ("MultiDirection.posterior", "MultiDirection.bayes_predict"),
        _draw_directions,
        _call_directions,
        lambda setting: law.truth_of(_reference_directions(setting)),
        law.permuted(_directions, 2),
    ),
    Subject(
        "MultiDirection posterior_variance",
        ("MultiDirection.posterior_variance",),
        _draw_directions,
        _call_directions_variance,
        lambda setting: Truth(_reference_directions(setting).variance),
    ),
    Subject(
        "SpikeMixture posterior",
        ("SpikeMixture.posterior", "SpikeMixture.bayes_predict"),
        _draw_spikes,
        _call_spikes,
        lambda setting: law.truth_of(_reference_spikes(setting)),
        law.permuted(_spikes, 2),
    ),
    Subject(
        "SpikeMixture posterior_variance",
        ("SpikeMixture.posterior_variance",),
        _draw_spikes,
        _call_spikes_variance,
        lambda setting: Truth(_reference_spikes(setting).variance),
    ),
]
