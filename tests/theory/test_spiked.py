"""O(1) spikes: the Bayes risk by two routes and by printed digits, asymptotics,
and the constructor.
"""

import itertools
import math

import numpy as np
import pytest
from helpers.tolerances import FIVE_DIGITS, INTEGRAL, LONG_SUM, SEVEN_DIGITS, SOLVED
from scipy import integrate

import attnscope as at

STRENGTHS = (1.0, 2.0, 5.0, 10.0, 20.0)
TABLE = {  # beyond.md section 2; (100, 1) is .97390899, printed there as .973908
    2: (0.324943, 0.224800, 0.084397, 0.019231, 0.001206),
    3: (0.481126, 0.352423, 0.145244, 0.035528, 0.002348),
    10: (0.790332, 0.666521, 0.359808, 0.112132, 0.009184),
    100: (0.973909, 0.940743, 0.745326, 0.373055, 0.053898),
}


@pytest.mark.parametrize("length", TABLE)
def test_two_routes_and_the_published_digits(length):
    """Laplace transforms here, Mellin contours in SingleLocation.bayes_risk: relative 1e-11."""
    for nu, digits in zip(STRENGTHS, TABLE[length]):
        here = at.spiked_bayes_risk(nu, length)
        there = at.SingleLocation.spiked(10, length, nu).bayes_risk()
        assert here.log_excess == pytest.approx(there.log_excess, abs=LONG_SUM)
        assert round(here.value, 6) == digits
        assert here.error < 1e-10 * here.value


def test_two_tokens_in_closed_form():
    for nu in (0.5, 5.0, 60.0, 400.0):
        f = lambda z, nu=nu: math.exp(-z * z / (4 * nu)) / math.cosh(z / 2)
        exact = (
            -nu / 4
            - 0.5 * math.log(4 * math.pi * nu)
            + math.log(integrate.quad(f, 0, 80, epsabs=1e-14)[0])
        )
        assert at.spiked_bayes_risk(nu, 2).log_excess == pytest.approx(exact, abs=SOLVED)


def test_strong_spikes_and_long_sequences():
    """Both routes at e^-225 and at a million tokens."""
    for nu, length in ((900.0, 10), (30.0, 10**6), (100.0, 10**6)):
        there = at.SingleLocation.spiked(10, length, nu).bayes_risk()
        assert at.spiked_bayes_risk(nu, length).log_excess == pytest.approx(
            there.log_excess, abs=INTEGRAL
        )


@pytest.mark.parametrize(
    ("nu", "rate"),
    [
        (60.0, 0.4),
        (800.0, 0.4),
        *(
            pytest.param(*x, marks=pytest.mark.slow)
            for x in ((1200.0, 0.4), (1200.0, 0.5), (700.0, 0.9))
        ),
    ],
)
def test_as_many_tokens_as_the_spike_can_bear(nu, rate):
    """L = e^(rate nu), up to e^630, by adaptive quadrature in both integrals: there the
    background's largest ratios decide.
    """
    root = math.sqrt(nu)
    log_length = rate * nu
    density = lambda g: math.exp(-g * g / 2) / math.sqrt(2 * math.pi)

    def phi(tau):  # of the informative token, around where it turns from 1 to 0
        turn = (-tau - nu / 2) / root
        f = lambda g: density(g) * math.exp(-math.exp(min(tau + nu / 2 + root * g, 6.5)))
        return integrate.quad(
            f,
            -12,
            12,
            points=[min(max(turn, -11), 11)],
            epsabs=1e-15,
            epsrel=1e-11,
            limit=200,
        )[0]

    # (L - 2)(1 - phi_0) = - log phi_0^(L-2), since 1 - phi_0 is far below 1e-16
    def crowd(tau):
        turn = (-tau + nu / 2) / root
        one = lambda g: -math.expm1(-math.exp(min(tau - nu / 2 + root * g, 6.5)))
        f = lambda g: one(g) * math.exp(log_length - g * g / 2) / math.sqrt(2 * math.pi)
        around = sorted({min(turn, root) - 12, root, turn - 1, turn, turn + 1, turn + 12})
        return sum(
            integrate.quad(f, a, b, epsabs=1e-13, epsrel=1e-11, limit=200)[0]
            for a, b in itertools.pairwise(around)
        )

    def value(tau):  # (L - 1) t phi_1^2 phi_0^(L-2), dt = t d tau
        weight = crowd(tau)
        return math.exp(log_length + tau - weight) * phi(tau) ** 2 if weight < 700 else 0.0

    # the crowd of weight 1 lies at the largest of its ratios, nu (sqrt(2 rate) - 1/2), or at the
    # tilt
    top = -min(nu * (math.sqrt(2 * rate) - 0.5), log_length)
    exact = integrate.quad(value, top - 60, top + 60, points=[top], epsrel=1e-9, limit=200)[0]
    here = at.spiked_bayes_risk(nu, math.exp(log_length))
    assert (
        here.value == pytest.approx(exact, rel=SEVEN_DIGITS) and here.value <= 1 + here.error
    )


def test_fixed_length_asymptotics():
    """Ratios at nu = 80 as printed; the correction halves from 80 to 160 (O(1/nu))."""
    for L, ratio in ((2, 0.971), (3, 0.971), (10, 0.9705), (100, 0.963), (1000, 0.922)):
        at_80, at_160 = (
            at.spiked_bayes_risk(nu, L).value / at.spiked_asymptotic(nu, L)
            for nu in (80.0, 160.0)
        )
        assert round(at_80, len(str(ratio)) - 2) == ratio
        if L <= 100:
            assert (1 - at_160) / (1 - at_80) == pytest.approx(0.5, abs=0.1)


def test_exponent():
    """E is continuous with continuous slope at 1/8;
    finite differences over nu = 150..300 approach it from above.
    """
    assert at.spiked_exponent(0.0) == 0.25 and at.spiked_exponent(0.7) == 0.0
    h = 1e-6
    left, right = ((at.spiked_exponent(0.125 + d) - 0.125) / d for d in (-h, h))
    assert left == pytest.approx(right, abs=FIVE_DIGITS)
    for r in (0.05, 0.125, 0.3):
        low, high = (
            at.spiked_bayes_risk(nu, math.exp(r * nu)).log_excess for nu in (150.0, 300.0)
        )
        assert 0 < (low - high) / 150 - at.spiked_exponent(r) < 0.004


def test_constructor():
    task = at.SingleLocation.spiked(12, 5, 4.0, noise=0.3, seed=2)
    assert (task.gamma, task.signal, task.noise, task.seed) == (1.0, 2.0, 0.3, 2)
    softmax = at.risk(task, at.Softmax(2.0), at.Overlaps.oracle())
    assert softmax.value == pytest.approx(task.bayes_risk().value, rel=SOLVED)
    assert np.array_equal(
        task.sample(3).tokens,
        at.SingleLocation(12, 5, 1.0, 0.3, 2.0, seed=2).sample(3).tokens,
    )


BAD = {
    "strength": (
        lambda: at.SingleLocation.spiked(4, 3, -1.0),
        "strength of SingleLocation.spiked must be",
    ),
    "length": (
        lambda: at.spiked_bayes_risk(1.0, 1),
        "length of spiked_bayes_risk must be a number from 2",
    ),
    "length text": (
        lambda: at.spiked_asymptotic(1.0, "ten"),
        "length of spiked_asymptotic must be",
    ),
    "strong": (lambda: at.spiked_bayes_risk(1e5, 3), "strength of spiked_bayes_risk must be"),
    "rate": (lambda: at.spiked_exponent(-0.1), "rate of spiked_exponent must be"),
}


@pytest.mark.parametrize("name", BAD)
def test_one_sentence(name):
    call, words = BAD[name]
    with pytest.raises(at.AttnscopeError, match=words):
        call()
