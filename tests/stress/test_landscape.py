"""Stress tests of the landscape, on attention itself and on blocks;
its references against known values.
"""

import math

import numpy as np
import pytest
from helpers.families import family_tests
from helpers.tolerances import EXACT, FEW_ROUNDINGS, SOLVED, THREE_DIGITS

import attnscope as at
from stress.references import attention, fisher, landscape, optimal_activation

test_quick, test_long = family_tests(
    "landscape", "landscape_optima", "attention", "attention_layer_norm", "attention_samples"
)


def test_curvature_of_a_constant_activation():
    # sigma = 1: T = sum w_l, R = gam^2 + s^2 the^2 + gam^2 - 2 gam^2 nu + L - 1: Hessian 2 gam^2
    # across v*, 2 s^2 more along k*, none for k
    one = ("pieces", ((-math.inf, math.inf, (1.0,)),))
    norm, values = landscape.curvature(one, (0.3, 0.1, 0.0, 1.0, 0.1), 1.0, 0.7, 2.0, 5, 10)
    assert norm < 1e-14
    assert np.allclose(values, [0, 0, 0, 0, 0.98, 0.98, 0.98, 8.98], atol=EXACT)


def test_oracle_and_saddle_blocks_are_parts_of_the_curvature():
    task = 0.1, 0.5**0.5, 5.0, 10
    a, b, c = (float(x) for x in landscape.oracle_block(("erf",), *task))
    _, values = landscape.curvature(("erf",), (1, 0, 0, 1, 0), *task, 2)
    assert np.allclose(np.linalg.eigvalsh([[a, b], [b, c]]), values, rtol=SOLVED)
    block = np.linalg.eigvalsh(landscape.saddle_block(("erf",), *task))
    _, values = landscape.curvature(("erf",), (0, 0, 0, 0, 0), *task, 4)
    assert all(np.abs(values - x).min() < 1e-9 for x in block)


def test_least_risk_of_an_activation():
    assert float(optimal_activation.least_risk(0.7, 3.0, 1)) == 0
    # no signal, gam = 1: sigma* = 1/L everywhere, R* = 1 - 1/L
    assert float(optimal_activation.least_risk(1.0, 0.0, 5)) == pytest.approx(
        0.8, rel=FEW_ROUNDINGS
    )
    u, h = np.linspace(-40, 40, 400_001, retstep=True)
    A = 0.49 * np.exp(-(((u - 3) / 0.7) ** 2) / 2) / 0.7
    B = 9 * np.exp(-u * u / 2)
    rough = np.sum(A * B / (A + B + 1e-300)) * h / math.sqrt(2 * math.pi)
    assert float(optimal_activation.least_risk(0.7, 3.0, 10)) == pytest.approx(
        rough, rel=SOLVED
    )


def test_weights_by_hand():
    x = np.array([[0.0], [1.0], [5.0]])
    real = np.array([True, True, False])
    found = [
        float(a) for a in attention.weights("softmax", 0.0, np.ones(1), x, math.log(3), real)
    ]
    assert found == pytest.approx([0.25, 0.75, 0.0])
    found = [
        float(a)
        for a in attention.weights("softmax_one", 0.0, np.ones(1), x, math.log(3), real)
    ]
    assert found == pytest.approx([0.2, 0.6, 0.0])
    found = [
        float(a) for a in attention.weights("softplus", 0.0, np.ones(1), x, math.log(3), real)
    ]
    assert found == pytest.approx([1 / 3, 2 / 3, 0.0])


def test_limits_of_blocks_and_steps():
    key = np.eye(6)[0]
    flat, error = attention.block_weight(key, 0.7, 2.0, 4, np.zeros(6), 1.0, 0.0, 0.0, True)
    assert flat == pytest.approx(0.2)
    assert error < 1e-12
    # a value along e is lost altogether
    value, _ = attention.floor(key, np.full(6, 6**-0.5), 0.7, 0.0)
    assert value == pytest.approx(0.49)
    c1, c2 = attention.alignment(10, 1, 5.0, 1.0)
    assert (float(c1), float(c2)) == pytest.approx((0.62, 0.886), abs=THREE_DIGITS)


def test_cramer_rao_with_the_location_known():
    key, value = np.eye(3)[:2]
    found, error = fisher.limit(key, value, 0.7, 2.0, 0.3, np.array([1.0]), True, False)
    # e (d + 1): least squares with an intercept
    assert abs(found - 0.09 * 4) < 5 * error + 1e-4


def test_rounding_of_overlaps_excuses_rounding_alone():
    """At a stationary point of steep linear attention one digit makes the gradient;
    a point 1e-9 off has one of its own.
    """
    task = at.SingleLocation(16356, 1, 2.8440735627481755, 0.0, 0.17659235547704547)
    lam = 58.277477967274315
    line = ("pieces", ((-np.inf, np.inf, (0.5, 1.0)),))
    points = {p.name: p for p in at.stationary_points(task, at.LinearAttention(lam, 0.5))}
    o = np.array(points["swapped"].overlaps)
    numbers = (lam, task.gamma, task.signal, task.length, task.dim)
    norm = landscape.curvature(line, tuple(o), *numbers)[0]
    assert norm <= landscape.rounded_curvature(line, tuple(o), *numbers)[0]
    turned = 1e-9
    k = np.array([o[0] + turned * o[1], o[1] - turned * o[0]])
    away = (*(k / np.linalg.norm(k)), *o[2:])
    norm = landscape.curvature(line, away, *numbers)[0]
    assert norm > 3 * landscape.rounded_curvature(line, away, *numbers)[0]
