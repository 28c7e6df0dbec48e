"""Spectral filters, learning curves and transfer, each by a second route.

False alarms: sampled comparisons allow 5 standard errors (6e-7 each) and seeds are fixed, so a
failure here is a change of the code.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from helpers.tolerances import (
    EXACT,
    FEW_ROUNDINGS,
    FORMULA,
    FOUR_DIGITS,
    INTEGRAL,
    LAST_DIGIT,
    LONG_SUM,
    SIX_DIGITS,
    THREE_DIGITS,
)
from scipy.special import roots_jacobi

from attnscope.errors import AttnscopeError
from attnscope.predictors.operators.context_attention import cme_attention, softmax_attention
from attnscope.tasks.exchangeable.sphere_regression import harmonic_count, zonal
from attnscope.theory.exchangeable.learning_curves import (
    best_attention,
    cme_curve,
    limit_bandwidth,
    softmax_curve,
    softmax_expansion,
)
from attnscope.theory.exchangeable.spectral import (
    cme_filter,
    density_bias,
    kernel_eigenvalues,
    log_eigenvalues,
    softmax_filter,
    tilted_limit,
)
from attnscope.theory.exchangeable.transfer import (
    bottleneck_law,
    bottleneck_trials,
    condition_number,
    transfer_bound,
)


def bessel_reference(d, h, m):
    with mp.workdps(50):
        x, v = 1 / mp.mpf(h), mp.mpf(d) / 2 - 1
        lowest = mp.besseli(v, x)
        log_mu = mp.log(mp.gamma(mp.mpf(d) / 2)) + v * mp.log(2 / x) - x + mp.log(lowest)
        return float(log_mu), float(mp.besseli(v + m, x) / lowest)


@pytest.mark.parametrize(
    ("d", "h", "m"),
    [
        (2, 0.5, 1),
        (3, 0.5, 3),
        (3, 1e-6, 2),
        (3, 1e-8, 1),
        (64, 1.0, 5),
        (1000, 0.01, 4),
        (10**4, 1e-4, 3),
        (10**6, 1e-3, 2),
        (5, 100.0, 7),
        (3, 0.003, 40),
        (600, 0.00335, 1),
    ],
)
def test_eigenvalues_agree_with_fifty_digits(d, h, m):
    log_mu, rho = bessel_reference(d, h, m)
    assert softmax_filter(d, h, m) == pytest.approx(rho, rel=3e-15)
    assert log_eigenvalues(d, h, 0) == pytest.approx(
        log_mu, abs=LAST_DIGIT * (10 + abs(log_mu))
    )


@pytest.mark.parametrize("d", [2, 3, 5, 8, 64])
@pytest.mark.parametrize("h", [0.05, 0.5, 2.0])
def test_eigenvalues_agree_with_quadrature_and_have_trace_one(d, h):
    t, w = roots_jacobi(150, (d - 3) / 2, (d - 3) / 2)
    m = np.arange(60)
    integral = [w @ (np.exp((t - 1) / h) * zonal(d, k, t)) / w.sum() for k in range(10)]
    np.testing.assert_allclose(kernel_eigenvalues(d, h, m[:10]), integral, atol=FORMULA)
    assert sum(
        harmonic_count(d, int(k)) * float(kernel_eigenvalues(d, h, int(k))) for k in m
    ) == pytest.approx(1, abs=EXACT)


def test_one_landweber_step_and_tikhonov_on_the_circle():
    angle = 2 * np.pi * np.arange(200) / 200
    keys = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    values = np.cos(np.outer(angle, np.arange(6)))
    soft = softmax_attention(keys[0], keys, values, 0.3)
    cme = cme_attention(keys[0], keys, values, "rbf", 0.3, 200 * 0.01)
    np.testing.assert_allclose(soft, softmax_filter(2, 0.3, np.arange(6)), atol=FEW_ROUNDINGS)
    np.testing.assert_allclose(cme, cme_filter(2, 0.3, np.arange(6), 0.01), atol=EXACT)


def test_tilted_limit_by_sampling_and_its_first_order():
    rng = np.random.default_rng(0)
    q, tilt, h = np.array([0.6, 0.0, 0.8]), np.array([0.0, 1.5, 0.5]), 0.3
    k = rng.standard_normal((400_000, 3))
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    p = np.exp(k @ (q / h + tilt))
    exact = tilted_limit(q, h, tilt)
    error = np.sqrt(np.sum((p[:, None] * (k - exact)) ** 2, axis=0)) / p.sum()
    assert np.all(np.abs(p @ k / p.sum() - exact) < 5 * error)
    np.testing.assert_allclose(
        tilted_limit(q, h, np.zeros(3)), softmax_filter(3, h, 1) * q, rtol=FEW_ROUNDINGS
    )
    tangent = lambda a: a - np.sum(a * q, axis=-1, keepdims=True) * q
    first = density_bias(1e-5, -2 * q, tangent(np.eye(3)), tangent(tilt))
    np.testing.assert_allclose(tilted_limit(q, 1e-5, tilt) - q, first, atol=INTEGRAL)


def sampled_error(d, L, h, s, g, sink, power, n, seed):
    """Mean and standard error of the error, f a random sum of zonal functions averaged exactly
    given keys and weights.
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, L + 1, d))
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    t = np.einsum("nd,nld->nl", x[:, 0], x[:, 1:])
    w = np.exp(t / h)
    w *= g / (w.sum(axis=1, keepdims=True) + (0 if sink is None else np.exp(sink)))
    gram = np.einsum("nid,njd->nij", x[:, 1:], x[:, 1:])
    cov = lambda t: sum(c * zonal(d, m, t) for m, c in enumerate(power))
    e = (
        1
        - 2 * np.sum(w * cov(t), axis=1)
        + np.einsum("ni,nij,nj->n", w, cov(gram), w)
        + s**2 * np.sum(w**2, axis=1)
    )
    return e.mean(), e.std() / np.sqrt(n)


@pytest.mark.parametrize(
    ("d", "L", "h", "s", "g", "sink", "power"),
    [
        (3, 1, 0.5, 0.5, 1.0, None, (0, 1)),
        (2, 5, 0.1, 0.3, 1.0, None, (0, 1)),
        (3, 16, 0.2, 0.5, 1.2, 1.5, (0, 1)),
        (5, 40, 0.3, 1.0, 0.9, -1.0, (0.2, 0.3, 0.5)),
        (20, 30, 0.05, 0.0, 1.0, None, (0, 0.5, 0.5)),
    ],
)
def test_exact_softmax_curve_by_sampling(d, L, h, s, g, sink, power):
    exact = softmax_curve(d, L, h, s, power, g, sink)
    mean, error = sampled_error(d, L, h, s, g, sink, power, 5000, seed=L)
    assert exact.error < 1e-12
    assert abs(mean - exact.value) < 5 * error + 1e-12


def test_one_token_without_sink_is_copied():
    assert softmax_curve(3, 1, 0.1, noise=0.5).value == pytest.approx(
        2.25, abs=EXACT
    )  # E(f(k) - f(q))^2 + s^2 = 2 + 1/4
    # all weight on the sink
    assert softmax_curve(3, 7, 0.1, sink=900.0).value == pytest.approx(1, abs=EXACT)


@pytest.mark.parametrize(("d", "h"), [(2, 0.1), (3, 0.25), (5, 0.25)])
def test_expansion_errs_by_one_over_length_squared(d, h):
    left = [
        abs(softmax_expansion(d, L, h) - softmax_curve(d, L, h).value)
        for L in (400, 800, 1600)
    ]
    assert np.allclose([left[0] / left[1], left[1] / left[2]], 4, rtol=0.1)


def test_expansion_has_no_lower_limit_and_ends_on_the_plateau():
    assert softmax_expansion(3, float("inf"), 0.5) == pytest.approx(
        (1 - (1 / np.tanh(2) - 0.5)) ** 2, rel=FORMULA
    )
    assert 0 < softmax_expansion(3, 10**9, 1e-6) < 1e-2


def test_best_attention_is_a_minimum_and_reaches_its_limit():
    best = best_attention(3, 16)
    assert best.sink is not None and best.error < best_attention(3, 16, sink=False).error
    for a, b, g in [
        (1.02, 0, 1),
        (0.98, 0, 1),
        (1, 0.1, 1),
        (1, -0.1, 1),
        (1, 0, 1.01),
        (1, 0, 0.99),
    ]:
        moved = softmax_curve(
            3, 16, 1 / (a * best.inverse_bandwidth), 0.5, (0, 1), g * best.gain, best.sink + b
        )
        assert moved.value > best.error
    # from L = 32 on the prior is better served by the gain alone
    assert best_attention(3, 64).sink is None
    assert 1 / limit_bandwidth(3) == pytest.approx(4.6847, abs=FOUR_DIGITS)
    assert best_attention(3, 4000, sink=False).inverse_bandwidth == pytest.approx(
        1 / limit_bandwidth(3), rel=THREE_DIGITS
    )


@pytest.mark.parametrize("ridge", [0.05, 0.25, 4.0])
def test_cme_curve_by_sampling(ridge):
    rng = np.random.default_rng(1)
    d = 3
    L = 200
    s = 0.5
    errors = []
    for _ in range(60):
        x = rng.standard_normal((L + 50, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        q = x[:50]
        k = x[50:]
        # (L, queries)
        a = np.linalg.solve(np.exp(k @ k.T - 1) + ridge * np.eye(L), np.exp(k @ q.T - 1))
        errors.append(
            np.mean(np.sum((a.T @ k - q) ** 2, axis=1) + s**2 * np.sum(a**2, axis=0))
        )
    spread = np.std(errors) / np.sqrt(60)
    assert abs(np.mean(errors) - cme_curve(d, L, ridge)) < 5 * spread + 2 / L * cme_curve(
        d, L, ridge
    )


def test_cme_curve_limits():
    # ridge -> infinity predicts 0
    assert cme_curve(3, 50, 1e9) == pytest.approx(1, rel=SIX_DIGITS)
    r = 0.01
    L = 10**7
    lost = (1 - cme_filter(3, 1.0, 1, r)) ** 2
    assert cme_curve(3, L, r * L) == pytest.approx(
        float(lost), rel=THREE_DIGITS
    )  # L -> infinity: the filter's bias alone
    assert 0 < cme_curve(64, 200, 0.25, bandwidth=30.0) < 1


def test_condition_number_and_bound():
    T = np.array([[1.0, 0.0, 0.0], [0.0, 0.25, 0.0]])
    assert condition_number(T, [0, 1, 0]) == pytest.approx(4)
    assert condition_number(T, [1, 1, 0]) == pytest.approx(np.sqrt(17 / 2))
    assert condition_number(T, [0, 0, 1]) == float("inf")
    assert transfer_bound(T, [0, 2, 0], 0.1) == pytest.approx(16 * 4 * 0.1)
    with pytest.raises(AttnscopeError, match="label of condition_number must be not zero"):
        condition_number(T, [0, 0, 0])


def drawn_bottleneck(kap, n, L, trials, seed, p=12, r=3, target_noise=0.3):
    """The same by drawing tokens' means and targets and fitting them."""
    c, T, out = L / (L + 1), np.diag([1.0] * (r - 1) + [1 / kap] + [0.0] * (p - r)), []
    for rng in np.random.default_rng(seed).spawn(trials):
        z, e, g = rng.standard_normal((3, n, p))
        x = c * (z + g / np.sqrt(L))
        fit = np.linalg.lstsq(x, z @ T.T + target_noise * e, rcond=None)[0].T
        u, sigma, v = np.linalg.svd(fit)
        kept = (u[:, :r] * sigma[:r]) @ v[:r]
        # the best linear head: x has covariance c I
        head = np.linalg.lstsq(kept.T, np.eye(p)[r - 1], rcond=1e-12)[0]
        out.append(
            (
                c * np.sum((kept.T @ head - np.eye(p)[r - 1]) ** 2),
                kap**2 * c * np.sum((kept - T) ** 2),
            )
        )
    return np.array(out).T


def test_bottleneck_trials_have_the_law_of_drawn_data():
    for drawn, in_law in zip(
        drawn_bottleneck(8.0, 300, 4, 200, seed=2),
        bottleneck_trials(8.0, 300, 4, 2000, seed=3),
    ):
        error = np.hypot(drawn.std() / 200**0.5, in_law.std() / 2000**0.5)
        assert abs(drawn.mean() - in_law.mean()) < 5 * error


def test_bottleneck_law_and_bound():
    kap = np.array([1.0, 4.0, 16.0])
    excess, bound = bottleneck_trials(kap, 50_000, 16, 1000, seed=4)
    law = bottleneck_law(kap, 50_000, 16)
    assert np.all(
        np.abs(excess.mean(axis=0) - law) < 5 * excess.std(axis=0) / 1000**0.5 + law**2
    )
    assert (excess <= bound).all()
    assert np.all(bottleneck_trials(1e8, 50_000, 16, 20)[0] > 0.05)  # the label is lost


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: softmax_filter(1, 0.5, 1), "dim of softmax_filter must be an integer >= 2"),
        (lambda: softmax_filter(3, 0.0, 1), "bandwidth of softmax_filter"),
        (
            lambda: softmax_filter(3, 0.5, -1),
            "degree of softmax_filter must be whole numbers",
        ),
        (lambda: softmax_filter(3, 0.5, 1.5), "degree of softmax_filter"),
        (lambda: cme_filter(3, 0.5, 1, 0.0), "ridge_per_token of cme_filter"),
        (lambda: softmax_curve(3, 0, 0.5), "length of softmax_curve"),
        (
            lambda: softmax_curve(3, 5, 1e-5),
            "bandwidth of softmax_curve.*try softmax_expansion",
        ),
        (lambda: softmax_curve(3, 5, 0.5, power=(0, -1)), "power of softmax_curve"),
        (lambda: softmax_curve(3, 5, 0.5, noise=float("nan")), "noise of softmax_curve"),
        (lambda: softmax_expansion(3, 0.5, 0.5), "length of softmax_expansion"),
        (lambda: cme_curve(3, 5, 0.0), "ridge of cme_curve.*try ridge=noise"),
        (
            lambda: cme_curve(3, 5, 1.0, bandwidth=1e-8),
            "bandwidth of cme_curve must be so large",
        ),
        (
            lambda: softmax_expansion(3, 5, 0.5, noise=float("nan")),
            "noise of softmax_expansion",
        ),
        (
            lambda: limit_bandwidth(3, noise=float("nan")),
            "noise of limit_bandwidth must be a finite",
        ),
        (lambda: limit_bandwidth(3, noise=0.0), "noise of limit_bandwidth must be such that"),
        (
            lambda: bottleneck_trials(0.0, 500, 16, 10),
            "condition of bottleneck_trials must be >= 1",
        ),
        (lambda: bottleneck_law(0.5, 500, 16), "condition of bottleneck_law must be >= 1"),
        (
            lambda: limit_bandwidth(3, power=(0, 1, 1)),
            "power of limit_bandwidth must be one degree",
        ),
        (lambda: tilted_limit(np.ones(2), 0.5, np.ones(3)), "query of tilted_limit"),
        (lambda: bottleneck_trials(2.0, 5, 16, 10), "samples of bottleneck_trials"),
        (lambda: bottleneck_trials(2.0, 500, 16, 10, rank=12), "rank of bottleneck_trials"),
    ],
)
def test_bad_input_is_refused_in_words(call, words):
    with pytest.raises(AttnscopeError, match=words):
        call()


@pytest.mark.parametrize(
    ("d", "h", "m"), [(3, 1e6, 500), (50, 1e50, 5), (1000, 1e-4, 40), (10**5, 967.0, 40)]
)
def test_log_eigenvalues_in_many_digits(d, h, m):
    """Also where mu_m is below the smallest float64."""
    with mp.workdps(60):
        x, v = 1 / mp.mpf(h), mp.mpf(d) / 2 - 1
        truth = mp.loggamma(v + 1) + v * mp.log(2 / x) - x + mp.log(mp.besseli(m + v, x))
    assert float(log_eigenvalues(d, h, m)) == pytest.approx(float(truth), rel=FORMULA)


@pytest.mark.parametrize(("d", "h"), [(10**5, 1e-6), (10**6, 1e-7), (3000, 2e-4)])
def test_the_mean_kernel_in_large_dimension(d, h):
    """E exp((t - 1)/h) as an integral over t around its peak,
    where the power series has 10^6 terms.
    """
    with mp.workdps(40):
        x, power = 1 / mp.mpf(h), mp.mpf(d - 3) / 2
        height = lambda t: x * (t - 1) + power * mp.log(1 - t * t)
        peak = x / (power + mp.sqrt(power**2 + x**2))
        width = 1 / mp.sqrt(2 * power * (1 + peak**2) / (1 - peak**2) ** 2)
        edges = [peak + k * width for k in range(-16, 17, 2)]
        integral = mp.quad(lambda t: mp.exp(height(t) - height(peak)), edges)
        front = (
            mp.loggamma(mp.mpf(d) / 2) - mp.loggamma(mp.mpf(d - 1) / 2) - mp.log(mp.pi) / 2
        )
        truth = height(peak) + mp.log(integral) + front
    assert float(log_eigenvalues(d, h, 0)) == pytest.approx(float(truth), rel=EXACT)


def cme_equivalent(
    d: int, L: int, ridge: float, h: float, s: float, degrees: int = 120
) -> float:
    """The equations of the module docstring for f of degree 1, in 60 digits, by bisection."""
    with mp.workdps(60):
        x, v = 1 / mp.mpf(h), mp.mpf(d) / 2 - 1
        front = mp.gamma(v + 1) * (2 / x) ** v * mp.exp(-x)
        mu = [front * mp.besseli(m + v, x) for m in range(degrees)]
        N = [harmonic_count(d, m) for m in range(degrees)]
        r = mp.mpf(ridge) / L
        low = mp.log(r)
        high = mp.log(r + mp.mpf(2) / L)
        for _ in range(150):
            middle = (low + high) / 2
            kap = mp.exp(middle)
            above = kap > r + kap / L * mp.fsum(n * u / (u + kap) for n, u in zip(N, mu))
            low, high = (low, middle) if above else (middle, high)
        kap = mp.exp(low)
        G = mp.fsum(n * (u / (u + kap)) ** 2 for n, u in zip(N, mu)) / L
        return float(((kap / (mu[1] + kap)) ** 2 + mp.mpf(s) ** 2) / (1 - G) - mp.mpf(s) ** 2)


@pytest.mark.parametrize(
    ("d", "L", "ridge", "h", "s"),
    [
        (3, 10**12, 1e-14, 1.0, 0.5),
        (3, 1, 1e-12, 100.0, 0.5),
        (5, 10**11, 0.74, 0.06, 0.5),
        (2, 299594, 2e-4, 12.8, 3.0),
        (20, 4 * 10**8, 8e-6, 0.5, 0.0),
        (2, 10**10, 0.24, 0.3, 0.0),
    ],
)
def test_cme_curve_in_many_digits(d, L, ridge, h, s):
    """Small ridges count degrees far below 1e-12 of the trace; small errors are not differences."""
    assert cme_curve(d, L, ridge, h, s) == pytest.approx(
        cme_equivalent(d, L, ridge, h, s), rel=LONG_SUM
    )


def test_softmax_curve_in_large_dimension():
    """d -> inf at fixed h: all weights 1/L, error 1 + (1 + s^2)/L - 2/(h d) + O(1/(h^2 d^2) + 1/(h
    d L)).
    """
    for d in (10**7, 10**9):
        for L in (1, 2, 100):
            found = softmax_curve(d, L, 0.2)
            expected = 1 + 1.25 / L
            assert found.value == pytest.approx(expected, abs=50 / d + found.error)


def test_a_label_out_of_reach_has_no_bound():
    assert transfer_bound(np.array([[1.0, 0.0]]), np.array([0.0, 1.0]), 0.0) == np.inf
