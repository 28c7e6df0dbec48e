"""Stress tests of risks of attention predictors and on the single-location tasks;
its references against known values.
"""

import math

import numpy as np
import pytest
from helpers.families import family_tests
from helpers.tolerances import EXACT, LAST_DIGIT
from mpmath import mp

from stress.references import (
    activation_moments,
    location_posterior,
    normalised_attention,
    single_location,
    spiked,
)

test_quick, test_long = family_tests(
    "single_location", "location_tasks", "location_tasks_lengths_and_grids", "spiked"
)


@pytest.mark.parametrize(
    "sigma",
    [
        ("erf",),
        ("cos", 2.0, 0.3),
        ("bump", 0.5, 0.4),
        ("pieces", ((-1.0, 2.0, (0.5, 1.0)),)),
        ("tanh",),
        ("logistic",),
    ],
)
def test_moments_of_an_activation(sigma):
    g, h = np.linspace(-9, 9, 180_001, retstep=True)
    f = np.array([float(activation_moments.value(sigma, x)) for x in 0.4 + 0.7 * g[::450]])
    weight = np.exp(-(g[::450] ** 2) / 2) / math.sqrt(2 * math.pi) * h * 450
    kinked = sigma[0] == "pieces"  # its jumps cost the trapezoid rule a step
    with mp.workdps(40):
        first, second = activation_moments.moments(sigma, 0.4, 0.7)
    for power, found in ((1, first), (2, second)):
        rough = [np.sum(weight * f**power * g[::450] ** n) for n in range(3)]
        assert np.allclose(
            [float(x) for x in found], rough, rtol=0, atol=0.05 if kinked else 1e-10
        )


def test_truncated_moments_add_up():
    ends = ((-math.inf, math.inf),), ((-math.inf, 0.3), (0.3, math.inf))
    with mp.workdps(70):
        whole, parts = (
            activation_moments.moments(
                ("pieces", tuple((*e, (0.5, 1.0)) for e in some)), 0.4, 0.7
            )
            for some in ends
        )
        away = [
            abs(a - b)
            for x, y in zip(whole, parts, strict=True)
            for a, b in zip(x, y, strict=True)
        ]
    assert float(max(away)) < 1e-60
    assert float(whole[0][0]) == pytest.approx(0.9, abs=LAST_DIGIT)  # E (0.5 + x) = 0.5 + 0.4
    assert float(whole[1][0]) == pytest.approx(0.9**2 + 0.7**2, abs=LAST_DIGIT)


def test_risk_of_predicting_zero_and_of_the_token_itself():
    nothing = ("pieces", ((-math.inf, math.inf, (0.0,)),))
    one = ("pieces", ((-math.inf, math.inf, (1.0,)),))
    o = (0.3, 0.1, 0.2, 0.5, 0.4)
    assert float(
        single_location.componentwise_risk(nothing, o, 1.0, 0.7, 2.0, 5, 0.0).value
    ) == pytest.approx(0.49)
    # sigma = 1, v = v*: T = Y + sum of L - 1 standard normals
    oracle = single_location.componentwise_risk(
        one, (0.3, 0.1, 0.0, 1.0, 0.1), 1.0, 0.7, 2.0, 5, 0.0
    )
    assert float(oracle.value) == pytest.approx(4.0)


def test_gradient_of_a_relu_at_inverse_temperature_zero_is_the_right_derivative():
    relu = ("pieces", ((0.0, math.inf, (0.0, 1.0)),))
    found = single_location.componentwise_gradient(
        relu, (1.0, 0.0, 0.0, 1.0, 0.0), 0.0, 0.7, 1.0, 4, 0.0
    )
    # R = gam^2 (1 - 2 lam E max(s + gam g, 0)) + O(lam^2), E max = s Phi(s/gam) + gam phi(s/gam)
    x = 1 / 0.7
    mean = 0.5 * math.erfc(-x / math.sqrt(2)) + 0.7 * math.exp(-x * x / 2) / math.sqrt(
        2 * math.pi
    )
    assert float(found[5].value) == pytest.approx(-2 * 0.49 * mean, rel=EXACT)


def test_normalised_references_agree():
    o = (0.5, 0.3, -0.2, 0.6, 0.1)
    exact = float(normalised_attention.pair_softmax(o, 0.7, 0.8, 2.0, 0.0).value)
    rule, error = normalised_attention.pair_grid("softmax", o, 0.7, 0.8, 2.0, 0.0)
    assert abs(rule - exact) <= error
    for kind in ("softmax", "softmax_one", "softplus"):
        rule, _ = normalised_attention.pair_grid(kind, o, 0.7, 0.8, 2.0, 0.3)
        drawn, spread = normalised_attention.sampled(kind, o, 0.7, 0.8, 2.0, 2, 0.3)
        assert abs(rule - drawn) < 5 * spread  # false alarm 6e-7 each, and the seed is fixed
    # T = (w_1 + w_2)/2
    pooled = normalised_attention.pair_softmax((0, 0, 0, 1, 0), 0.0, 1.0, 2.0, 0.0)
    assert float(pooled.value) == pytest.approx(0.5)


def test_bayes_references_agree():
    risk, wrong, relative = location_posterior.two_tokens(6, 0.8, 1.5, (0.3, 0.7))
    drawn = location_posterior.sampled_risks(6, 0.8, 1.5, np.array([0.3, 0.7]), 0.0)
    assert relative < 1e-9
    assert abs(risk - drawn[0]) < 5 * drawn[1]
    assert abs(wrong - drawn[2]) < 5 * drawn[3]
    near = location_posterior.two_tokens(6, math.sqrt(1 - 2e-3), 0.9, (0.5, 0.5))
    assert near[1] == pytest.approx(float(location_posterior.pair_error(0.9)), rel=1e-2)
    grouped = location_posterior.sampled_group_error(6, 0.8, 1.5, 2, 1)
    assert (
        abs(grouped[0] - location_posterior.two_tokens(6, 0.8, 1.5, (0.5, 0.5))[1])
        < 5 * grouped[1]
    )


def test_closed_values():
    assert float(location_posterior.pair_error(0.0)) == 0.5
    # z = l_J - l_1 ~ N(nu, 2 nu): for large nu the pair's error is sqrt(pi/nu) e^{-nu/4}/2 (1 +
    # O(1/nu))
    ratio = float(location_posterior.pair_error(30.0) / spiked.asymptotic(900.0, 2))
    assert ratio == pytest.approx(1, abs=5e-3)
    assert spiked.exponent(0.0) == 0.25
    assert spiked.exponent(0.25) == pytest.approx((math.sqrt(0.5) - 0.5) ** 2, abs=EXACT)
    assert float(
        single_location.linear_risk(0.7, 3.0, [0.25] * 4, 0.0).value
    ) == pytest.approx(0.49 * 3 / 3.49)
