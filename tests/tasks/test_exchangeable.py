"""Latent tasks: exact posteriors and risks against dense Gaussian conditioning, enumeration of
sequences, quadrature and Monte Carlo.

Monte-Carlo comparisons allow 5 standard errors (6e-7 each) at fixed seeds: about 40 of them, so
below 3e-5 if seeds were fresh.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tolerances import (
    EXACT,
    FEW_ROUNDINGS,
    FORMULA,
    INTEGRAL,
    LONG_SUM,
    SIX_DIGITS,
    SOLVED,
)
from scipy import integrate, special, stats

from attnscope.errors import AttnscopeError
from attnscope.numerics.integrals import wishart
from attnscope.numerics.integrals.wishart import resolvent_trace
from attnscope.tasks.exchangeable.gaussian_location import GaussianLocation
from attnscope.tasks.exchangeable.latent_map import hold_out
from attnscope.tasks.exchangeable.linear_map import LinearMap
from attnscope.tasks.exchangeable.positions import (
    OrderTask,
)
from attnscope.tasks.exchangeable.sphere_regression import (
    Harmonics,
    SphereRegression,
    harmonic_count,
    zonal,
)
from attnscope.tasks.exchangeable.topics import Topics

Z = 5.0
PRIOR = [0.5, 0.3, 0.2]
EMISSIONS = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]


def squares(k: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones((*k.shape[:-1], 1)), k, k**2], axis=-1)


def predictions(task, batch):
    if isinstance(task, LinearMap):
        return task.bayes_predict(batch.query, batch.keys, batch.values)
    if isinstance(task, OrderTask):
        return task.bayes_predict(batch.content, batch.positions)
    return task.bayes_predict(batch.tokens)


TASKS = {
    "gaussian": GaussianLocation(2, 1.5, 0.4),
    "gaussian label": GaussianLocation(
        3, 1.0, 0.25, readout=np.array([1.0, -2.0, 0.5]), noise=0.3
    ),
    "linear map": LinearMap(3, 2, 0.7, 0.5),
    "features": LinearMap(2, 1, 0.5, 0.4, features=squares),
    "sphere keys": LinearMap(3, 1, keys="sphere"),
    "harmonics": SphereRegression(3, 0.5, degrees=(0, 1, 2), weights=(0.5, 1.0, 2.0)),
    "topics": Topics(PRIOR, EMISSIONS),
    "topic label": Topics(PRIOR, EMISSIONS, labels=[0.0, 1.0, 3.0], noise=0.2),
    "topic labels": Topics(PRIOR, EMISSIONS, labels=np.eye(3)),
    "order": OrderTask(noise=0.2),
}


class TestEveryTask:
    @pytest.mark.parametrize("name", TASKS)
    @pytest.mark.parametrize("length", [0, 1, 5])
    def test_bayes_risk_is_the_mean_square_error_of_bayes_predict(self, name, length):
        task = TASKS[name]
        batch = task.sample(20_000, length, seed=11)
        errors = (predictions(task, batch) - batch.target) ** 2
        errors = errors if errors.ndim == 1 else errors.sum(axis=-1)
        risk = task.bayes_risk(length)
        slack = Z * np.hypot(errors.std() / len(errors) ** 0.5, risk.error) + 1e-12
        assert abs(errors.mean() - risk.value) <= slack
        assert risk.value >= risk.excess >= 0

    @pytest.mark.parametrize("name", TASKS)
    def test_same_seed_same_bits(self, name):
        one, two, other = (TASKS[name].sample(4, 3, seed=s) for s in (1, 1, 2))
        assert all((a == b).all() for a, b in zip(one, two))
        assert any((a != b).any() for a, b in zip(one, other))

    @pytest.mark.parametrize("name", TASKS)
    def test_bad_sizes_are_refused_in_a_sentence(self, name):
        with pytest.raises(AttnscopeError, match="length"):
            TASKS[name].sample(2, -1)
        with pytest.raises(AttnscopeError, match="n of"):
            TASKS[name].sample(0, 2)
        with pytest.raises(AttnscopeError, match="length"):
            TASKS[name].bayes_risk(1.5)

    @pytest.mark.parametrize("name", ["gaussian", "linear map", "features", "harmonics"])
    def test_risk_falls_with_length(self, name):
        risks = [TASKS[name].bayes_risk(L).excess for L in (0, 2, 8, 64)]
        assert risks == sorted(risks, reverse=True) and risks[-1] < 0.2 * risks[0]


class TestGaussianLocation:
    task = GaussianLocation(2, 1.5, 0.4)

    @pytest.mark.parametrize("L", [1, 3, 12])
    def test_posterior_and_probability_against_dense_conditioning(self, L):
        x = self.task.sample(3, L, seed=0).tokens
        cov = 0.4 * np.eye(L) + 1.5
        mean, variance = self.task.posterior(x)
        dense = 1.5 * np.einsum("l,nld->nd", np.linalg.solve(cov, np.ones(L)), x)
        np.testing.assert_allclose(mean, dense, rtol=EXACT, atol=FEW_ROUNDINGS)
        assert variance == pytest.approx(
            1.5 - 1.5**2 * np.linalg.solve(cov, np.ones(L)).sum(), rel=SOLVED
        )
        joint = stats.multivariate_normal(np.zeros(L), cov)
        np.testing.assert_allclose(
            self.task.log_probability(x),
            joint.logpdf(x[..., 0]) + joint.logpdf(x[..., 1]),
            rtol=EXACT,
        )

    def test_empty_context_is_the_prior(self):
        mean, variance = self.task.posterior(np.zeros((4, 0, 2)))
        assert (mean == 0).all() and mean.shape == (4, 2) and variance == 1.5
        assert (self.task.log_probability(np.zeros((4, 0, 2))) == 0).all()

    def test_last_token_integrates_out(self):
        task, x = GaussianLocation(1, 1.5, 0.4), np.array([0.3, -1.2, 0.8])
        p = lambda *tokens: np.exp(task.log_probability(np.array(tokens)[:, None]))
        assert integrate.quad(lambda y: p(*x, y), -20, 20, epsabs=1e-15)[0] == pytest.approx(
            p(*x), rel=EXACT
        )

    def test_long_sequences(self):
        x = np.full((10**5, 2), 0.5)
        assert self.task.posterior(x).mean == pytest.approx(
            0.5 * 1.5e5 / (1.5e5 + 0.4), rel=EXACT
        )

    def test_refusals(self):
        with pytest.raises(AttnscopeError, match="prior_variance of GaussianLocation"):
            GaussianLocation(2, 0.0)
        with pytest.raises(
            AttnscopeError,
            match=r"tokens of GaussianLocation.posterior must be a real array of shape",
        ):
            self.task.posterior(np.zeros((3, 4)))
        with pytest.raises(AttnscopeError, match="NaN"):
            self.task.posterior(np.full((3, 2), np.nan))


class TestLinearMap:
    @pytest.mark.parametrize("name", ["linear map", "features", "harmonics"])
    @pytest.mark.parametrize("L", [1, 4, 30])
    def test_prediction_and_probability_against_dense_conditioning(self, name, L):
        task = TASKS[name]
        b = task.sample(2, L, seed=3)
        mean, variance = task.predictive(b.query, b.keys, b.values)
        for i in range(2):
            Phi = task.features(b.keys[i])
            q = task.features(b.query[i])
            cov = task.prior_variance * Phi @ Phi.T + task.noise**2 * np.eye(L)
            cross = task.prior_variance * Phi @ q
            np.testing.assert_allclose(
                mean[i],
                np.linalg.solve(cov, b.values[i]).T @ cross,
                rtol=INTEGRAL,
                atol=LONG_SUM,
            )
            prior = task.noise**2 + task.prior_variance * q @ q
            assert variance[i] == pytest.approx(
                prior - cross @ np.linalg.solve(cov, cross), rel=INTEGRAL
            )
            law = stats.multivariate_normal(np.zeros(L), cov)
            joint = sum(law.logpdf(b.values[i][:, j]) for j in range(task.dim_value))
            assert task.log_probability(b.keys, b.values)[i] == pytest.approx(
                joint, rel=SOLVED
            )

    def test_empty_context_is_the_prior(self):
        task = TASKS["linear map"]
        b = task.sample(3, 0, seed=0)
        mean, covariance = task.posterior(b.keys, b.values)
        assert (mean == 0).all() and np.allclose(
            covariance, 0.7 * np.eye(3), rtol=FEW_ROUNDINGS
        )
        assert task.log_probability(b.keys, b.values) == pytest.approx(
            np.zeros(3), abs=FEW_ROUNDINGS
        )
        assert task.bayes_risk(0).excess == pytest.approx(2 * 0.7 * 3, rel=FEW_ROUNDINGS)

    def test_masked_objective_hides_one_of_the_tokens(self):
        task = TASKS["linear map"]
        plain = task.sample(50, 6, seed=5)
        masked = task.masked(50, 6, seed=5)
        everything = lambda b: np.sort(
            np.concatenate([b.values[..., 0], b.target[:, :1]], axis=1), axis=1
        )
        assert (everything(plain) == everything(masked)).all() and (
            plain.target != masked.target
        ).any()
        assert np.allclose(
            task.conditional_mean(masked.latent, masked.query),
            masked.target,
            atol=Z * task.noise,
        )

    def test_masked_risk_is_the_same_risk(self):
        task = TASKS["features"]
        b = task.masked(20_000, 5, seed=8)
        errors = np.sum((predictions(task, b) - b.target) ** 2, axis=-1)
        risk = task.bayes_risk(5)
        assert abs(errors.mean() - risk.value) <= Z * np.hypot(
            errors.std() / 20_000**0.5, risk.error
        )

    def test_hold_out_keeps_pairs_together(self):
        keys = np.arange(12.0).reshape(2, 3, 2)
        b = hold_out(keys, keys[..., :1] * 10, np.array([0, 2]))
        assert (b.query == [[0, 1], [10, 11]]).all() and (b.target == [[0], [100]]).all()
        assert (b.values == b.keys[..., :1] * 10).all() and b.keys.shape == (2, 2, 2)

    def test_risk_by_two_routes(self):
        """Exact Wishart integral against leave-one-out over sampled keys:
        the second is what other features use.
        """
        exact = LinearMap(4, 1, 2.0, 0.3)
        sampled = LinearMap(4, 1, 2.0, 0.3, features=lambda k: k)
        for L in (0, 2, 4, 9, 60):
            one = exact.bayes_risk(L)
            two = sampled.bayes_risk(L, samples=4000, seed=1)
            assert (one.method, two.method) == ("Wishart resolvent", "Monte Carlo over keys")
            assert abs(one.excess - two.excess) <= Z * two.error

    def test_refusals(self):
        task = TASKS["linear map"]
        with pytest.raises(AttnscopeError, match="noise of LinearMap"):
            LinearMap(noise=0.0)
        with pytest.raises(AttnscopeError, match="features of LinearMap"):
            LinearMap(features=lambda k: k[0])
        with pytest.raises(AttnscopeError, match="keys of LinearMap must be one of"):
            LinearMap(keys="cube")
        with pytest.raises(
            AttnscopeError, match=r"values of LinearMap.posterior .* got shape \(2, 4, 2\)"
        ):
            task.posterior(np.zeros((2, 5, 3)), np.zeros((2, 4, 2)))
        with pytest.raises(AttnscopeError, match="position of hold_out"):
            hold_out(np.zeros((2, 3, 1)), np.zeros((2, 3, 1)), np.array([0, 3]))


class TestWishart:
    @pytest.mark.parametrize(("rows", "c"), [(1, 0.3), (5, 1.0), (40, 7.0)])
    def test_one_column_is_a_chi_square_integral(self, rows, c):
        expected = integrate.quad(
            lambda x: stats.chi2(rows).pdf(x) / (1 + c * x), 0, np.inf, epsabs=1e-13
        )[0]
        assert resolvent_trace(rows, 1, c).value == pytest.approx(
            expected, rel=INTEGRAL
        )  # quad's own accuracy at x^-1/2
        assert resolvent_trace(1, rows, c).value == pytest.approx(
            expected + rows - 1, rel=INTEGRAL
        )

    def test_monte_carlo(self):
        for rows, columns, c in [(3, 3, 2.0), (7, 4, 0.5), (2, 6, 5.0), (30, 20, 1.0)]:
            X = np.random.default_rng([rows, columns]).standard_normal((4000, rows, columns))
            traces = np.sum(
                1 / (1 + c * np.linalg.svd(X, compute_uv=False) ** 2), axis=1
            ) + max(columns - rows, 0)
            assert (
                abs(traces.mean() - resolvent_trace(rows, columns, c).value)
                <= Z * traces.std() / 4000**0.5
            )

    def test_inverse_moment(self):
        """c -> inf: E tr (X^T X)^-1 = columns/(rows - columns - 1)."""
        for rows, columns in ((50, 3), (300, 100)):
            assert resolvent_trace(rows, columns, 1e12).value * 1e12 == pytest.approx(
                columns / (rows - columns - 1), rel=INTEGRAL
            )

    def test_finer_panels_change_nothing(self, monkeypatch):
        before = [
            resolvent_trace(rows, columns, 0.7).value
            for rows, columns in ((20, 20), (200, 200), (10**5, 8))
        ]
        monkeypatch.setattr(wishart, "PANEL_NODES", 24)
        after = [
            resolvent_trace(rows, columns, 0.7).value
            for rows, columns in ((20, 20), (200, 200), (10**5, 8))
        ]
        assert after == pytest.approx(before, rel=LONG_SUM)


class TestSphereRegression:
    @pytest.mark.parametrize(
        ("dim", "degree"), [(2, 1), (2, 4), (3, 0), (3, 5), (8, 2), (5, 3)]
    )
    def test_addition_theorem(self, dim, degree):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((30, dim))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        Y = Harmonics(dim, [degree], [2.0])(x)
        assert Y.shape == (30, harmonic_count(dim, degree))
        np.testing.assert_allclose(Y @ Y.T, 2 * zonal(dim, degree, x @ x.T), atol=LONG_SUM)

    def test_zonal_polynomials_are_gegenbauer(self):
        t = np.linspace(-1, 1, 9)
        for dim, degree in ((3, 4), (5, 3), (10, 2)):
            a = (dim - 2) / 2
            expected = special.eval_gegenbauer(degree, a, t) / special.eval_gegenbauer(
                degree, a, 1.0
            )
            np.testing.assert_allclose(zonal(dim, degree, t), expected, atol=FORMULA)
        np.testing.assert_allclose(zonal(2, 5, t), np.cos(5 * np.arccos(t)), atol=FORMULA)

    def test_degrees_are_orthogonal_and_normalised(self):
        task = TASKS["harmonics"]
        keys = task.draw_keys(np.random.default_rng(1), (200_000,))
        Y = task.features(keys)
        moment = Y.T @ Y / len(Y)
        expected = np.diag([0.5] + [1 / 3] * 3 + [2 / 5] * 5)
        assert np.abs(moment - expected).max() <= 2e-2  # standard errors below 2e-3
        np.testing.assert_allclose(np.sum(Y**2, axis=1), 3.5, atol=LONG_SUM)

    def test_covariance_is_that_of_the_features(self):
        task = TASKS["harmonics"]
        b = task.sample(3, 4, seed=2)
        expected = np.einsum("np,nlp->nl", task.features(b.query), task.features(b.keys))
        np.testing.assert_allclose(task.covariance(b.query, b.keys), expected, atol=LONG_SUM)

    def test_keys_off_the_sphere_are_refused_with_what_would_happen(self):
        task = SphereRegression()
        with pytest.raises(
            AttnscopeError,
            match=r"keys of .* unit vectors .*long keys.* got norms from 2 to 2; try",
        ):
            task.posterior(np.array([[2.0, 0, 0]]), np.zeros((1, 1)))
        with pytest.raises(AttnscopeError, match="query"):
            task.bayes_predict(np.zeros(3), np.array([[1.0, 0, 0]]), np.zeros((1, 1)))

    def test_refusals(self):
        for arguments in (
            {"degrees": ()},
            {"degrees": (1, 1)},
            {"degrees": (-1,)},
            {"degrees": 3},
            {"dim": 60, "degrees": (3,)},
        ):
            with pytest.raises(AttnscopeError, match="degree"):
                SphereRegression(**arguments)
        with pytest.raises(AttnscopeError, match="weights"):
            SphereRegression(weights=[0.0])


def test_equal_tokens_far_from_zero_are_equal():
    """log p of tokens that differ by nothing or by one rounding:
    no mean is subtracted from large numbers.
    """
    task = GaussianLocation(1, prior_variance=1e50, noise_variance=1e-50)
    x = np.full((3, 1), 1.2573022e24 / 3)
    total = 1e-50 + 3e50
    expected = (
        -(
            2 * np.log(1e-50)
            + np.log(total)
            + 3 * np.log(2 * np.pi)
            + 3 * x[0, 0] ** 2 / total
        )
        / 2
    )
    assert float(task.log_probability(x)) == pytest.approx(expected, rel=EXACT)
    task = GaussianLocation(1, prior_variance=1.0, noise_variance=1e-32)
    x = np.array([[1.0], [1.0 + 2**-52]])
    expected = (
        -(np.log(1e-32) + np.log(2) + 2 * np.log(2 * np.pi) + (2**-52) ** 2 / 2 / 1e-32 + 1)
        / 2
    )
    assert float(task.log_probability(x)) == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize(
    ("size", "noise", "prior"), [(1e4, 1e-5, 6e6), (1.0, 1e-12, 1e5), (1e4, 1e-3, 15.0)]
)
def test_linear_map_of_fewer_tokens_than_features_without_noise(size, noise, prior):
    """One token shows one direction: the map along it is v/|k|, across it the prior; the precision
    matrix is singular in float64.
    """
    task = LinearMap(3, 1, prior, noise)
    k = size * np.array([[0.6, 0.8, 0.0]])
    mean, covariance = task.posterior(k, np.array([[2.0]]))
    assert mean[0] == pytest.approx(
        2.0 / size * np.array([0.6, 0.8, 0.0]), rel=INTEGRAL, abs=EXACT / size
    )
    assert covariance @ [0.0, 0.0, 1.0] == pytest.approx(
        prior * np.array([0.0, 0.0, 1.0]), rel=EXACT
    )
    assert task.predictive(k[0], k, np.array([[2.0]])).variance == pytest.approx(
        2 * noise**2, rel=SIX_DIGITS
    )
    spread = prior * size**2 + noise**2  # of the one value
    exact = -(np.log(2 * np.pi * spread) + 4.0 / spread) / 2
    assert task.log_probability(k, np.array([[2.0]])) == pytest.approx(exact, rel=FORMULA)
