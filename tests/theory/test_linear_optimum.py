"""The best linear attention: closed form against minimisation over free vectors, sampling,
and printed numbers.
"""

import numpy as np
import pytest
from helpers.settings import unit
from helpers.tolerances import EXACT, FORMULA, LAST_DIGIT, SOLVED
from scipy.optimize import minimize

import attnscope as at
from attnscope.theory.optima.linear_optimum import free_linear_excess

ORACLE = at.Overlaps.oracle()
SETTINGS = [
    (0.7, 2.0, 6),
    (1.0, 2.0, 6),
    (1.3, 1.0, 3),
    (0.7, 5.0, 2),
    (1.0, 0.0, 4),
    (0.5, 7.0, 40),
]


def test_free_risk_equals_monte_carlo():
    """4 random (k, v, offset) of any length, 60,000 sequences, |z| < 4.5: false alarm 3e-5."""
    rng = np.random.default_rng(1)
    task = at.SingleLocation(5, 4, gamma=0.8, signal=1.5)
    x, y, _ = task.sample(60_000, seed=2)
    for _ in range(4):
        k = rng.normal(0, 0.5, 5)
        v = rng.normal(0, 0.5, 5)
        c = rng.normal()
        loss = (y - np.sum((c + x @ k) * (x @ v), axis=1)) ** 2
        assert (
            abs(loss.mean() - free_linear_excess(task, k, v, c))
            < 4.5 * loss.std() / 60_000**0.5
        )


def test_free_risk_extends_the_unit_risk():
    rng = np.random.default_rng(3)
    task = at.SingleLocation(5, 4, gamma=0.8, signal=1.5)
    for _ in range(5):
        k = unit(rng, 5)
        v = unit(rng, 5)
        lam = rng.uniform(0, 1)
        c = rng.normal()
        here = free_linear_excess(task, lam * k, v, c)
        assert here == pytest.approx(
            at.risk(task, at.LinearAttention(lam, c), at.Overlaps.of(task, k, v)).value,
            rel=EXACT,
        )


@pytest.mark.parametrize(("gamma", "signal", "length"), SETTINGS)
def test_no_vectors_do_better(gamma, signal, length):
    """8 BFGS starts over all k, v in R^4 and all offsets (9 numbers):
    the least found is R* to 1e-10, never below.
    """
    task = at.SingleLocation(4, length, gamma=gamma, signal=signal)
    best = at.linear_optimum(task)
    rng = np.random.default_rng(0)
    f = lambda p: free_linear_excess(task, p[:4], p[4:8], p[8])
    found = [
        minimize(f, rng.normal(0, 0.4, 9), method="BFGS", options={"gtol": 1e-8}).fun
        for _ in range(8)
    ]
    assert min(found) == pytest.approx(best.risk.excess, abs=SOLVED)
    attained = at.risk(
        task, at.LinearAttention(best.inverse_temperature, best.offset), ORACLE
    )
    assert attained.value == pytest.approx(best.risk.value, rel=FORMULA)


def test_spiked_constants():
    """gamma = 1: 1/R* = L/(L-1) + nu/L; nu R* -> L:
    2, 3, 10, 99.9999 at nu = 1e8, and .1636 at L = 10, nu = 50, not .0222.
    """
    for L, constant in ((2, 2.0), (3, 3.0), (10, 10.0), (100, 99.9999)):
        risk = at.linear_optimum(at.SingleLocation.spiked(4, L, 1e8)).risk.value
        assert round(1e8 * risk, 4) == constant
        assert 1 / risk == pytest.approx(L / (L - 1) + 1e8 / L, rel=EXACT)
    assert (
        round(at.linear_optimum(at.SingleLocation.spiked(4, 10, 50.0)).risk.value, 4)
        == 0.1636
    )


def test_normalised_linear_attention():
    """(L-1)/(L+nu) at gamma = 1, below R*; 40,000 sequences at three gammas, |z| < 4.5 (2e-5)."""
    for L, nu in ((2, 3.0), (10, 50.0), (7, 0.0)):
        task = at.SingleLocation.spiked(4, L, nu)
        best = at.normalised_linear_optimum(task)
        assert best.risk.value == pytest.approx((L - 1) / (L + nu), rel=FORMULA)
        assert best.slope == pytest.approx(nu**0.5 / (L + nu), rel=FORMULA)
        assert best.risk.value <= at.linear_optimum(task).risk.value * (1 + 1e-14)
    for gamma in (0.7, 1.0, 1.3):
        task = at.SingleLocation(4, 6, gamma=gamma, signal=2.0)
        best = at.normalised_linear_optimum(task)
        x, y, _ = task.sample(40_000, seed=4)
        u = x @ task.key
        losses = [
            (
                y
                - np.sum(
                    (1 / 6 + a * (u - u.mean(1, keepdims=True))) * (x @ task.value), axis=1
                )
            )
            ** 2
            for a in (best.slope, 1.3 * best.slope, 0.7 * best.slope)
        ]
        assert abs(losses[0].mean() - best.risk.value) < 4.5 * losses[0].std() / 200
        assert losses[0].mean() < min(losses[1].mean(), losses[2].mean())


def test_one_token():
    task = at.SingleLocation(4, 1)
    assert at.linear_optimum(task).risk.excess == 0.0
    assert at.normalised_linear_optimum(task).risk.excess == pytest.approx(
        0.0, abs=LAST_DIGIT
    )


@pytest.mark.parametrize("function", [at.linear_optimum, at.normalised_linear_optimum])
def test_one_sentence(function):
    oblique = at.SingleLocation(2, 3, key=[1.0, 0.0], value=[0.6, 0.8])
    for task in (oblique, "task"):
        with pytest.raises(
            at.AttnscopeError,
            match="must be a SingleLocation with key perpendicular to value",
        ):
            function(task)
