"""Every exact risk against Monte Carlo, every gradient against central differences, linear
attention against its expansion.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.settings import random_settings
from helpers.tolerances import (
    EXACT,
    FEW_ROUNDINGS,
    INTEGRAL,
    SEVEN_DIGITS,
    SIX_DIGITS,
    SOLVED,
    THREE_DIGITS,
)

import attnscope as at
from attnscope.numerics.border.x64 import x64
from attnscope.theory.law import Law
from attnscope.theory.risks.linear_risk import linear_excess

FAMILIES = {
    "erf": at.Erf,
    "tanh": lambda t: at.Componentwise(jnp.tanh, t),
    "relu": lambda t: at.Componentwise(jax.nn.relu, t, kinks=(0.0,)),
    "shifted step": lambda t: at.Componentwise(
        lambda x: jnp.where(x > 0.5, 1.0, 0.0), t, kinks=(0.5,)
    ),
    "linear": lambda t: at.LinearAttention(t, offset=0.3),
    "softmax": at.Softmax,
}


# relu and tanh go the way of the step, without its jump
SAMPLED = [
    pytest.param(name, marks=pytest.mark.slow) if name in ("relu", "tanh") else name
    for name in FAMILIES
]


@pytest.mark.parametrize("name", SAMPLED)
def test_exact_risk_equals_monte_carlo(name):
    """200 random off-manifold settings: z-scores of 8,000 samples each have rms in [.8, 1.2] and
    max below 5.

    A z-score is standard normal up to the skewness of a squared error, so the rms of 200 leaves
    [.8, 1.2] with probability about 6e-5 and the largest passes 5 with about 1e-4 per predictor:
    1e-3 false alarms over this table, had the seeds not been fixed.
    """
    z = []
    for i, (task, lam, o) in enumerate(
        random_settings(
            200,
            seed=11,
            inverse_temperatures=(0.02, 1.0) if name == "linear" else (0.02, 3.0),
        )
    ):
        predictor = FAMILIES[name](lam)
        exact = at.risk(task, predictor, o)
        sampled = at.risk(task, predictor, o, method="monte-carlo", samples=8_000, seed=i)
        z.append((sampled.excess - exact.excess) / sampled.error)
    z = np.array(z)
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.2
    assert np.abs(z).max() < 5


@pytest.mark.parametrize("name", FAMILIES)
def test_gradient_equals_central_differences(name):
    """Fourth-order differences of the exact risk, relative 1e-7 of the largest component,
    overlaps as five free variables.
    """
    from attnscope.theory.route import find_route

    for task, lam, o in random_settings(12, seed=3):
        point = np.array([*o, lam])

        def value(x, task=task):
            fields = at.Overlaps(*(np.asarray(y) for y in x[:5]))
            predictor = FAMILIES[name](x[5])
            return float(
                find_route(task, predictor).excess(task, predictor, fields, x[5]).excess
            )

        predictor = FAMILIES[name](lam)
        ours = np.array(
            find_route(task, predictor).gradient(
                task, predictor, at.Overlaps(*(np.asarray(y) for y in o)), lam
            )
        ).ravel()
        steps = 2e-3 * np.array([1, 1, 1, 1, 1, lam])
        shift = lambda i, m, point=point, steps=steps: value(point + m * steps * np.eye(6)[i])
        central = [
            (8 * (shift(i, 1) - shift(i, -1)) - shift(i, 2) + shift(i, -2)) / (12 * steps[i])
            for i in range(6)
        ]
        roundoff = 1e-11 * value(point)  # of the differences, where the risk is flat
        np.testing.assert_allclose(
            ours,
            central,
            rtol=SEVEN_DIGITS,
            atol=SEVEN_DIGITS * np.abs(central).max() + roundoff,
        )


def test_public_gradient_is_the_raw_one():
    task, lam, o = random_settings(1, seed=8)[0]
    gradient = at.risk_gradient(task, at.Erf(lam), o)
    assert all(isinstance(x, float) for x in gradient)
    grid = at.risk_gradient(task, at.Erf(lam), at.Overlaps(*(np.full((2, 3), x) for x in o)))
    assert grid.kappa.shape == (2, 3)
    assert grid.kappa[0, 0] == pytest.approx(gradient.kappa, rel=FEW_ROUNDINGS)


def test_gradient_at_inverse_temperature_zero_is_the_limit():
    task, _, o = random_settings(3, seed=4, aligned=False)[1]
    for family in (at.Erf, FAMILIES["tanh"], FAMILIES["linear"], at.Softmax):
        zero = at.risk_gradient(task, family(0.0), o)
        near = at.risk_gradient(task, family(1e-5), o)
        np.testing.assert_allclose(zero, near, rtol=2e-3, atol=THREE_DIGITS)


def test_linear_attention_equals_free_norm_expansion():
    """The expansion for free norms |k|, |v| of the same risk, written independently: E[T_J^2] etc.
    as polynomials.
    """
    rng = np.random.default_rng(0)
    for _ in range(50):
        k, v = (x / np.linalg.norm(x) for x in rng.standard_normal((2, 5)))
        lam, c0, s, g2, L = (
            rng.uniform(0.1, 2),
            rng.uniform(-1, 1),
            rng.uniform(0, 3),
            rng.uniform(0.2, 2),
            int(rng.integers(1, 9)),
        )
        kappa = k[0]
        eta = k[1]
        theta = v[0]
        nu = v[1]
        rho = k @ v
        a = c0 + lam * s * kappa
        b = s * theta
        K2 = lam**2
        r = lam * rho
        m1 = a * b + g2 * r
        q0 = c0**2 + K2 + 2 * r**2
        q1 = a**2 * b**2 + g2 * (a**2 + b**2 * K2 + 4 * a * b * r) + g2**2 * (K2 + 2 * r**2)
        R = (
            g2
            - 2 * g2 * (a * nu + b * lam * eta)
            + q1
            + 2 * (L - 1) * r * m1
            + (L - 1) * q0
            + (L - 1) * (L - 2) * r**2
        )
        ours = linear_excess((kappa, eta, theta, nu, rho), lam, c0, Law(g2**0.5, s, L))
        assert ours == pytest.approx(R, rel=EXACT)


def test_linear_attention_equals_its_quadrature():
    for task, lam, o in random_settings(20, seed=6):
        closed = at.risk(task, at.LinearAttention(lam, offset=0.3), o)
        quadrature = at.risk(task, at.Componentwise(lambda x: 0.3 + x, lam), o)
        assert closed.excess == pytest.approx(quadrature.excess, rel=EXACT)


@pytest.mark.parametrize(
    "name", ["erf", "linear", pytest.param("softmax", marks=pytest.mark.slow)]
)
def test_jax_twin_is_the_same_function(name):
    """The raw JAX function agrees in value and, through jax.grad, with the analytic gradient."""
    # JAX compiles each setting anew
    for task, lam, o in random_settings(3, seed=9, inverse_temperatures=(0.1, 2.0)):
        f = at.risk_function(task, FAMILIES[name](lam))
        with x64():
            point = at.Overlaps(*(jnp.asarray(x) for x in o))
            value, (d_o, d_lam) = jax.jit(jax.value_and_grad(f, argnums=(0, 1)))(
                point, jnp.asarray(lam)
            )
            twin = np.array([*d_o, d_lam])
        assert float(value) == pytest.approx(
            at.risk(task, FAMILIES[name](lam), o).excess, rel=INTEGRAL
        )
        np.testing.assert_allclose(
            twin,
            at.risk_gradient(task, FAMILIES[name](lam), o),
            rtol=SEVEN_DIGITS,
            atol=SEVEN_DIGITS,
        )


def test_optimal_sigma_is_optimal_and_exact():
    """Its log-space risk equals the 1-D route where both work, no other activation does better,
    and the printed values.
    """
    oracle = at.Overlaps.oracle()
    for dim, printed in (
        (10, "2.65e-01"),
        (50, "6.44e-03"),
        (100, "6.87e-05"),
        (400, "2.48e-16"),
    ):
        task = at.SingleLocation(dim, 10)
        best = at.optimal_sigma(task)
        value = at.risk(task, best, oracle)
        assert f"{value.value:.2e}" == printed
        route = at.risk(
            task,
            at.Componentwise(best.sigma, 1.0),
            at.Overlaps(*(np.full(1, x) for x in oracle)),
        )
        if dim <= 100:
            assert route.excess[0] == pytest.approx(value.excess, rel=SOLVED)
        for family in (at.Erf, at.LinearAttention):
            assert at.optimal_inverse_temperature(task, family)[1].value > value.value


@pytest.mark.parametrize(
    ("dim", "gamma"),
    [
        (10**5, 0.5**0.5),
        pytest.param(3000, 1.0, marks=pytest.mark.slow),
        pytest.param(2000, 1.5, marks=pytest.mark.slow),
    ],
)
def test_optimal_sigma_risk_below_underflow_equals_high_precision(dim, gamma):
    """R* by 50-digit quadrature around the score at which both hypotheses are equally likely,
    where all of its mass is.
    """
    mpmath = pytest.importorskip("mpmath")
    task = at.SingleLocation(dim, 10, gamma=gamma)
    value = at.risk(task, at.optimal_sigma(task), at.Overlaps.oracle())
    crossing, scale = max(
        (u, w) for u, w in at.optimal_sigma(task).turns() if 0 < u < task.signal
    )
    with mpmath.workdps(50):
        s, g = mpmath.mpf(task.signal), mpmath.mpf(task.gamma)
        A = lambda u: g**2 * mpmath.npdf(u, s, g)
        B = lambda u: 9 * mpmath.npdf(u)
        edges = [crossing + scale * x for x in mpmath.linspace(-60, 60, 121)]
        exact = mpmath.log(
            mpmath.quad(lambda u: A(u) * B(u) / (A(u) + B(u)), edges, maxdegree=4)
        )
        assert value.log_excess == pytest.approx(float(exact), abs=INTEGRAL)


def test_optimal_sigma_at_gamma_one_is_logistic():
    task = at.SingleLocation(20, 7, gamma=1.0)
    u = np.linspace(-8, 12, 41)
    s = task.signal
    logistic = 1 / (1 + np.exp(-(s * u - s * s / 2 - np.log(6))))
    np.testing.assert_allclose(
        at.optimal_sigma(task).weights(u[None])[0], logistic, atol=FEW_ROUNDINGS
    )


def test_asymptotic_regime_of_the_erf_oracle():
    """lam = d^-a: vanishing risk for a = .4, a plateau at .0503 for a = .5, growth for a = .6;
    leading_risk is the limit.
    """
    oracle = at.Overlaps.oracle()
    value = lambda d, a: at.risk(at.SingleLocation(d, 10), at.Erf(d**-a), oracle).value
    assert f"{value(10**7, 0.4):.1e}" == "2.9e-05"
    assert f"{value(10**7, 0.5):.4f}" == "0.0503"
    assert value(10**7, 0.6) > value(10**5, 0.6) > value(10**3, 0.6)
    task = at.SingleLocation(10**10, 10)
    regime = at.oracle_regime(task, 1e-4)
    assert regime.leading_risk == pytest.approx(
        at.risk(task, at.Erf(1e-4), oracle).value, rel=SIX_DIGITS
    )
