"""resolvent_trace and LinearMap.bayes_risk against integrals in many digits, for every noise.

References: one column, z e^z E_{k/2}(z) with z = 1/(2c) (mpmath's exponential integral, 40 digits);
two columns, a double integral in closed inner form; c -> inf, the inverse moment; and a second
route for sampled keys, the exact number of the same task.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from helpers.tolerances import INTEGRAL

from attnscope import LinearMap
from attnscope.errors import AttnscopeError
from attnscope.numerics.integrals.wishart import resolvent_trace

SIGMAS = 5.0  # P(|normal| > 5) = 6e-7 for each sampled comparison; seeds are fixed


def chi_square_mean(degrees: int, c: float | mp.mpf) -> mp.mpf:
    """E 1/(1 + c X), X chi-square."""
    with mp.workdps(40):
        z = 1 / (2 * mp.mpf(c))
        return z * mp.exp(z) * mp.expint(mp.mpf(degrees) / 2, z)


def square_two(c: float) -> mp.mpf:
    """E tr (I + c X^T X)^-1 of a 2 x 2 normal X: singular values have density ~ |u^2 - v^2| e^{..}.

    With polar coordinates u = r cos t, v = r sin t: density r^3 e^{-r^2/2}/2 dr, cos(2t) dt on
    0 <= t <= pi/4 (times 2). Given t, the integral over r has the closed form below.
    """
    with mp.workdps(30):
        c = mp.mpf(c)

        def radial(b: mp.mpf) -> mp.mpf:
            """int_0^inf r^3/2 e^{-r^2/2}/(1 + b r^2) dr = (1 - z e^z E_1(z))/(2b), z = 1/(2b)."""
            if b == 0:
                return mp.mpf(1)
            z = 1 / (2 * b)
            return z * mp.exp(z) * mp.expint(2, z)

        def angular(t: mp.mpf) -> mp.mpf:
            large = radial(c * mp.cos(t) ** 2)
            small = radial(c * mp.sin(t) ** 2)
            return 2 * mp.cos(2 * t) * (large + small)

        edge = mp.pi / 4
        places = [edge / 2**k for k in range(int(mp.log(c + 2, 2) / 2) + 6)]
        return mp.quad(angular, [0, *reversed(places)])


@pytest.mark.parametrize("noise", [1e-50, 1e-30, 1e-12, 1e-6, 1e-3, 0.01, 0.1, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("prior", [1e-8, 1.0, 1e8])
def test_one_key_and_one_token_for_every_noise(noise, prior):
    risk = LinearMap(1, 1, prior_variance=prior, noise=noise).bayes_risk(1)
    with mp.workdps(40):
        truth = prior * chi_square_mean(1, mp.mpf(prior) / mp.mpf(noise) ** 2)
    assert abs(risk.excess - truth) <= risk.error <= 1e-12 * risk.excess


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 30, 81, 95, 1000, 10**5])
@pytest.mark.parametrize("c", [1e-3, 0.3, 50.0, 1e6, 1e24, 1e90])
def test_one_column(rows, c):
    truth = chi_square_mean(rows, c)
    tall = resolvent_trace(rows, 1, c)
    wide = resolvent_trace(1, rows, c)
    assert abs(tall.value - truth) <= tall.error <= 1e-12 * tall.value
    with mp.workdps(40):
        gap = abs(wide.value - (rows - 1) - truth)
    assert gap <= wide.error <= 1e-12 * wide.value


@pytest.mark.parametrize(
    "c", [1e-3, 1.0, 1e3, *(pytest.param(c, marks=pytest.mark.slow) for c in (1e8, 1e20))]
)
def test_two_by_two(c):
    found = resolvent_trace(2, 2, c)
    assert abs(found.value - square_two(c)) <= found.error <= 1e-12 * found.value


@pytest.mark.parametrize(
    ("rows", "columns"), [(10, 3), (50, 41), (207, 200), (10**12, 5), (10**15, 2)]
)
def test_inverse_moment(rows, columns):
    """c -> inf: E tr (X^T X)^-1 = columns/(rows - columns - 1), any length."""
    found = resolvent_trace(rows, columns, 1e60)
    truth = mp.mpf(columns) / (rows - columns - 1) / mp.mpf(1e60)
    assert abs(found.value - truth) <= found.error <= 1e-8 * found.value


def test_five_keys_little_noise():
    """The square case decays like the noise, not its square:
    compared with draws where they see it.
    """
    risk = LinearMap(5, 1, noise=0.05).bayes_risk(5)
    X = np.random.default_rng(3).standard_normal((100_000, 5, 5))
    draws = np.sum(1 / (1 + np.linalg.svd(X, compute_uv=False) ** 2 / 0.05**2), axis=1)
    assert abs(draws.mean() - risk.excess) <= SIGMAS * draws.std() / len(draws) ** 0.5
    assert LinearMap(5, 1, noise=1e-3).bayes_risk(5).excess == pytest.approx(
        0.0033371859701504
    )


@pytest.mark.parametrize("noise", [1e-12, 1e-3, 0.05, 2.0])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 12])
def test_sampled_keys_cover_the_exact_number(noise, length):
    """Also where contexts that miss a direction are too rare to be drawn: L = p, little noise."""
    exact = LinearMap(3, 1, noise=noise).bayes_risk(length)
    sampled = LinearMap(3, 1, noise=noise, features=lambda k: k).bayes_risk(length)
    assert sampled.method == "Monte Carlo over keys"
    assert abs(sampled.excess - exact.excess) <= SIGMAS * sampled.error + exact.error


@pytest.mark.parametrize("noise", [1e-50, 1e-20, 1e-12, 1e-8, 1e-4, 0.5, 1e6])
@pytest.mark.parametrize("prior", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 6])
def test_inference_for_every_noise(noise, prior, length):
    """Posterior, prediction and log probability against the normal law of all values,
    in 250 digits.
    """
    task = LinearMap(3, 1, prior_variance=prior, noise=noise)
    rng = np.random.default_rng([length, 7])
    keys = rng.standard_normal((length, 3))
    values = keys @ rng.standard_normal((3, 1)) * prior**0.5 + noise * rng.standard_normal(
        (length, 1)
    )
    query = rng.standard_normal(3)
    with mp.workdps(250):
        exact = lambda x: mp.matrix(
            [[mp.mpf(float(y)) for y in row] for row in np.atleast_2d(x)]
        )
        s2 = mp.mpf(noise) ** 2
        lam = mp.mpf(prior)
        q = exact(query)
        K, v, cross = (
            (exact(keys), exact(values), exact(keys) * q.T) if length else (None, None, None)
        )
        mean = mp.mpf(0)
        variance = s2 + lam * (q * q.T)[0]
        log_p = mp.mpf(0)
        if length:
            G = lam * (K * K.T) + s2 * mp.eye(length)
            weights = mp.lu_solve(G, lam * cross)
            mean = (weights.T * v)[0]
            variance -= (weights.T * (lam * cross))[0]
            square = (v.T * mp.lu_solve(G, v))[0]
            log_p = -(square + mp.log(mp.det(G)) + length * mp.log(2 * mp.pi)) / 2
        found = task.predictive(query, keys, values)
        assert abs(found.mean[0] - mean) <= 1e-11 * (abs(mean) + mp.sqrt(lam))
        assert abs(found.variance - variance) <= 1e-10 * variance
    posterior = task.posterior(keys, values)
    assert np.isfinite(posterior.covariance).all() and posterior.covariance.shape == (3, 3)
    if length > 3 and noise < 1e-8 * prior**0.5:
        with pytest.raises(
            AttnscopeError, match=r"noise of LinearMap.log_probability must be above"
        ):
            task.log_probability(keys, values)
    else:
        assert float(task.log_probability(keys, values)) == pytest.approx(
            float(log_p), rel=INTEGRAL, abs=INTEGRAL
        )
