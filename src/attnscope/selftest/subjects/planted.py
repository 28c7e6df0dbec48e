"""Posteriors and Bayes predictions of planted tasks against Bayes' rule in 60 digits (references.planted).

notation: Q = size of the terms that a log-likelihood ratio is a sum of, summed over tokens; delta = ROUNDINGS eps d Q.

What float64 can promise. A logit is a sum of terms of size Q that are each rounded, so it is known to delta, and a probability
p = e^{logit}/sum is known to p (e^{2 delta} - 1) and never better than the spacing of numbers near 1. A prediction sum_z P(z|x) Y(z)
inherits sum_z dP(z) |Y(z)|. These are the errors that the answers below state; where delta exceeds 1/2 only manners are checked
(finite, between 0 and 1, repeated calls equal).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import attnscope as at
from attnscope.selftest.draws import CORNER, choice, log_integer, log_uniform, pmf
from attnscope.selftest.references import planted as reference
from attnscope.selftest.subject import Answer, Relation, Setting, Subject, Truth, at_most, same

__all__ = ["SUBJECTS", "gamma_and_signal", "orthonormal", "unit"]

EPS = float(np.finfo(np.float64).eps)
ROUNDINGS = 8  # roundings per term: a product, a sum over d, a difference, a logarithm, and the recursion's own sums
SMALL = 5  # tokens at most where subsets are listed: 32 of them
FEW = 4  # tokens at most where ordered positions are listed: 64 of them for three directions


# -- settings ---------------------------------------------------------------------------------------------------------


def gamma_and_signal(rng: np.random.Generator) -> tuple[float, float]:
    """gamma from 1e-4 to 1e4, half of the time near 1; the signal in units of it, with 0 and 1e8."""
    wide = rng.random() < 0.5
    gamma = log_uniform(rng, 1e-4, 1e4) if wide else log_uniform(rng, 0.3, 3.0, (1.0, 1.0, 1 - 1e-9))
    signal = log_uniform(rng, 0.05, 20.0, (0.0, 1e-8, 1e8)) * min(1.0, gamma)
    return gamma, signal


def unit(rng: np.random.Generator, d: int) -> np.ndarray:
    """A unit vector, sometimes a coordinate axis."""
    if rng.random() < CORNER:
        return np.eye(d)[rng.integers(d)]
    x = rng.standard_normal(d)
    return x / np.linalg.norm(x)


def orthonormal(rng: np.random.Generator, count: int, d: int) -> np.ndarray:
    """(count, d) orthonormal rows."""
    return np.linalg.qr(rng.standard_normal((d, count)))[0].T.copy()


def _tokens(task: Any, setting: Setting) -> np.ndarray:
    """(1, L, d): a draw of the task, all of it scaled, sometimes with a zero token or two equal ones."""
    x = task.sample(1, seed=setting["seed"]).tokens * setting["scale"]
    if setting["corner"] == "zero":
        x[0, 0] = 0.0
    elif setting["corner"] == "equal":
        x[0, -1] = x[0, 0]
    elif setting["corner"] == "far":
        x[0, 0] *= 1e6
    return x


def _with_tokens(rng: np.random.Generator, setting: Setting) -> Setting:
    corner = choice(rng, ["zero", "equal", "far"]) if rng.random() < CORNER else ""
    scale = log_uniform(rng, 1e-3, 1e3) if rng.random() < CORNER else 1.0
    return setting | {"seed": int(rng.integers(1 << 31)), "scale": scale, "corner": corner}


# -- what float64 can promise -----------------------------------------------------------------------------------------


def _probability_error(p: np.ndarray, delta: float) -> np.ndarray:
    """Of a probability whose logit is known to delta; 1, that is nothing, where that is not below 1/2."""
    if delta > 0.5:
        return np.ones_like(p)
    return np.minimum(1.0, p * np.expm1(2 * delta) + 4 * EPS + np.finfo(float).tiny)


def _gaussian_delta(x: np.ndarray, gamma: float, signal: float) -> float:
    """delta for tokens N(0, 1) against N(mean of length `signal`, gamma^2)."""
    d = x.shape[2]
    lengths = np.linalg.norm(x[0], axis=1)
    quadratic = abs(1 / gamma**2 - 1) / 2 * lengths**2
    linear = signal * lengths / gamma**2
    constant = d * abs(np.log(gamma)) + signal**2 / (2 * gamma**2)
    return ROUNDINGS * EPS * (d + 4) * float(np.sum(1.0 + quadratic + linear + constant))


def _answer(posterior: np.ndarray, mean: Any, says: np.ndarray, delta: float) -> Answer:
    """posterior, then the prediction; says: the largest |Y(z)| an entry of the posterior can add."""
    p = np.asarray(posterior).ravel()
    error = _probability_error(p, delta)
    rounding = ROUNDINGS * EPS * 8 * float(np.sum(np.abs(says)))
    spread = float(np.sum(error * np.ravel(np.abs(says)))) + rounding
    return Answer(np.append(p, mean), np.append(error, spread))


def _truth(found: reference.Inference) -> Truth:
    return Truth(np.append(found.posterior.ravel(), found.mean))


def _probabilities(setting: Setting, answer: Answer) -> Iterable[Relation]:
    """Between 0 and 1 to the bit, whatever the logits."""
    p = answer.value[:-1]
    yield at_most("a probability is at least 0", -p, 0.0, 0.0)
    yield at_most("a probability is at most 1", p, 1.0, 4 * EPS)


def _permuted(build: Callable[[Setting], Any], axis: int) -> Callable[[Setting, Answer], Iterable[Relation]]:
    """Exchangeable tokens: reversing them reverses the posterior and leaves the prediction."""

    def relations(setting: Setting, answer: Answer) -> Iterable[Relation]:
        yield from _probabilities(setting, answer)
        task = build(setting)
        x = _tokens(task, setting)
        p = np.flip(task.posterior(x[:, ::-1]), axis=axis)
        turned = np.append(p.ravel(), task.bayes_predict(x[:, ::-1]))
        yield same("tokens in reverse order", turned, answer.value, 2 * answer.error)

    return relations


# -- several informative tokens ---------------------------------------------------------------------------------------


def _draw_multi(rng: np.random.Generator) -> Setting:
    L = log_integer(rng, 1, SMALL, (1, 2))
    gamma, signal = gamma_and_signal(rng)
    kind = choice(rng, ["fixed", "independent", "counts"])
    relevant: Any = int(rng.integers(1, L + 1))
    if kind == "independent":
        relevant = log_uniform(rng, 1e-20, 0.99, (0.5, 1 - 1e-12))
    elif kind == "counts":
        relevant = pmf(rng, L + 1)
    numbers = {
        "dim": log_integer(rng, 2, 6, (2,)),
        "length": L,
        "relevant": relevant,
        "weights": choice(rng, ["equal", "sum", "dirichlet"]),
        "concentration": log_uniform(rng, 1e-6, 1e6),
        "gamma": gamma,
        "signal": signal,
    }
    return _with_tokens(rng, numbers)


def _multi(setting: Setting) -> at.MultiLocation:
    names = ("dim", "length", "relevant", "weights", "concentration", "gamma", "signal")
    return at.MultiLocation(**{name: setting[name] for name in names})


def _call_multi(setting: Setting) -> Answer:
    task = _multi(setting)
    x = _tokens(task, setting)
    says = np.linalg.norm(x[0], axis=1)
    return _answer(task.posterior(x), task.bayes_predict(x), says, _gaussian_delta(x, task.gamma, task.signal))


def _truth_multi(setting: Setting) -> Truth:
    task = _multi(setting)
    x = _tokens(task, setting)[0]
    numbers = (task.gamma, task.signal, task.count_probs, task.weight_moments()[0])
    return _truth(reference.multi_location(x, task.key, task.value, *numbers))


# -- max-type location ------------------------------------------------------------------------------------------------


def _draw_max(rng: np.random.Generator) -> Setting:
    numbers = {
        "dim": log_integer(rng, 2, 6, (2,)),
        "length": log_integer(rng, 1, 30, (1, 2)),
        "strength": log_uniform(rng, 1e-3, 1e6, (0.0,)),
    }
    return _with_tokens(rng, numbers)


def _max(setting: Setting) -> at.MaxLocation:
    return at.MaxLocation(setting["dim"], setting["length"], setting["strength"])


def _call_max(setting: Setting) -> Answer:
    task = _max(setting)
    x = _tokens(task, setting)
    lengths = np.linalg.norm(x[0], axis=1)
    delta = ROUNDINGS * EPS * (task.dim + 4) * (1.0 + task.strength * float(lengths.max()))
    return _answer(task.location_posterior(x), task.bayes_predict(x), lengths, delta)


def _truth_max(setting: Setting) -> Truth:
    task = _max(setting)
    return _truth(reference.max_location(_tokens(task, setting)[0], task.key, task.value, task.strength))


# -- marked or not ----------------------------------------------------------------------------------------------------


def _draw_sparse(rng: np.random.Generator) -> Setting:
    L = log_integer(rng, 1, SMALL, (1, 2))
    numbers = {
        "dim": log_integer(rng, 1, 6, (1,)),
        "length": L,
        "strength": log_uniform(rng, 1e-3, 50.0, (0.0, 1e4, 1e8)),
        "marked": int(rng.integers(1, L + 1)),
    }
    return _with_tokens(rng, numbers)


def _sparse(setting: Setting) -> at.SparseTokenClassification:
    return at.SparseTokenClassification(*(setting[name] for name in ("dim", "length", "strength", "marked")))


def _call_sparse(setting: Setting) -> Answer:
    """P(y = 1 | X), the tokens' posteriors, and then the log-likelihood ratio."""
    task = _sparse(setting)
    x = _tokens(task, setting)
    delta = _gaussian_delta(x, 1.0, task.strength)
    p = np.append(task.posterior(x), task.token_posterior(x))
    ratio = float(task.log_likelihood_ratio(x)[0])
    return Answer(np.append(p, ratio), np.append(_probability_error(p, delta), delta))


def _truth_sparse(setting: Setting) -> Truth:
    task = _sparse(setting)
    ratio, found = reference.sparse_tokens(_tokens(task, setting)[0], task.direction, task.strength, task.marked)
    return Truth(np.append(found.posterior, ratio))


def _relations_sparse(setting: Setting, answer: Answer) -> Iterable[Relation]:
    yield from _probabilities(setting, answer)
    task = _sparse(setting)
    label = task.bayes_predict(_tokens(task, setting))[0]
    yield same("the label is the sign of the ratio", label, 1.0 if answer.value[-1] >= 0 else -1.0, 0.0)
    total = float(np.sum(answer.value[1:-1]))
    slack = float(np.sum(answer.error[:-1])) * (1 + task.marked)
    yield same("a row sums to R P(y = 1 | X)", total, task.marked * answer.value[0], slack)


# -- before a correlated background -----------------------------------------------------------------------------------


def _draw_correlated(rng: np.random.Generator) -> Setting:
    d = log_integer(rng, 2, 4, (2,))
    L = log_integer(rng, 1, SMALL, (1, 2))
    gamma, signal = gamma_and_signal(rng)
    condition = log_uniform(rng, 1.0, 1e3, (1.0, 1e10))
    sizes = np.exp(rng.uniform(0, np.log(condition), d))
    sizes[0] = 1.0
    frame = orthonormal(rng, d, d)
    numbers = {
        "dim": d,
        "length": L,
        "gamma": gamma,
        "signal": signal,
        "probs": None if rng.random() < 0.5 else pmf(rng, L),
        "mean": None if rng.random() < CORNER else rng.standard_normal(d) * log_uniform(rng, 1e-2, 1e2),
        "covariance": (frame * sizes) @ frame.T,
        "freedom": None if rng.random() < 0.5 else 2 + log_uniform(rng, 1e-3, 1e9, (1e-9,)),
        "informative": choice(rng, ["scaled", "isotropic"]),
    }
    return _with_tokens(rng, numbers)


def _correlated(setting: Setting) -> at.CorrelatedBackground:
    d, L = setting["dim"], setting["length"]
    inner = at.SingleLocation(d, L, setting["gamma"], 0.0, setting["signal"], setting["probs"])
    more = (setting["mean"], setting["covariance"], setting["freedom"], setting["informative"])
    return at.CorrelatedBackground(inner, *more)


def _correlated_delta(task: at.CorrelatedBackground, x: np.ndarray) -> float:
    """Whitening multiplies relative errors by the condition number; the constants of Student's t are of size (n + d) log n."""
    sizes = np.linalg.eigvalsh(task.covariance)
    smallest = min(sizes[0], 1.0) if task.informative == "isotropic" else sizes[0]
    d = task.dim
    reach = np.linalg.norm(x[0], axis=1) + np.linalg.norm(task.mean) + task.signal
    quadratic = reach**2 * (1 / sizes[0] + 1 / (smallest * task.gamma**2))
    constant = d * (abs(np.log(task.gamma)) + float(np.max(np.abs(np.log(sizes)))))
    return ROUNDINGS * EPS * (d + 4) * sizes[-1] / sizes[0] * float(np.sum(1.0 + quadratic + constant))


def _call_correlated(setting: Setting) -> Answer:
    """Posterior and prediction."""
    task = _correlated(setting)
    x = _tokens(task, setting)
    says = np.linalg.norm(x[0], axis=1)
    return _answer(task.location_posterior(x), task.bayes_predict(x), says, _correlated_delta(task, x))


def _call_ratio(setting: Setting) -> Answer:
    task = _correlated(setting)
    x = _tokens(task, setting)
    return Answer(task.log_likelihood_ratio(x)[0], np.full(task.length, _correlated_delta(task, x)))


def _reference_correlated(setting: Setting) -> tuple[np.ndarray, reference.Inference]:
    task = _correlated(setting)
    probs = np.full(task.length, 1 / task.length) if task.task.location_probs is None else task.task.location_probs
    background = (task.mean, task.covariance, task.degrees_of_freedom)
    informative = (task.informative_mean, task.informative_covariance)
    return reference.correlated(_tokens(task, setting)[0], background, informative, task.value, probs)


def _truth_correlated(setting: Setting) -> Truth:
    return _truth(_reference_correlated(setting)[1])


def _truth_ratio(setting: Setting) -> Truth:
    return Truth(_reference_correlated(setting)[0])


# -- a direction pair each --------------------------------------------------------------------------------------------


def _draw_directions(rng: np.random.Generator) -> Setting:
    F = log_integer(rng, 1, 3, (1,))
    positions = choice(rng, ["distinct", "independent"])
    d = log_integer(rng, 1, 7, (1, 2))
    gamma, signal = gamma_and_signal(rng)
    keys = np.stack([unit(rng, d) for _ in range(F)])
    values = np.stack([unit(rng, d) for _ in range(F)])
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
    return _with_tokens(rng, numbers)


def _directions(setting: Setting) -> at.MultiDirection:
    names = ("dim", "length", "directions", "positions", "gamma", "signal", "keys", "values")
    return at.MultiDirection(**{name: setting[name] for name in names})


def _call_directions(setting: Setting) -> Answer:
    task = _directions(setting)
    x = _tokens(task, setting)
    says = np.tile(np.linalg.norm(x[0], axis=1), task.directions)
    delta = task.directions * _gaussian_delta(x, task.gamma, task.directions * task.signal)
    return _answer(task.posterior(x), task.bayes_predict(x), says, delta)


def _reference_directions(setting: Setting) -> reference.Inference:
    task = _directions(setting)
    x = _tokens(task, setting)[0]
    numbers = (task.gamma, task.signal, task.positions == "distinct")
    return reference.multi_direction(x, task.keys, task.values, *numbers)


def _call_variance(task: Any, x: np.ndarray, delta: float, reach: float) -> Answer:
    """Var(Y | X): a mean of squares of size reach^2 under a posterior known to delta."""
    value = float(task.posterior_variance(x)[0])
    known = min(1.0, float(np.expm1(min(2 * delta, 1.0))))
    return Answer(value, reach**2 * min(1.0, known + 16 * EPS))


def _call_directions_variance(setting: Setting) -> Answer:
    task = _directions(setting)
    x = _tokens(task, setting)
    delta = task.directions * _gaussian_delta(x, task.gamma, task.directions * task.signal)
    return _call_variance(task, x, delta, 2 * task.directions * float(np.linalg.norm(x[0], axis=1).max()))


# -- spikes -----------------------------------------------------------------------------------------------------------


def _draw_spikes(rng: np.random.Generator) -> Setting:
    H = log_integer(rng, 1, 4, (1,))
    d = log_integer(rng, 1, 6, (1, 2))
    gamma, signal = gamma_and_signal(rng)
    prior = np.maximum(pmf(rng, H), 1e-20)
    numbers = {
        "dim": d,
        "length": log_integer(rng, 1, SMALL, (1, 2)),
        "gamma": gamma,
        "means": np.stack([signal * unit(rng, d) for _ in range(H)]),
        "outputs": np.stack([unit(rng, d) for _ in range(H)]),
        "prior": prior / prior.sum(),
    }
    return _with_tokens(rng, numbers)


def _spikes(setting: Setting) -> at.SpikeMixture:
    names = ("dim", "length", "gamma", "means", "outputs", "prior")
    return at.SpikeMixture(**{name: setting[name] for name in names})


def _spikes_delta(task: at.SpikeMixture, x: np.ndarray) -> float:
    longest = float(np.linalg.norm(task.means, axis=1).max())
    return _gaussian_delta(x, task.gamma, longest) + ROUNDINGS * EPS * float(np.abs(np.log(task.prior)).max())


def _call_spikes(setting: Setting) -> Answer:
    task = _spikes(setting)
    x = _tokens(task, setting)
    says = np.tile(np.linalg.norm(x[0], axis=1), task.spikes)
    return _answer(task.posterior(x), task.bayes_predict(x), says, _spikes_delta(task, x))


def _reference_spikes(setting: Setting) -> reference.Inference:
    task = _spikes(setting)
    x = _tokens(task, setting)[0]
    return reference.spike_mixture(x, task.means, task.outputs, task.prior, task.gamma)


def _call_spikes_variance(setting: Setting) -> Answer:
    task = _spikes(setting)
    x = _tokens(task, setting)
    return _call_variance(task, x, _spikes_delta(task, x), 2 * float(np.linalg.norm(x[0], axis=1).max()))


SUBJECTS = [
    Subject(
        "MultiLocation posterior",
        ("MultiLocation.posterior", "MultiLocation.bayes_predict"),
        _draw_multi,
        _call_multi,
        _truth_multi,
        _permuted(_multi, 1),
    ),
    Subject(
        "MaxLocation posterior",
        ("MaxLocation.location_posterior", "MaxLocation.bayes_predict"),
        _draw_max,
        _call_max,
        _truth_max,
        _permuted(_max, 1),
    ),
    Subject(
        "SparseTokenClassification posterior",
        tuple(
            f"SparseTokenClassification.{name}"
            for name in ("posterior", "token_posterior", "log_likelihood_ratio", "bayes_predict")
        ),
        _draw_sparse,
        _call_sparse,
        _truth_sparse,
        _relations_sparse,
    ),
    Subject(
        "CorrelatedBackground posterior",
        ("CorrelatedBackground.location_posterior", "CorrelatedBackground.bayes_predict"),
        _draw_correlated,
        _call_correlated,
        _truth_correlated,
        _probabilities,
    ),
    Subject(
        "MultiDirection posterior",
        ("MultiDirection.posterior", "MultiDirection.bayes_predict"),
        _draw_directions,
        _call_directions,
        lambda setting: _truth(_reference_directions(setting)),
        _permuted(_directions, 2),
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
        lambda setting: _truth(_reference_spikes(setting)),
        _permuted(_spikes, 2),
    ),
    Subject(
        "SpikeMixture posterior_variance",
        ("SpikeMixture.posterior_variance",),
        _draw_spikes,
        _call_spikes_variance,
        lambda setting: Truth(_reference_spikes(setting).variance),
    ),
]
