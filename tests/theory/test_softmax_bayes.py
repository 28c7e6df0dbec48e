"""The softmax risk at its best inverse temperature is the Bayes risk: closed form, tower rule,
records.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.softmax_settings import ORACLE, softmax_excess
from helpers.tolerances import (
    INTEGRAL,
)

from attnscope.predictors.attention import Softmax
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.optimum import optimal_inverse_temperature
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk


def bayes_two_tokens(s):
    """log Bayes risk, gamma = 1, L = 2: e^{-s^2/4} int e^{-s^2 y^2}/(2 cosh(pi y))
    dy (Mellin-Barnes).
    """
    y = np.linspace(-1.0, 1.0, 4001) * min(13.0, 9.0 / s)
    f = np.exp(-((s * y) ** 2)) / (2 * np.cosh(np.pi * y))
    return -s * s / 4 + math.log(f.sum() * (y[1] - y[0]))


@pytest.mark.parametrize("dim", [2, 10, 50, 400, 10_000, 100_000])
def test_two_token_bayes_risk(dim):
    """gamma = 1 and inverse temperature = signal is the Bayes predictor;
    at d = 1e5 the risk is exp(-12 502).
    """
    s = math.sqrt(dim / 2)
    got = softmax_excess(*ORACLE, inverse_temperature=s, gamma=1.0, signal=s, length=2)
    want = bayes_two_tokens(s)
    assert abs(got.log_excess / want - 1) < 1e-12
    assert math.isfinite(got.log_excess) and got.excess == pytest.approx(
        math.exp(want), rel=INTEGRAL
    )


def bayes_many_tokens(s, length):
    """log Bayes risk at gamma = 1 by the tower rule, E[w_J^2 (1 - p_J)], dense grids:
    another integrand.
    """
    # R = (L-1) int dt phi_1(t)^2 phi_0(t)^(L-2), phi_h(t) = E exp(-t e^l), l ~ N(+-s^2/2, s^2)
    h = 0.25 / s if s > 0.5 else 0.3
    g = np.arange(-(s + 9.5), s + 9.5, h)
    w = -0.5 * g * g + math.log(h / math.sqrt(2 * math.pi))
    tau = np.arange(-s * s / 2 - 9 * s - 25, s * s / 2 + 9 * s + 25, 0.3)[:, None]
    e1 = np.exp(np.minimum(tau + s * s / 2 + s * g, 9.0))
    e0 = np.exp(np.minimum(tau - s * s / 2 + s * g, 9.0))
    top = np.max(w - e1, axis=1)
    log_phi1 = top + np.log(np.sum(np.exp(w - e1 - top[:, None]), axis=1))
    rest = np.sum(-np.expm1(-e0) * np.exp(w), axis=1)
    log_phi0 = np.where(
        rest < 0.5,
        np.log1p(-np.minimum(rest, 0.5)),
        np.log(np.sum(np.exp(w - e0), axis=1) + 1e-300),
    )
    terms = tau[:, 0] + 2 * log_phi1 + (length - 2) * log_phi0
    return (
        math.log((length - 1) * 0.3)
        + terms.max()
        + math.log(np.exp(terms - terms.max()).sum())
    )


@pytest.mark.parametrize("dim", [10, 50, 400])
@pytest.mark.parametrize("length", [2, 10, 1000])
def test_bayes_risk_by_the_tower_rule(dim, length):
    s = math.sqrt(dim / 2)
    got = softmax_excess(*ORACLE, inverse_temperature=s, gamma=1.0, signal=s, length=length)
    assert abs(got.log_excess / bayes_many_tokens(s, length) - 1) < 1e-10


@pytest.mark.parametrize(
    ("dim", "length", "log_risk"),
    [
        (10, 10, -1.022184769),
        (10, 10**6, -0.000146225),
        (50, 10, -5.972963224),
        (400, 10, -50.584763001),
        (400, 10**4, -43.571775841),
        (400, 10**6, -38.968040731),
        (10_000, 10, -1252.182647250),
        (10_000, 10**6, -1240.564362270),
    ],
)
def test_recorded_bayes_risks(dim, length, log_risk):
    """Values of an independent Mellin-Barnes computation, recorded to 1e-9."""
    s = math.sqrt(dim / 2)
    got = softmax_excess(*ORACLE, inverse_temperature=s, gamma=1.0, signal=s, length=length)
    assert abs(got.log_excess - log_risk) < 0.6e-9


@pytest.mark.parametrize(
    ("dim", "gamma"),
    [(400, 0.5**0.5), (10**4, 0.5**0.5), (10**4, 1.2), (10**6, 0.5**0.5), (10**7, 0.3)],
)
def test_best_inverse_temperature_of_a_strong_signal(dim, gamma):
    """2 s/(1 + gam^2), by the leading exponent (docs/softmax_risk.md);
    the correction is relative O(1/s^2).
    """
    task = SingleLocation(dim, 10, gamma)
    best, _ = optimal_inverse_temperature(task, Softmax)
    assert best / task.signal == pytest.approx(
        2 / (1 + gamma**2), rel=20 / task.signal**2 + 1e-5
    )


def test_no_inverse_temperature_is_left_out_in_high_dimension():
    """Steps of the crude rule that overflow a product of exponentials once made holes at these
    inverse temperatures.
    """
    task = SingleLocation(10**6, 10)
    logs = [
        risk(task, Softmax(t), Overlaps.oracle()).log_excess
        for t in np.geomspace(300, 942, 25)
    ]
    assert (np.diff(logs) < 0).all() and logs[0] - logs[-1] < 3
