"""The gradient of the softmax risk against differences, where it is tiny, and in its JAX twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.softmax_settings import (
    ORACLE,
    random_setting,
    softmax_excess,
    softmax_excess_gradient,
    softmax_excess_with_gradient,
)
from helpers.tolerances import (
    FORMULA,
    SEVEN_DIGITS,
    SOLVED,
)

from attnscope.numerics.border.x64 import x64
from attnscope.theory.law import Law
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risks import softmax_risk


def central_differences(o, settings, h=2e-3):
    """Two central differences combined (Richardson):
    error O(h^4), as a function of the six variables.
    """
    x = np.array([*o, settings["inverse_temperature"]])
    fixed = {k: v for k, v in settings.items() if k != "inverse_temperature"}

    def value(x):
        return softmax_excess(*x[:5], inverse_temperature=x[5], **fixed).excess

    def difference(i, h):
        e = h * np.eye(6)[i]
        return (value(x + e) - value(x - e)) / (2 * h)

    return np.array(
        [
            (64 * difference(i, h / 4) - 20 * difference(i, h / 2) + difference(i, h)) / 45
            for i in range(6)
        ]
    )


def test_gradient_against_differences():
    rng = np.random.default_rng(7)
    for _ in range(15):
        o, settings = random_setting(rng)
        # keeps the differences inside the cube; feasibility is kept by shrinking
        o = tuple(0.9 * x for x in o)
        got = softmax_excess_gradient(*o, **settings)
        want = central_differences(o, settings)
        assert np.max(np.abs(got - want)) < 1e-7 * np.max(np.abs(want))


@pytest.mark.parametrize("inverse_temperature", [2.0, 5.0, 14.0, 30.0])
def test_relative_accuracy_of_tiny_derivatives(inverse_temperature):
    """At the oracle, d = 400: d log R/d inverse temperature by differences of log_excess;
    R is down to 1e-27.
    """
    settings = {"gamma": 0.5**0.5, "signal": math.sqrt(200.0), "length": 10}

    def log_risk(t):
        return softmax_excess(*ORACLE, inverse_temperature=t, **settings).log_excess

    risk, gradient = softmax_excess_with_gradient(
        *ORACLE, inverse_temperature=inverse_temperature, **settings
    )
    h = 1e-2
    d1, d2 = (
        (log_risk(inverse_temperature + x) - log_risk(inverse_temperature - x)) / (2 * x)
        for x in (h, h / 2)
    )
    assert gradient[5] / risk.excess == pytest.approx((4 * d2 - d1) / 3, rel=SEVEN_DIGITS)
    assert risk.log_excess == pytest.approx(log_risk(inverse_temperature), rel=FORMULA)


@pytest.mark.parametrize(
    "lengths",
    [(10, 100), *(pytest.param(x, marks=pytest.mark.slow) for x in ((1, 2, 3), (10**6,)))],
)
def test_jax_twin_value_and_gradient(lengths):
    """The twin shares only the formula: fixed dense grid, automatic derivative.
    1e-9 in its stated range.
    """
    import jax

    rng = np.random.default_rng(11)
    with x64():
        for edge in (False, True):
            o, kw = random_setting(rng, lengths=lengths)
            lam = kw.pop("inverse_temperature")
            lam = 256 / 45 / max(1.0, kw["gamma"]) if edge else lam / max(1.0, kw["gamma"])
            law = Law(**kw)
            value, grads = jax.value_and_grad(
                lambda x, t, law=law: softmax_risk.softmax_excess_jax(x, t, law), (0, 1)
            )(np.array(o), lam)
            risk, gradient = softmax_excess_with_gradient(*o, inverse_temperature=lam, **kw)
            size = kw["gamma"] ** 2 + (kw["signal"] * kw["alignment"]) ** 2 + 1
            assert abs(float(value) - risk.excess) < 1e-9 * size
            twin = np.append(np.asarray(grads[0]), grads[1])
            assert np.max(np.abs(twin - gradient)) < 1e-9 * (1 + np.max(np.abs(gradient)))


def test_jax_twin_traces():
    import jax

    with x64():
        law = Law(0.7, 3.0, 5)
        f = jax.jit(
            jax.vmap(lambda o, t: softmax_risk.softmax_excess_jax(o, t, law), (0, None))
        )
        overlaps = np.array([ORACLE, (0.5, 0.1, 0.2, 0.3, -0.1)])
        got = np.asarray(f(overlaps, 1.5))
    want = [
        softmax_excess(*o, inverse_temperature=1.5, gamma=0.7, signal=3.0, length=5).excess
        for o in overlaps
    ]
    np.testing.assert_allclose(got, want, rtol=SOLVED)


@pytest.mark.slow  # its promised range is in the test of the twin above
def test_how_far_the_fixed_grid_of_the_jax_twin_reaches():
    """Seed 702 of the stress tests asked for inverse temperature gamma = 18.8: off by 2.2e-9 there,
    where four times the nodes agree with the exact risk; at the promised 5.6 it is right.
    """
    angles = (0.2383250325037404, -0.2383250325037404, -0.49234635226521284)
    o = Overlaps(*angles, 0.49234635226521284, -0.3520865916198957)
    law = Law(6.294129406434628, 0.2289192631042588, 109, -1.0)

    def off(lam, **nodes):
        exact = softmax_risk.softmax_excess(tuple(o), lam, law)
        with x64():
            found = float(softmax_risk.softmax_excess_jax(o, lam, law, **nodes))
        return abs(found - exact[0]) / (law.gamma**2 + law.signal**2)

    assert off(5.6 / law.gamma) < 1e-9
    assert off(2.9827361073890852, score_nodes=1024) < 1e-9 < off(2.9827361073890852)
