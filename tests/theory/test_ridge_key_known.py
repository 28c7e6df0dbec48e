"""Ridge on the value with the key known, by other routes; bad input to all ridge fits.

False alarms: sampled comparisons have fixed seeds; each states its bound.
"""

import math

import numpy as np
import pytest
from helpers.tolerances import FIVE_DIGITS
from scipy.special import expit, ndtri, softmax
from stress.references import ridge_curves

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.theory.samples.learning_curve import learning_curve
from attnscope.theory.samples.ridge_fixed_key import Weights, fixed_key_fit

SOFTMAX = at.Softmax(1.0)
LINEAR = at.LinearAttention(1.0, offset=1.0)
KINDS = {"softmax": SOFTMAX, "linear": LINEAR}


def spiked(length=2, strength=5.0, D=0.1, dim=1000):
    return at.SingleLocation.spiked(dim, length, strength, D**0.5)


def test_the_printed_numbers_with_the_key_known():
    """As simulated with d = 600 and 10 seeds: 4 standard errors."""
    rows = [
        (2, 5.0, 3, 0.1, 0.1, 0.3241, 0.0057),
        (4, 2.0, 2, 0.1, 0.02, 0.3217, 0.0027),
        (0.7, 5.0, 5, 0.01, 0.1, 0.722, 0.013),
    ]
    for alpha, strength, L, D, ridge, risk, error in rows:
        task = spiked(L, strength, D)
        curve = learning_curve(task, float(alpha), SOFTMAX, ridge, key="oracle")
        assert abs(curve.risk.excess - risk) <= 4 * error
        assert curve.stability is None


def test_two_tokens_by_another_rule_and_by_iteration():
    """200,001 equally likely scores, and the equations iterated (the reference of the stress tests)."""
    strength, D, alpha, ridge = 2.0, 0.1, 4.0, 0.02
    curve = learning_curve(spiked(2, strength, D), alpha, SOFTMAX, ridge, key="oracle")
    g = ndtri((np.arange(200_001) + 0.5) / 200_001)
    s1 = expit(strength + math.sqrt(2 * strength) * g)
    sig = np.stack([s1, 1 - s1], axis=1)
    risk, overlap = ridge_curves.fixed_key(sig, alpha, ridge, D)
    assert curve.risk.excess == pytest.approx(risk, abs=FIVE_DIGITS)
    assert curve.value_overlap == pytest.approx(overlap, abs=FIVE_DIGITS)


@pytest.mark.parametrize(("kind", "length"), [("softmax", 4), ("softmax", 7), ("linear", 4)])
def test_the_key_known_by_monte_carlo(kind, length):
    """The averages of 400,000 bags instead: 5 errors of eight groups of them, t-distributed with
    7 degrees of freedom (2e-3 each); the rule's own error beside.
    """
    task = spiked(length, 3.0)
    key = (1.2, 2.0)
    curve = learning_curve(task, 1.5, KINDS[kind], 0.2, key=key)
    rng = np.random.default_rng(5)
    risks = []
    for _ in range(8):
        u = math.sqrt(key[1]) * rng.standard_normal((50_000, length))
        u[:, 0] += math.sqrt(3.0) * key[0]
        sig = softmax(u, axis=1) if kind == "softmax" else 1 + u
        s2 = np.sum(sig**2, axis=1)
        even = np.full(len(u), 1 / len(u))
        risks.append(fixed_key_fit(Weights(sig[:, 0], s2, even), 1.5, 0.2, 0.1).risk)
    error = np.std(risks, ddof=1) / math.sqrt(8)
    assert abs(np.mean(risks) - curve.risk.excess) <= 5 * error + 4 * curve.risk.error


def test_the_key_known_and_no_noise():
    """From alpha = 1 on ridge regression with every location known would be exact as l -> 0."""
    task = spiked(2, 100.0, 0.0)
    risk = learning_curve(task, 2.0, SOFTMAX, 1e-3, key="oracle").risk
    assert 0 <= risk.excess < FIVE_DIGITS


# -- bad input -------------------------------------------------------------------------------------

BAD = {
    "noise": (
        lambda: learning_curve(spiked(D=0.0), 2.0, SOFTMAX, 0.5),
        "noise of learning_curve must be such that",
    ),
    "ridge 0": (
        lambda: learning_curve(spiked(), 2.0, LINEAR, 0.0),
        "ridge of learning_curve must be a finite number >= 0.001",
    ),
    "ridge none": (
        lambda: learning_curve(spiked(), 2.0, LINEAR),
        "ridge of learning_curve must be a number > 0 or a pair",
    ),
    "ridge three": (
        lambda: learning_curve(spiked(), 2.0, LINEAR, (0.1, 0.2, 0.3)),
        "ridge of learning_curve must be one number or a pair",
    ),
    "peak": (
        lambda: learning_curve(spiked(), 2.0, LINEAR, 0.05),
        "stability of learning_curve must be below 0.9",
    ),
    "one token": (
        lambda: learning_curve(spiked(1), 2.0, SOFTMAX, 0.5),
        "length of learning_curve must be at least 2",
    ),
    "no spike": (
        lambda: learning_curve(spiked(strength=0.0), 2.0, SOFTMAX, 0.5),
        "strength of learning_curve must be > 0",
    ),
    "long spike": (
        lambda: learning_curve(
            at.SingleLocation(1000, 2, gamma=1.0, noise=0.3), 2.0, SOFTMAX, 1
        ),
        "strength of learning_curve must be > 0 and at most 100, got 500: the location is known",
    ),
    "gamma": (
        lambda: learning_curve(at.SingleLocation(50, 2, noise=0.3), 2.0, SOFTMAX, 0.5),
        "task of learning_curve must be one with gamma = 1",
    ),
    "erf": (
        lambda: learning_curve(spiked(), 2.0, at.Erf(1.0), 0.5),
        "predictor of learning_curve must be a Softmax or LinearAttention",
    ),
    "class": (
        lambda: learning_curve(spiked(), 2.0, at.Softmax, 0.5),
        "predictor of learning_curve must be a Softmax or LinearAttention, got 'Softmax'",
    ),
    "offset": (
        lambda: learning_curve(spiked(), 2.0, at.LinearAttention(1.0), 0.5),
        "predictor of learning_curve must be linear attention with inverse temperature > 0 and an offset",
    ),
    "cold": (
        lambda: learning_curve(spiked(), 2.0, at.Softmax(0.0), 0.5),
        "inverse_temperature of learning_curve must be > 0",
    ),
    "alpha": (
        lambda: learning_curve(spiked(), 0.0, SOFTMAX, 0.5),
        "alpha of learning_curve must be",
    ),
    "alpha large": (
        lambda: learning_curve(spiked(), 1e5, SOFTMAX, 0.5),
        "alpha of learning_curve must be from 0.02 to 100",
    ),
    "long bags": (
        lambda: learning_curve(spiked(11), 2.0, SOFTMAX, 0.5),
        "length of learning_curve must be at most 10",
    ),
    "unstable": (
        lambda: learning_curve(spiked(), 2.0, SOFTMAX, 0.5, unstable="maybe"),
        "unstable of learning_curve must be 'refuse' or 'return'",
    ),
    "key": (
        lambda: learning_curve(spiked(), 2.0, SOFTMAX, 0.5, key="best"),
        "key of learning_curve must be 'oracle', 'mean' or a pair",
    ),
    "key pair": (
        lambda: learning_curve(spiked(), 2.0, SOFTMAX, 0.5, key=(2.0, 1.0)),
        r"key of learning_curve must be a pair with \(k.k\*\)\^2 <= \|k\|\^2",
    ),
    "best alpha": (
        lambda: at.best_ridge(spiked(), -1.0, SOFTMAX),
        "alpha of best_ridge must be a finite number",
    ),
    "best predictor": (
        lambda: at.best_ridge(spiked(), 1.0, None),
        "predictor of best_ridge must be a Softmax or LinearAttention",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence(name):
    call, sentence = BAD[name]
    with pytest.raises(AttnscopeError, match=sentence):
        call()
