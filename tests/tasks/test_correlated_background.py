"""Correlated background: densities by SciPy, moments and risks by sampling, whitening as an exact
change of variables.

Stochastic tests have fixed seeds and allow 5 standard errors (6e-7 each, a little more for skewed
squares): 1e-4 false alarms in all.
"""

import pickle
import re

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.correlated import INNER, correlated, random_covariance
from helpers.paths import DOCS
from helpers.tolerances import EXACT, FOUR_DIGITS, INTEGRAL, LONG_SUM, SOLVED
from scipy.special import erf, softmax
from scipy.stats import chi2, multivariate_normal, multivariate_t
from stress.references.planted_risks import affine_risk

import attnscope as at
from attnscope.claims.compare import mean_and_error
from attnscope.tasks.base import recipe

KINDS = {
    "scaled": {},
    "isotropic": {"informative": "isotropic"},
    "student": {"degrees_of_freedom": 5.0},
    "student isotropic": {"degrees_of_freedom": 3.0, "informative": "isotropic"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_posterior_and_bayes_predictor_equal_scipy_densities(kind):
    probs = np.array([0.1, 0.2, 0.3, 0.4])
    inner = at.SingleLocation(5, 4, 0.8, signal=2.0, location_probs=probs, seed=2)
    task = correlated(inner, **KINDS[kind])
    x = task.sample(50, seed=1).tokens
    mu0 = task.mean
    S0 = task.covariance
    g2 = 0.8**2
    n = task.degrees_of_freedom
    S1 = g2 * np.eye(5) if task.informative == "isotropic" else g2 * S0
    one = multivariate_normal(mu0 + 2.0 * inner.key, S1).logpdf(x)
    zero = (
        multivariate_normal(mu0, S0)
        if n is None
        else multivariate_t(mu0, S0 * (n - 2) / n, n)
    )
    ratio = one - zero.logpdf(x)
    np.testing.assert_allclose(task.log_likelihood_ratio(x), ratio, rtol=SOLVED, atol=SOLVED)
    posterior = softmax(np.log(probs) + ratio, axis=1)
    np.testing.assert_allclose(task.posterior(x), posterior, atol=LONG_SUM)
    np.testing.assert_allclose(
        task.bayes_predict(x), np.sum(posterior * (x @ inner.value), axis=1), atol=LONG_SUM
    )


@pytest.mark.parametrize("kind", ["scaled", "isotropic", "student"])
def test_samples_have_the_stated_moments(kind):
    # fourth moments
    task = correlated(
        **(KINDS[kind] | ({"degrees_of_freedom": 12.0} if kind == "student" else {}))
    )
    batch = task.sample(20_000, seed=3)
    hit = np.zeros(batch.tokens.shape[:2], dtype=bool)
    hit[np.arange(20_000), batch.location] = True
    laws = (
        (batch.tokens[hit], task.informative_mean, task.informative_covariance),
        (batch.tokens[~hit], task.mean, task.covariance),
    )
    for x, mean, covariance in laws:
        z = x - mean
        assert np.all(np.abs(z.mean(axis=0)) < 5 * z.std(axis=0) / len(z) ** 0.5)
        products = z[:, :, None] * z[:, None, :]
        assert np.all(
            np.abs(products.mean(axis=0) - covariance)
            < 5 * products.std(axis=0) / len(z) ** 0.5
        )
    noise = batch.target - batch.tokens[hit] @ task.value
    assert (
        abs(noise.std() - 0.3) < 5 * 0.3 / 200
        and task.sample(3, dtype="float32").tokens.dtype == np.float32
    )
    assert [len(b.target) for b in task.batches(7, 3, seed=0)] == [3, 3, 1]


# -- whitening -------------------------------------------------------------------------------------


@pytest.mark.parametrize("alignment", [0.0, 0.4])
def test_whitening_is_an_exact_change_of_variables(alignment):
    key, other = np.eye(5)[:2]
    value = alignment * key + (1 - alignment**2) ** 0.5 * other
    inner = at.SingleLocation(5, 4, 0.8, signal=2.0, noise=0.3, key=key, value=value)
    task = correlated(inner, seed=4)
    white = task.whiten()
    batch = task.sample(200, seed=0)
    inside = white.tokens(batch.tokens)
    np.testing.assert_allclose(
        white.task.posterior(inside), task.posterior(batch.tokens), atol=LONG_SUM
    )
    prediction = white.unwhiten(white.task.bayes_predict(inside))
    np.testing.assert_allclose(prediction, task.bayes_predict(batch.tokens), atol=LONG_SUM)
    rows = np.arange(200)
    clean = white.unwhiten(inside[rows, batch.location] @ white.task.value)
    np.testing.assert_allclose(
        clean, batch.tokens[rows, batch.location] @ inner.value, atol=LONG_SUM
    )
    gain = np.linalg.norm(np.linalg.solve(np.linalg.cholesky(task.covariance), key))
    assert white.task.signal == pytest.approx(2.0 * gain, rel=EXACT)
    # k'.v' = k*.v*, at the whitened lengths
    assert white.task.alignment * gain * white.scale == pytest.approx(alignment, abs=EXACT)
    assert white.task.noise * white.scale == pytest.approx(0.3, rel=EXACT)


def test_bayes_risk_equals_sampled_posterior_variance():
    """Exact where whitening applies: squared errors on labels without noise, in standard errors."""
    inner = at.SingleLocation(6, 5, 0.9, signal=2.0, seed=7)
    task = correlated(inner, seed=5)
    batch = task.sample(40_000, seed=2)
    mean, error = mean_and_error((batch.target - task.bayes_predict(batch.tokens)) ** 2)
    exact = task.bayes_risk()
    assert abs(mean - exact.value) < 5 * error and exact.error < 1e-8
    assert np.exp(exact.log_excess) == pytest.approx(exact.excess, rel=EXACT)


@pytest.mark.parametrize("kind", ["isotropic", "student", "student isotropic"])
def test_sampled_bayes_risk_equals_squared_errors(kind):
    task = correlated(seed=6, **KINDS[kind])
    sampled = task.bayes_risk(samples=10_000, seed=1)
    batch = task.sample(20_000, seed=2)
    mean, error = mean_and_error((batch.target - task.bayes_predict(batch.tokens)) ** 2)
    assert abs(mean - sampled.value) < 5 * np.hypot(error, sampled.error)
    assert "Monte Carlo" in sampled.method and sampled.value > INNER.noise**2


def test_softmax_at_the_discriminant_direction_is_bayes_when_covariances_agree():
    """S1 = S0: the score is linear, along S0^{-1} k* and not along k*."""
    inner = at.SingleLocation(6, 4, gamma=1.0, signal=2.0, seed=1)
    task = correlated(inner, seed=8)
    batch = task.sample(20_000, seed=3)
    k = np.linalg.solve(task.covariance, 2.0 * inner.key)
    np.testing.assert_allclose(
        at.predict(at.Softmax(1.0), k, inner.value, batch.tokens),
        task.bayes_predict(batch.tokens),
        atol=SOLVED,
    )
    along_key = [
        np.mean(
            (batch.target - at.predict(at.Softmax(t), inner.key, inner.value, batch.tokens))
            ** 2
        )
        for t in np.geomspace(0.1, 10, 30)
    ]
    assert min(along_key) > 1.1 * task.bayes_risk().value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("probs", [None, [0.1, 0.2, 0.3, 0.4]])
def test_linear_risk_equals_the_dense_normal_equations(kind, probs):
    inner = at.SingleLocation(5, 4, 0.8, signal=2.0, noise=0.3, location_probs=probs, seed=2)
    task = correlated(inner, seed=3, **KINDS[kind])
    if probs is not None and task.informative == "isotropic":
        with pytest.raises(
            at.AttnscopeError,
            match=r"location_probs of CorrelatedBackground\.linear_risk must be uniform",
        ):
            task.linear_risk()
        return
    pi = np.full(4, 0.25) if probs is None else np.array(probs)
    S1 = task.informative_covariance
    mu1 = task.informative_mean
    means = np.array(
        [np.concatenate([mu1 if l == j else task.mean for l in range(4)]) for j in range(4)]
    )
    total = pi @ means
    cov = sum(p * np.outer(m - total, m - total) for p, m in zip(pi, means))
    for j in range(4):
        for l in range(4):
            cov[5 * l : 5 * l + 5, 5 * l : 5 * l + 5] += pi[j] * (
                S1 if l == j else task.covariance
            )
    cross = np.concatenate([pi[l] * S1 @ inner.value for l in range(4)])
    dense = inner.value @ S1 @ inner.value - cross @ np.linalg.solve(cov, cross)
    assert task.linear_risk().excess == pytest.approx(dense, rel=SOLVED)
    assert task.linear_risk().value == pytest.approx(dense + 0.09, rel=SOLVED)
    assert task.null_risk().excess == pytest.approx(inner.value @ S1 @ inner.value, rel=EXACT)


# -- attention risks -------------------------------------------------------------------------------


def test_isotropic_background_gives_the_known_risk():
    plain = at.CorrelatedBackground(INNER)
    for predictor in (
        at.Erf(0.3),
        at.Componentwise(jnp.tanh, 0.5),
        at.LinearAttention(0.2, offset=0.1),
    ):
        known = at.risk(INNER, predictor, at.Overlaps.oracle())
        assert at.correlated_risk(plain, predictor).value == pytest.approx(
            known.value, rel=LONG_SUM
        )
    best, risk = at.correlated_inverse_temperature(plain)
    known_best, known = at.optimal_inverse_temperature(INNER, at.Erf)
    assert best == pytest.approx(known_best, rel=FOUR_DIGITS) and risk.value == pytest.approx(
        known.value, rel=INTEGRAL
    )


def test_best_inverse_temperatures_far_below_the_signal():
    """Before a Student t of 3 < n < 4 the risk is R(0) - a lam + b (L-1) lam^(n-2) near 0, least at
    an inverse temperature ~ (L-1)^(-1/(n-3)): at n = 3.5 a hundred times the tokens divide it by
    10^4, to 2e-11, where the search began at 5e-11 and 0 was returned. The risk there is known to
    1/50 of its depth, so the place to 1/7 at worst; neighbours tell whether it is the least.
    """

    def best(length):
        inner = at.SingleLocation(4, length, gamma=1.0, signal=1.0, seed=1)
        options = {"degrees_of_freedom": 3.5, "informative": "isotropic"}
        task = at.CorrelatedBackground(inner, **options)
        lam, least = at.correlated_inverse_temperature(task)
        for factor in (0.3, 0.5, 0.8, 1.25, 2.0, 3.0):
            other = at.correlated_risk(task, at.Erf(factor * lam))
            assert least.excess <= other.excess + least.error + other.error
        return lam

    assert best(1001) / best(100_001) == pytest.approx(1e4, rel=1 / 7)


def test_whitening_is_kept_and_nobody_can_change_it():
    """Asked for twice it is the same object;
    copies, pickles and what rebuilds the task know nothing of it.
    """
    spread = np.diag([4.0, 1, 1, 1, 1, 2])
    make = lambda: at.CorrelatedBackground(at.SingleLocation(6, 4), covariance=spread)
    fresh = make()
    task = make()
    white = task.whiten()
    assert task.whiten() is white
    with pytest.raises(ValueError, match="read-only"):
        white.matrix[0, 0] = 7.0
    assert recipe(task).keys() == recipe(fresh).keys()
    again = pickle.loads(pickle.dumps(task))
    rebuilt = type(task)(**recipe(task))
    for other in (fresh, again, rebuilt):
        assert np.array_equal(other.whiten().matrix, white.matrix)
        assert at.risk(other, at.Erf(0.5), at.Overlaps.oracle()) == at.risk(
            task, at.Erf(0.5), at.Overlaps.oracle()
        )


def test_whitened_oracle_has_the_isotropic_risk():
    """erf at (k', v') on whitened tokens, measured in the units of Y:
    |v'|^2 R_erf(s') + noise^2 is what sampling sees.
    """
    task = correlated(seed=9)
    white = task.whiten()
    batch = task.sample(40_000, seed=4)
    output = at.predict(
        at.Erf(0.3), white.task.key, white.task.value, white.tokens(batch.tokens)
    )
    mean, error = mean_and_error((batch.target - white.unwhiten(output)) ** 2)
    exact = white.scale**2 * at.risk(white.task, at.Erf(0.3), at.Overlaps.oracle()).value
    assert abs(mean - exact) < 5 * error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [False, True])
def test_attention_risk_equals_monte_carlo(kind, intercept):
    """Random directions of random length, mean and correlations;
    tanh as a second activation where moments exist.
    """
    task = correlated(seed=10, **KINDS[kind])
    rng = np.random.default_rng(5)
    k, v = (
        task.key + 0.5 * rng.standard_normal(5),
        0.7 * task.value + 0.3 * rng.standard_normal(5),
    )
    batch = task.sample(40_000, seed=6)
    predictors = (
        [at.Erf(0.4)]
        if task.degrees_of_freedom
        else [at.Erf(0.4), at.Componentwise(jnp.tanh, 0.7)]
    )
    for predictor in predictors:
        off = batch.target - at.predict(predictor, k, v, batch.tokens)
        mean, error = mean_and_error((off - off.mean() if intercept else off) ** 2)
        exact = at.correlated_risk(task, predictor, k, v, intercept=intercept)
        # n = 3 degrees of freedom: squared errors have no variance, their mean is only near; the
        # others are held to 5 s.e.
        slack = 0.1 * exact.value if task.degrees_of_freedom == 3.0 else 5 * error
        assert abs(mean - exact.value) < slack
        assert exact.error < 1e-9 * exact.value


def test_student_moments_equal_a_mixture_of_gaussians():
    """Second route for heavy tails: a t background is Gaussian given its scale;
    average the moments over the scale by quadrature.
    """
    n = 3.0
    inner = at.SingleLocation(4, 2, 0.8, signal=1.5, seed=3)
    S = random_covariance(4, 12)
    mean = np.array([0.3, -0.2, 0.5, 0.1])
    student = at.CorrelatedBackground(inner, mean, S, degrees_of_freedom=n)
    # L = 2 has one background token: R = Var A + q0 - m0^2 + (E A - m0)^2 is linear in (m0, q0)
    # given A, so scales average
    y = np.arange(
        -60, 4.5, 0.05
    )  # log of the chi-square variable c; scale^2 = (n - 2)/c, second moments decay like e^{y/2}
    weight = chi2(n).pdf(np.exp(y)) * np.exp(y) * 0.05
    mixed = np.sum(
        weight * [_risk_with_background(inner, mean, S, (n - 2) / c) for c in np.exp(y)]
    )
    # the sum over scores has steps of 1/40, and erf becomes a step function at large scales: errors
    # of (1/40)^2/12
    assert at.correlated_risk(student, at.Erf(0.5)).excess == pytest.approx(
        mixed, rel=FOUR_DIGITS
    )


def _risk_with_background(inner, mean, S, scale2):
    """E(Y - T)^2 for L = 2 with background N(mean, scale2 S) and informative N(mean + s k*, gam^2
    S), by 1-D sums over scores.
    """
    g = np.linspace(-9, 9, 721)
    p = np.exp(-g * g / 2) / np.sqrt(2 * np.pi) * (g[1] - g[0])
    k = inner.key
    v = inner.value

    def moments(m, C):
        sd = np.sqrt(k @ C @ k)
        s = erf(0.5 * (m @ k + sd * g))
        line = m @ v + (v @ C @ k) / sd * g
        rest = v @ C @ v - (v @ C @ k) ** 2 / (k @ C @ k)
        return s, line, rest

    s1, line, rest = moments(mean + inner.signal * k, inner.gamma**2 * S)
    mean_a = np.sum(p * (1 - s1) * line)
    square_a = np.sum(p * (1 - s1) ** 2 * (line**2 + rest))
    s0, line, rest = moments(mean, scale2 * S)
    m0 = np.sum(p * s0 * line)
    q0 = np.sum(p * s0**2 * (line**2 + rest))
    return square_a - 2 * mean_a * m0 + q0


def test_published_numbers():
    """d = 60, L = 10, gamma^2 = 1/2, each at its best inverse temperature:
    plain, with intercept, whitened.
    """
    inner = at.SingleLocation(dim=60, length=10)
    k = inner.key
    v = inner.value
    e = np.linalg.qr(np.c_[k, v, np.eye(60)[:, 0]])[0][:, 2]
    f = (k + e) / 2**0.5
    cases = [
        (None, 0.0, (0.2108, 0.2108, 0.2108)),
        (v, 0.0, (0.5126, 0.2878, 0.2108)),
        (k, 0.0, (0.2480, 0.2480, 0.2108)),
        (0.7 * (k + v), 0.0, (0.2590, 0.2586, 0.2108)),
        (None, 0.6 * (np.outer(k, v) + np.outer(v, k)), (0.3776, 0.2437, 0.1668)),
        (None, 4 * np.outer(k, k), (0.3795, 0.3795, 0.3795)),
        (None, 8 * np.outer(f, f), (0.3795, 0.3795, 0.2746)),
    ]
    for mean, extra, wanted in cases:
        task = at.CorrelatedBackground(inner, mean, np.eye(60) + extra)
        white = task.whiten()
        ours = [
            at.correlated_inverse_temperature(task, intercept=b)[1].value
            for b in (False, True)
        ]
        ours.append(
            white.scale**2 * at.optimal_inverse_temperature(white.task, at.Erf)[1].value
        )
        assert [round(x, 4) for x in ours] == list(wanted)


def test_error_estimate_admits_cancellation():
    """With constant weights a mean is an intercept:
    however large, it changes nothing but the rounding.
    """
    for size in (1e4, 1e8):
        shifted = at.CorrelatedBackground(INNER, mean=size * INNER.value)
        constant = at.Componentwise(lambda x: 1.0 + 0.0 * x, 1.0)
        plain = at.correlated_risk(at.CorrelatedBackground(INNER), constant, intercept=True)
        far = at.correlated_risk(shifted, constant, intercept=True)
        assert abs(far.value - plain.value) <= far.error + plain.error


def test_the_documentation_page_runs(capsys):
    page = (DOCS / "sparse_and_correlated.md").read_text()
    for block in re.findall(r"^```python\n(.*?)^```", page, re.S | re.M):
        exec(compile(block, "sparse_and_correlated.md", "exec"), {})
    assert "Laplace inversion" in capsys.readouterr().out


@pytest.mark.parametrize("aligned", [0.0, 0.6])
def test_errors_of_the_affine_risk_know_what_whitening_rounds(aligned):
    """v*.S0 v* that is 1e-6 of its terms: errors relative to the result were too small.
    Reference in 50 digits.
    """
    rng = np.random.default_rng(4)
    for _ in range(20):
        frame = np.linalg.qr(rng.standard_normal((2, 2)))[0]
        covariance = (frame * np.array([1.0, 10 ** rng.uniform(0, 6)])) @ frame.T
        rare = 10 ** rng.uniform(-12, -1)
        value = frame[:, 0]  # where the large terms cancel
        key = aligned * value + (1 - aligned**2) ** 0.5 * frame[:, 1]
        inner = at.SingleLocation(
            2, 2, 0.3, signal=2.0, location_probs=[1 - rare, rare], key=key, value=value
        )
        task = at.CorrelatedBackground(inner, covariance=covariance)
        probs = task.task.location_probs
        laws = (
            (task.mean, task.covariance),
            (task.informative_mean, task.informative_covariance),
        )
        null, affine = affine_risk(probs, *laws, task.value)
        out = task.linear_risk()
        assert abs(task.null_risk().excess - null) <= task.null_risk().error
        assert abs(out.excess - affine) <= out.error
