"""MultiLocation: subset posterior against enumeration, the law of its samples, risks by two routes
(refusals: test_multi_location_refusals.py).
"""

import itertools
import re

import numpy as np
import pytest
from helpers.paths import DOCS
from helpers.tolerances import EXACT, FORMULA, INTEGRAL, LONG_SUM
from scipy import integrate, special, stats

import attnscope as at
from attnscope.numerics.subsets import log_inclusion, log_subset_prior, log_weighted_inclusion
from attnscope.predictors.attention import Softmax
from attnscope.tasks.planted.subset_draws import sampled_risk
from attnscope.theory.risks.normalised_risk import weight_moments

ORACLE = at.Overlaps.oracle()


def enumerated(log_ratios, count_probs, h):
    """P(l in S), E[h_|S| 1{l in S}] from all subsets of one row."""
    L = len(log_ratios)
    inside = np.zeros(L)
    weighted = np.zeros(L)
    total = 0.0
    for m, p in enumerate(count_probs):
        for S in itertools.combinations(range(L), m):
            weight = p / special.comb(L, m) * np.exp(np.sum(log_ratios[list(S)]))
            total += weight
            inside[list(S)] += weight
            weighted[list(S)] += weight * h[m]
    return inside / total, weighted / total


def test_inclusion_equals_enumeration():
    rng = np.random.default_rng(0)
    for m in (1, 2, 3, 6, 7, None):
        probs = rng.dirichlet(np.ones(8)) if m is None else np.arange(8) == m
        x = rng.normal(0, 3, (4, 7))
        h = rng.uniform(0, 2, 8)
        prior = log_subset_prior(probs, 7)
        inside, outside = (np.exp(a) for a in log_inclusion(x, prior))
        weighted = np.exp(log_weighted_inclusion(x, prior, h[: prior.size]))
        brute = np.array([enumerated(row, probs, h) for row in x])
        np.testing.assert_allclose(inside, brute[:, 0], rtol=2e-14)
        np.testing.assert_allclose(inside + outside, 1, rtol=2e-14)
        np.testing.assert_allclose(weighted, brute[:, 1], rtol=2e-14)


def test_inclusion_keeps_relative_accuracy_at_any_scale():
    """Two dominant items: P(item 0 not in S) is the ratio of the two largest alternatives,
    here e^-1400 and e^-700.
    """
    x = np.array([[1000.0, 300.0, -400.0, -5000.0]])
    inside, outside = log_inclusion(x, log_subset_prior(np.arange(5) == 2, 4))
    assert outside[0, 0] == pytest.approx(-1400, abs=INTEGRAL)  # pair (1, 2) against (0, 1)
    assert outside[0, 1] == pytest.approx(-700, abs=INTEGRAL)  # pair (0, 2)
    assert inside[0, 3] == pytest.approx(-5300, abs=INTEGRAL)  # pair (0, 3) against (0, 1)


@pytest.mark.parametrize("relevant", [2, 0.3])
@pytest.mark.parametrize("gamma", [0.6, 1.0, 1.3])
def test_posterior_equals_brute_force_densities(relevant, gamma):
    """P(l in S | X) and E[Y | X] from full Gaussian densities under every subset."""
    task = at.MultiLocation(3, 4, relevant, gamma=gamma, signal=1.2)
    x = task.sample(10, seed=0).tokens
    null = stats.norm.logpdf(x).sum(2)
    one = stats.norm.logpdf(x, 1.2 * task.key, gamma).sum(2)
    inside = np.zeros((10, 4))
    mean = np.zeros(10)
    total = np.zeros(10)
    for m, p in enumerate(task.count_probs):
        for S in itertools.combinations(range(4), m):
            chosen = np.isin(np.arange(4), S)
            weight = p / special.comb(4, m) * np.exp(np.where(chosen, one, null).sum(1))
            total += weight
            inside += weight[:, None] * chosen
            mean += weight * (x @ task.value)[:, chosen].sum(1) / max(m, 1)
    np.testing.assert_allclose(task.posterior(x), inside / total[:, None], atol=EXACT)
    np.testing.assert_allclose(task.bayes_predict(x), mean / total, atol=EXACT)


def test_sample_has_the_stated_law():
    """30,000 sequences, about 60 comparisons within 4.9 standard errors: false alarm 6e-5."""
    n = 30_000
    task = at.MultiLocation(
        5, 4, 2, "dirichlet", concentration=0.5, gamma=0.6, noise=0.2, signal=1.7
    )
    x, y, relevant, weights = task.sample(n, seed=3)
    assert np.all(relevant.sum(1) == 2)
    assert np.all(np.abs(relevant.mean(0) - 0.5) < 4.9 * 0.5 / n**0.5)
    np.testing.assert_allclose(weights.sum(1), 1, atol=EXACT)
    assert np.all((weights > 0) <= relevant)
    D = weights[relevant]
    mean, square = (a[2] for a in task.weight_moments())
    assert mean == 0.5 and square == pytest.approx(0.25 + 0.25 / 2)  # Var = 1/4 / (2 a + 1)
    assert abs(np.mean(D**2) - square) < 4.9 * np.std(D**2) / n**0.5
    informative = x[relevant]
    assert np.all(np.abs(informative.mean(0) - 1.7 * task.key) < 4.9 * 0.6 / (2 * n) ** 0.5)
    assert np.all(np.abs(informative.var(0) / 0.36 - 1) < 4.9 * (1 / n) ** 0.5)
    assert stats.kstest(x[~relevant].ravel()[:100_000], "norm").pvalue > 1e-4
    noise = (y - np.sum(weights * (x @ task.value), axis=1)) / 0.2
    assert stats.kstest(noise, "norm").pvalue > 1e-4
    count = at.MultiLocation(2, 6, 0.3).sample(n, seed=1).relevant.sum(1)
    assert (
        stats.chisquare(
            np.bincount(count, minlength=7),
            n * stats.binom.pmf(range(7), 6, 0.3),
        ).pvalue
        > 1e-5
    )


def test_small_concentration_makes_one_token_decide():
    batch = at.MultiLocation(4, 5, 3, "dirichlet", concentration=1e-5).sample(200, seed=0)
    assert np.isfinite(batch.target).all()
    assert (batch.weights.max(1) > 1 - 1e-9).mean() > 0.95


def test_batches_and_dtype():
    task = at.MultiLocation(4, 3, 2)
    batches = list(task.batches(25, 10, seed=4, dtype="float32"))
    assert [len(b.target) for b in batches] == [10, 10, 5]
    b = batches[0]
    assert b.tokens.dtype == np.float32
    np.testing.assert_allclose(
        np.sum(b.weights * (b.tokens.astype(float) @ task.value), axis=1),
        b.target,
        atol=FORMULA,
    )
    again = task.sample(50, seed=2)
    assert all(np.array_equal(p, q) for p, q in zip(again, task.sample(50, seed=2)))


SETTINGS = [
    {"relevant": 2, "gamma": 0.7, "noise": 0.3},
    {"relevant": 3, "gamma": 1.3, "weights": "sum"},
    {"relevant": 2, "gamma": 1.0, "weights": "dirichlet", "concentration": 2.0},
    {"relevant": 0.3, "gamma": 0.7, "weights": "sum"},
    {"relevant": 0.3, "gamma": 1.4, "weights": "sum"},
    {"relevant": 0.3, "gamma": 0.8, "weights": "equal"},
    {"relevant": [0.1, 0.3, 0.3, 0.2, 0.1, 0.0], "gamma": 0.8, "weights": "dirichlet"},
    {"relevant": 5, "gamma": 0.8, "weights": "dirichlet"},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_bayes_predictor_attains_the_bayes_risk(setting):
    """Squared errors of E[Y|X] and of 0 on 40,000 samples, |z| < 4.5:
    false alarm 1e-4 for all 16 comparisons.
    """
    task = at.MultiLocation(6, 5, signal=1.5, **setting)
    batch = task.sample(40_000, seed=5)
    for exact, prediction in (
        (task.bayes_risk(samples=40_000), task.bayes_predict(batch.tokens)),
        (task.null_risk(), 0.0),
    ):
        loss = (batch.target - prediction) ** 2
        assert abs(loss.mean() - exact.value) < 4.5 * np.hypot(exact.error, loss.std() / 200)


def test_linear_risk_equals_least_squares():
    task = at.MultiLocation(4, 5, 2, gamma=0.8, signal=2.0, noise=0.1)
    batch = task.sample(60_000, seed=2)
    design = np.concatenate([batch.tokens.reshape(60_000, -1), np.ones((60_000, 1))], axis=1)
    loss = (batch.target - design @ np.linalg.lstsq(design, batch.target, rcond=None)[0]) ** 2
    # 7e-6
    assert abs(loss.mean() - task.linear_risk().value) < 4.5 * loss.std() / 60_000**0.5
    assert task.linear_risk().value < task.null_risk().value


def test_one_relevant_token_is_single_location():
    for dim, gamma in ((10, 1.0), (12, 0.6)):
        multi = at.MultiLocation(dim, 6, 1, gamma=gamma)
        single = at.SingleLocation(dim, 6, gamma=gamma)
        assert multi.bayes_risk().log_excess == single.bayes_risk().log_excess
        assert multi.linear_risk().value == pytest.approx(
            single.linear_risk().value, rel=FORMULA
        )
        x = multi.sample(20).tokens
        np.testing.assert_allclose(multi.posterior(x), single.posterior(x), atol=FORMULA)


@pytest.mark.parametrize(
    ("relevant", "weights", "dim"),
    [(1, "equal", 10), (1, "equal", 400), (0.2, "sum", 10), (0.2, "sum", 400)],
)
def test_importance_sampling_agrees_with_exact_integrals(relevant, weights, dim):
    """Also where the risk is 1e-21 or 1e-40; |z| < 4.5: false alarm 3e-5."""
    task = at.MultiLocation(dim, 10, relevant, weights)
    exact = task.bayes_risk()
    assert exact.method == "log-space quadrature"
    log_mean, relative = sampled_risk(task._subset_task(), 100_000, seed=1)
    assert relative < 0.05
    assert abs(np.expm1(log_mean - exact.log_excess)) < 4.5 * relative


@pytest.mark.slow
def test_bayes_risk_of_two_tokens_has_the_published_digits():
    """beyond.md section 4 with its intervals: .1795(2) .0595(2) .0110(1) .00115(2) at s = 2..5;
    m = 3: .0334.
    """
    for s, value, spread in (
        (2.0, 0.1795, 2e-4),
        (3.0, 0.0595, 2e-4),
        (4.0, 0.0110, 1e-4),
        (5.0, 0.00115, 2e-5),
    ):
        out = at.MultiLocation(8, 10, 2, gamma=1.0, signal=s).bayes_risk(samples=60_000)
        assert abs(out.value - value) < 4 * np.hypot(spread, out.error)
    three = at.MultiLocation(8, 10, 3, gamma=1.0, signal=3.0).bayes_risk(samples=60_000)
    assert abs(three.value - 0.0334) < 4 * three.error + 5e-5


def test_independent_inclusion_is_sigmoid():
    task = at.MultiLocation(5, 6, 0.25, "sum", gamma=0.8, signal=1.4)
    x = task.sample(50).tokens
    g2 = 0.64
    log_ratio = (
        -5 * np.log(0.8)
        - 1.4**2 / (2 * g2)
        + 1.4 / g2 * (x @ task.key)
        - (1 / g2 - 1) / 2 * np.sum(x**2, axis=2)
    )
    sigmoid = special.expit(log_ratio + special.logit(0.25))
    np.testing.assert_allclose(task.posterior(x), sigmoid, atol=FORMULA)
    recursion = np.exp(log_inclusion(log_ratio, log_subset_prior(task.count_probs, 6))[0])
    np.testing.assert_allclose(recursion, sigmoid, atol=FORMULA)
    np.testing.assert_allclose(
        task.bayes_predict(x), np.sum(sigmoid * (x @ task.value), axis=1), atol=EXACT
    )
    # gamma = 1: L q E_1[1 - sigmoid(l + logit q)], l ~ N(s^2/2, s^2), by another quadrature
    plain = at.MultiLocation(5, 6, 0.25, "sum", gamma=1.0, signal=1.4)
    density = lambda g: (
        stats.norm.pdf(g) * special.expit(-(0.98 + 1.4 * g) - special.logit(0.25))
    )
    assert plain.bayes_risk().value == pytest.approx(
        1.5 * integrate.quad(density, -12, 12, epsabs=1e-13)[0], rel=INTEGRAL
    )
    gamma_one = at.MultiLocation(5, 10, 2 / 10, "sum", gamma=1.0, signal=2.0)
    assert at.risk(
        gamma_one, at.Componentwise(Sigmoid(2.0, 0.2), 1.0), ORACLE
    ).value == pytest.approx(gamma_one.bayes_risk().value, rel=INTEGRAL)


class Sigmoid:
    """sigmoid(s u - s^2/2 + logit q) as an activation."""

    def __init__(self, s, q):
        self.s, self.shift = s, -s * s / 2 + special.logit(q)

    def __call__(self, u):
        from jax.nn import sigmoid

        return sigmoid(self.s * u + self.shift)


def test_best_softmax_has_the_published_digits():
    """beyond.md section 4: one softmax head at gain 1, L = 10, m = 2."""
    for s, lam, value in (
        (2.0, 0.926, 0.2099),
        (3.0, 0.810, 0.1353),
        (4.0, 0.677, 0.0965),
        (5.0, 0.578, 0.0738),
    ):
        task = at.MultiLocation(8, 10, 2, gamma=1.0, signal=s)
        assert round(at.risk(task, Softmax(lam), ORACLE).value, 4) == value
        assert at.risk(task, Softmax(lam), ORACLE).value < min(
            at.risk(task, Softmax(lam * f), ORACLE).value for f in (0.95, 1.05)
        )
    for s, value in ((2.0, 0.300), (3.0, 0.330), (4.0, 0.366), (5.0, 0.391)):
        task = at.MultiLocation(8, 10, 2, gamma=1.0, signal=s)
        assert round(at.risk(task, Softmax(s), ORACLE).value, 3) == value


def test_softmax_decays_like_a_power_of_the_signal():
    """Best risks at s = 8 .. 40 (checked by Monte Carlo to 0.4 %), three tokens,
    and the paper's scaling at d = 80.
    """
    for s, lam, value in (
        (8.0, 0.407, 0.0409),
        (12.0, 0.300, 0.0238),
        (20.0, 0.202, 0.0114),
        (40.0, 0.117, 0.0040),
    ):
        assert (
            round(
                at.risk(
                    at.MultiLocation(8, 10, 2, gamma=1.0, signal=s), Softmax(lam), ORACLE
                ).value,
                4,
            )
            == value
        )
    three = at.MultiLocation(8, 10, 3, gamma=1.0, signal=3.0)
    assert round(at.risk(three, Softmax(0.585), ORACLE).value, 4) == 0.0852
    assert (
        round(at.risk(at.MultiLocation(80, 10, 2), Softmax(0.558), ORACLE).value, 4) == 0.0198
    )


def test_weight_moments_against_the_softmax_risk():
    """m = 1: gam^2 (1 - 2 E a + E a^2) + (L-1) E a_0^2 is the risk of theory.risks.softmax_risk;
    relative 1e-10 of the null.
    """
    for gamma, s, lam, L in (
        (1.0, 3.0, 3.0, 10),
        (0.7, 2.0, 1.0, 5),
        (1.3, 1.0, 0.3, 100),
        (0.5, 4.0, 6.0, 2),
    ):
        a, a2, a0, error = weight_moments(Softmax(lam), lam, gamma, s, 1, L)
        single = at.risk(at.SingleLocation(6, L, gamma=gamma, signal=s), Softmax(lam), ORACLE)
        assert gamma**2 * (1 - 2 * a + a2) + (L - 1) * a0 == pytest.approx(
            single.excess, abs=LONG_SUM
        )
        assert error < 1e-10


@pytest.mark.parametrize(
    "predictor", [at.Softmax(0.8), at.SoftmaxOne(1.0), at.SoftplusAttention(2.0), at.Erf(0.5)]
)
def test_risk_equals_monte_carlo(predictor):
    """|z| < 4.5 for 3 tasks x 4 predictors: false alarm 8e-5."""
    for setting in (
        {"relevant": 2},
        {"relevant": 0.3, "weights": "sum"},
        {"relevant": 3, "weights": "dirichlet", "noise": 0.2},
    ):
        task = at.MultiLocation(10, 6, gamma=0.8, signal=2.0, **setting)
        exact = at.risk(task, predictor, ORACLE)
        sampled = at.risk(task, predictor, ORACLE, method="monte-carlo", samples=40_000)
        assert abs(sampled.value - exact.value) < 4.5 * sampled.error
        assert (
            exact.value
            >= task.bayes_risk(samples=2000).value - 4.5 * task.bayes_risk(samples=2000).error
        )


def test_monte_carlo_risk_equals_vectors_at_any_overlaps():
    """Projections against whole sequences and `predict`, |z| < 4.5: false alarm 7e-6."""
    rng = np.random.default_rng(1)
    task = at.MultiLocation(6, 4, 2, gamma=0.8, signal=1.5)
    k, v = (
        x / np.linalg.norm(x)
        for x in rng.standard_normal((2, 6)) + np.stack([task.key, task.value])
    )
    sampled = at.risk(
        task,
        at.Softmax(1.2),
        at.Overlaps.of(task, k, v),
        method="monte-carlo",
        samples=50_000,
    )
    batch = task.sample(50_000, seed=9)
    loss = (batch.target - at.predict(at.Softmax(1.2), k, v, batch.tokens)) ** 2
    assert abs(loss.mean() - sampled.value) < 4.5 * np.hypot(
        sampled.error, loss.std() / 50_000**0.5
    )


def test_gain_enters_as_a_factor():
    """gain 2 on a task with weights 1 equals 4 times gain 1 on equal weights, m = 2."""
    equal, total = (
        at.MultiLocation(8, 6, 2, w, gamma=1.0, signal=2.0) for w in ("equal", "sum")
    )
    assert at.head_risk(total, Softmax(1.0), gain=2.0).value == pytest.approx(
        4 * at.head_risk(equal, Softmax(1.0)).value
    )
    assert total.bayes_risk(samples=500).value == pytest.approx(
        4 * equal.bayes_risk(samples=500).value, rel=EXACT
    )


def test_the_page_runs(capsys):
    page = DOCS / "several_tokens.md"
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M):
        exec(compile(block, page.name, "exec"), {})
    assert capsys.readouterr().out.startswith("0.35980798")
