"""MaxLocation: softmax attention is the Bayes predictor, its risk by two routes, linear attention,
refusals.
"""

import numpy as np
import pytest
from helpers.settings import one_sentence
from helpers.tolerances import EXACT, FORMULA, LONG_SUM
from scipy import integrate, stats

import attnscope as at
from attnscope.numerics.integrals.max_integral import disagreement, weighted_activation

ORACLE = at.Overlaps.oracle()
TABLE = {  # beyond.md section 3
    (2, 1): 0.363162,
    (2, 5): 0.109359,
    (2, 20): 0.028152,
    (3, 1): 0.518434,
    (3, 5): 0.163744,
    (3, 20): 0.042226,
    (10, 1): 0.805313,
    (10, 5): 0.296135,
    (10, 20): 0.076771,
}


@pytest.mark.parametrize(("length", "strength"), TABLE)
def test_bayes_risk_has_the_published_digits(length, strength):
    out = at.MaxLocation(10, length, float(strength)).bayes_risk()
    assert round(out.value, 6) == TABLE[length, strength]
    assert out.error < 1e-11


def test_two_tokens_by_another_integral():
    """L = 2: R = 2 E[sigmoid(x) sigmoid(-x)], x = nu (chi_1 - chi_2) ~ N(0, 2 nu^2)."""
    for nu in (0.0, 0.3, 4.0, 30.0):
        f = lambda x, nu=nu: stats.norm.pdf(x) / (2 * np.cosh(nu * x / 2**0.5) ** 2)
        expected = 2 * integrate.quad(f, 0, 9, points=(0.1, 1), epsabs=1e-13, epsrel=1e-12)[0]
        assert disagreement(nu, 2)[0] == pytest.approx(expected, abs=2e-11)


def test_large_strength_limit():
    """nu R -> L (L-1) int phi^2 Phi^{L-2} = .5642, .8463, 1.5388; the correction is O(1/nu^2)."""
    for L in (2, 3, 10):
        f = lambda x, L=L: stats.norm.pdf(x) ** 2 * stats.norm.cdf(x) ** (L - 2)
        limit = L * (L - 1) * integrate.quad(f, -9, 9)[0]
        gaps = [limit - nu * disagreement(nu, L)[0] for nu in (20.0, 40.0)]
        assert 0 < gaps[1] < 0.002 and gaps[0] / gaps[1] == pytest.approx(4, rel=0.05)


def test_softmax_attention_is_the_posterior_and_attains_the_risk():
    """Identity, and the risk on 60,000 samples within 4.5 standard errors (7e-6)."""
    task = at.MaxLocation(7, 5, 3.0, noise=0.2)
    batch = task.sample(60_000, seed=1)
    some = batch.tokens[:100]
    softmax = at.Softmax(3.0)
    np.testing.assert_allclose(
        task.posterior(some), at.attention_weights(softmax, task.key, some), atol=FORMULA
    )
    np.testing.assert_allclose(
        task.bayes_predict(some), at.predict(softmax, task.key, task.value, some), atol=EXACT
    )
    loss = (batch.target - task.bayes_predict(batch.tokens)) ** 2
    assert abs(loss.mean() - task.bayes_risk().value) < 4.5 * loss.std() / 60_000**0.5
    wrong = 1 - task.posterior(batch.tokens)[np.arange(60_000), batch.location]
    assert abs(wrong.mean() - task.location_error().value) < 4.5 * wrong.std() / 60_000**0.5
    assert at.risk(task, softmax, ORACLE).value == pytest.approx(
        task.bayes_risk().value, abs=LONG_SUM
    )


def test_location_follows_the_softmax():
    """P(J = l | X) by 40,000 draws at fixed scores: chi-square, false alarm 1e-5."""
    task = at.MaxLocation(3, 4, 1.5)
    batch = task.sample(40_000, seed=3)
    expected = task.posterior(batch.tokens)
    hits = expected[np.arange(40_000), batch.location]
    assert abs(hits.mean() - np.sum(expected**2, axis=1).mean()) < 4.5 * hits.std() / 200
    np.testing.assert_allclose(
        np.bincount(batch.location) / 40_000, 0.25, atol=4.5 * 0.44 / 200
    )


def test_linear_attention_risk_equals_its_optimum():
    """Least squares over (c, a) of the exact risk of LinearAttention,
    and by regression on samples (|z| < 4.5, 7e-6).
    """
    task = at.MaxLocation(6, 5, 2.0)
    best = task.linear_attention_risk()
    nu_R = 2.0 * task.bayes_risk().value
    assert at.risk(
        task, at.LinearAttention(nu_R / 5, offset=1 / 5), ORACLE
    ).value == pytest.approx(best.value, abs=LONG_SUM)
    batch = task.sample(60_000, seed=4)
    u = batch.tokens @ task.key
    w = batch.tokens @ task.value
    design = np.stack([w.sum(1), (u * w).sum(1)], axis=1)
    loss = (batch.target - design @ np.linalg.lstsq(design, batch.target, rcond=None)[0]) ** 2
    assert abs(loss.mean() - best.value) < 4.5 * loss.std() / 60_000**0.5
    assert (
        task.bayes_risk().value
        < best.value
        < task.linear_risk().value
        < task.null_risk().value
    )


@pytest.mark.parametrize(
    "predictor",
    [
        at.Softmax(1.0),
        at.SoftmaxOne(2.0),
        at.SoftplusAttention(4.0),
        at.Erf(0.5),
        at.LinearAttention(0.1),
    ],
)
def test_exact_risk_equals_monte_carlo(predictor):
    """|z| < 4.5: false alarm 3e-5."""
    task = at.MaxLocation(6, 5, 3.0)
    exact = at.risk(task, predictor, ORACLE)
    sampled = at.risk(task, predictor, ORACLE, "monte-carlo", 60_000)
    assert abs(exact.value - sampled.value) < 4.5 * sampled.error
    assert exact.value > task.bayes_risk().value


def test_small_cases():
    assert at.MaxLocation(4, 1, 3.0).bayes_risk().value == 0.0
    assert at.MaxLocation(4, 8, 0.0).bayes_risk().value == pytest.approx(7 / 8, abs=EXACT)
    assert np.array_equal(
        at.MaxLocation(4, 3).sample(9, seed=2).tokens,
        at.MaxLocation(4, 3).sample(9, seed=2).tokens,
    )


BAD = {
    "strength": (
        lambda: at.MaxLocation(4, 3, -1.0),
        "strength of MaxLocation must be a finite number >= 0",
    ),
    "strong": (
        lambda: at.MaxLocation(4, 3, 1e4).bayes_risk(),
        "strength of the max-location integral must be at most",
    ),
    "oblique": (
        lambda: at.MaxLocation(2, 3, key=[1.0, 0], value=[0.6, 0.8]),
        "value of MaxLocation must be perpendic",
    ),
    "length": (lambda: at.MaxLocation(4, 0), "length of MaxLocation must be an integer >= 1"),
    "tokens": (
        lambda: at.MaxLocation(4, 3).bayes_predict(np.zeros(3)),
        "tokens of MaxLocation.bayes_predict must be",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_one_sentence(name):
    call, words = BAD[name]
    one_sentence(call, words)


def test_the_error_of_an_average_counts_the_outer_rule_beside_the_size_of_sigma():
    """Weights sum to 1: a constant sigma comes back;
    for an odd one terms cancel, and the error keeps to their size.
    """
    value, error = weighted_activation(3.0, 10, lambda chi: np.full_like(chi, 1e6))
    assert abs(value - 1e6) <= error
    assert error >= 3e-13 * 1e6  # what the rule in log t is proved to hold
    _, odd = weighted_activation(1e-6, 10, lambda chi: 1e6 * np.sign(chi))
    assert odd >= 3e-13 * 1e6
