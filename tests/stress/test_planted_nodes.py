"""Stress tests of risks and gradients on nodes, and its reference on values known without it."""

import numpy as np
import pytest
from helpers.families import family_tests
from scipy.integrate import quad

from stress.references import planted_definition as reference
from stress.subjects.planted_nodes import SUBJECTS

test_quick, test_long = family_tests("planted_nodes")
# every setting compiles for seconds: in `make test-all` only
_, test_long_gradients = family_tests("planted_nodes_gradients")

PLAIN = {
    "length": 1, "label": "square", "head": "softmax", "inverse_temperature": 1.0, "gamma": 1.0,
    "signal": 0.0, "shift": 0.0, "alignment": 0.0, "slope": 1.0,
}  # fmt: skip


def test_one_token_has_moments():
    """T = w: E(s (y^2 - 1) - w)^2 = 2 s^2 + 1, whatever the overlap of w and y."""
    found, error = reference.risk(PLAIN | {"slope": 0.7}, np.array([0.1, 0.2, 0.3, 0.4, 0.5]))
    assert found == pytest.approx(2 * 0.7**2 + 1, abs=1e-10) and error < 1e-9
    slope, _ = reference.gradient(PLAIN, np.array([0.1, 0.2, 0.3, 0.4, 0.5]))
    assert np.abs(slope).max() < 1e-8


def test_a_fair_coin_is_an_integral_in_one_dimension():
    """p = 1/2 and T ~ N(0, 1): E log(2 cosh(T/2))."""
    s = PLAIN | {"label": "chances", "slope": 0.0}
    density = lambda t: np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
    exact = quad(lambda t: np.log(2 * np.cosh(t / 2)) * density(t), -12, 12)[0]
    assert reference.risk(s, np.zeros(5))[0] == pytest.approx(exact, abs=1e-10)


def test_even_softmax_of_two_tokens():
    """Inverse temperature 0: T = (w_1 + w_2)/2, E(y^2 - 1 - T)^2 = 2 + 1/2."""
    found, _ = reference.risk(PLAIN | {"length": 2, "inverse_temperature": 0.0}, np.zeros(5))
    assert found == pytest.approx(2.5, abs=1e-10)


def test_a_risk_off_by_a_millionth_is_caught():
    from stress.judged import ratio

    subject = SUBJECTS[0]
    settings = (subject.draw(np.random.default_rng([7, i])) for i in range(100))
    setting = next(s for s in settings if s["length"] == 2)
    answer = subject.call(setting)
    truth = subject.truth(setting)
    assert ratio(answer, truth) <= 1
    assert ratio(answer._replace(value=answer.value + 1e-6), truth) > 1
