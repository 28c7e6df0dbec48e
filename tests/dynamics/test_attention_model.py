"""The small attention model: derivatives, fits, statistics of fits and the split of the excess
risk.

False alarms: 5 standard errors (6e-7 each), fixed seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tolerances import EXACT, FEW_ROUNDINGS, FORMULA, ROOT_EPS, SIX_DIGITS

from attnscope.dynamics.networks.attention_model import (
    AttentionParameters,
    Contexts,
    Pass,
    attend,
    fit,
    losses,
    task_contexts,
)
from attnscope.dynamics.networks.fit_statistics import (
    excess_risk,
    generalisation_gap,
    sandwich,
)
from attnscope.errors import AttnscopeError
from attnscope.predictors.operators.context_attention import softmax_attention
from attnscope.tasks.exchangeable.linear_map import LinearMap
from attnscope.theory.exchangeable.learning_curves import best_attention

TASK = LinearMap(3, 2, 1.0, 0.5, keys="sphere")


def random_parameters(seed: int, sink: float | None = 0.3) -> AttentionParameters:
    rng = np.random.default_rng(seed)
    return AttentionParameters(rng.standard_normal((3, 3)), sink, rng.standard_normal((2, 2)))


def population_minimiser(length: int) -> AttentionParameters:
    best = best_attention(3, length, sink=False)
    return AttentionParameters(
        best.inverse_bandwidth * np.eye(3), None, best.gain * np.eye(2)
    )


@pytest.mark.parametrize("sink", [None, 0.3])
def test_model_is_the_attention_operator(sink):
    p, c = random_parameters(0, sink), task_contexts(TASK, 7, 5, seed=1)
    query = (c.queries @ p.query_key)[:, 0]
    plain = softmax_attention(query, c.keys, c.values, 1.0, sink) @ p.output.T
    np.testing.assert_allclose(attend(p, c)[:, 0], plain, atol=FEW_ROUNDINGS)


@pytest.mark.parametrize("sink", [None, 0.3])
def test_derivatives_against_differences_and_jax(sink):
    import jax

    from attnscope.numerics.border.x64 import x64

    p, c = random_parameters(1, sink), task_contexts(TASK, 6, 5, seed=2)
    J = Pass(c).linearised(p)[1]
    x = p.vector
    step = 1e-6
    move = lambda e: (
        Pass(c).linearised(p.with_vector(x + e))[0]
        - Pass(c).linearised(p.with_vector(x - e))[0]
    )
    np.testing.assert_allclose(
        J, np.array([move(e) / (2 * step) for e in step * np.eye(len(x))]).T, atol=ROOT_EPS
    )

    def risk(y):
        A, O = y[:9].reshape(3, 3), y[-4:].reshape(2, 2)
        s = jax.numpy.einsum("nmi,ij,nlj->nml", c.queries, A, c.keys)
        e, extra = jax.numpy.exp(s), 0.0 if sink is None else jax.numpy.exp(y[9])
        z = jax.numpy.einsum("nml,nlc->nmc", e, c.values) / (e.sum(-1, keepdims=True) + extra)
        return jax.numpy.mean(jax.numpy.sum((z @ O.T - c.targets) ** 2, axis=2))

    with x64():
        gradient = np.asarray(jax.jit(jax.grad(risk))(jax.numpy.asarray(x)))
    np.testing.assert_allclose(Pass(c).gradients(p).mean(axis=0), gradient, atol=FORMULA)


@pytest.mark.parametrize("objective", ["masked", "supervised"])
def test_fit_finds_a_stationary_point_below_the_population_minimiser(objective):
    c = task_contexts(TASK, 1500, 16, objective, seed=3)
    found = fit(c, sink=False)
    best = population_minimiser(16)
    assert found.converged and np.all(np.diff(found.risks) < 0)
    assert found.risks[-1] == pytest.approx(losses(found.parameters, c).mean(), rel=EXACT)
    gradient = Pass(c).gradients(found.parameters)
    assert (
        np.abs(gradient.mean(axis=0)).max() < 1e-3 * gradient.std(axis=0).max()
    )  # far below its standard error, 1/40 of that
    assert found.risks[-1] < losses(best, c).mean()
    from_best = fit(c, start=best)
    assert from_best.risks[-1] == pytest.approx(found.risks[-1], rel=SIX_DIGITS)


def test_fit_with_a_sink_reaches_the_exact_minimiser_at_small_length():
    best = best_attention(3, 8)
    n = 20_000
    found = fit(task_contexts(TASK, n, 8, "supervised", seed=4)).parameters
    spread = np.sqrt(
        np.diag(sandwich(found, task_contexts(TASK, n, 8, "supervised", seed=4)).covariance)
        / n
    )
    exact = AttentionParameters(
        best.inverse_bandwidth * np.eye(3), best.sink, best.gain * np.eye(2)
    ).vector
    assert np.all(np.abs(found.vector - exact) < 5 * spread)


def test_a_sink_that_does_not_help_vanishes():
    found = fit(task_contexts(TASK, 3000, 64, "supervised", seed=5))
    assert found.converged and found.parameters.sink < -3


@pytest.mark.slow
def test_sandwich_predicts_the_spread_of_fits_and_the_gap():
    n = 600
    L = 16
    best = population_minimiser(16)
    predicted = sandwich(
        best, task_contexts(TASK, 20_000, L, "supervised", seed=6), label_noise=0.5
    )
    vectors = []
    gaps = []
    test = task_contexts(TASK, 4000, L, "supervised", seed=7)
    for i in range(60):
        train = task_contexts(TASK, n, L, "masked", seed=100 + i)
        found = fit(train, best, progress=False).parameters
        vectors.append(found.vector)
        gaps.append(generalisation_gap(found, best, train, test))
    ratio = np.var(vectors, axis=0).sum() * n / np.trace(predicted.covariance)
    # 60 fits, 13 dependent directions: standard deviation about 0.12
    assert 0.6 < ratio < 1.6
    assert abs(np.mean(gaps) - predicted.trace / n) < 5 * np.std(gaps) / 60**0.5


def test_sandwich_with_noise_added_exactly_equals_sampled_noise():
    best = population_minimiser(8)
    exact = sandwich(
        best, task_contexts(TASK, 30_000, 8, "supervised", seed=8), label_noise=0.5
    ).trace
    drawn = sandwich(
        best, task_contexts(TASK, 30_000, 8, "supervised", label_noise=0.5, seed=9)
    ).trace
    # two samples of 30,000 with heavy tails: a few per cent each
    assert drawn == pytest.approx(exact, rel=0.1)


def test_excess_splits_into_three_parts():
    L = 16
    best = population_minimiser(16)
    train = task_contexts(TASK, 400, L, "masked", seed=10)
    test = task_contexts(TASK, 5000, L, "masked", seed=11)
    early = fit(train, sink=False, iterations=2).parameters
    full = fit(train, sink=False).parameters
    bayes = lambda c: TASK.bayes_predict(c.queries[:, 0], c.keys, c.values)[:, None]
    parts = excess_risk(early, full, best, test, bayes)
    total = np.mean(
        losses(early, test) - np.sum((bayes(test) - test.targets) ** 2, axis=2)[:, 0]
    )
    assert parts.excess == pytest.approx(total, rel=EXACT)
    assert parts.approximation > 5 * parts.errors[0] and parts.generalisation > 0
    assert excess_risk(full, full, best, test, bayes).optimisation == 0
    exact = 2 * (best_attention(3, L, sink=False).error + 0.25) - TASK.bayes_risk(L).value
    assert (
        abs(parts.approximation - exact) < 5 * parts.errors[0] + 5 * TASK.bayes_risk(L).error
    )


def test_bad_input_is_refused_in_words():
    c = task_contexts(TASK, 5, 4)
    with pytest.raises(
        AttnscopeError, match="objective of task_contexts must be 'masked' or 'supervised'"
    ):
        task_contexts(TASK, 5, 4, "causal")
    with pytest.raises(AttnscopeError, match="label of task_contexts"):
        task_contexts(TASK, 5, 4, "supervised", label=np.ones((1, 3)))
    with pytest.raises(AttnscopeError, match="values of fit must be a real array of shape"):
        fit(c._replace(values=c.values[:, :2]))
    with pytest.raises(AttnscopeError, match="queries of fit"):
        fit(Contexts(c.keys, c.values, c.queries[:, :, :2], c.targets))
    with pytest.raises(AttnscopeError, match="targets of fit must be finite"):
        fit(c._replace(targets=np.full_like(c.targets, np.nan)))
    with pytest.raises(AttnscopeError, match="strict minimiser"):
        sandwich(AttentionParameters(np.eye(3), -25.0, np.eye(2)), task_contexts(TASK, 50, 4))
