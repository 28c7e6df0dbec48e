"""The regret of deciding by attention: rational closed form, printed digits, limits."""

from fractions import Fraction

import numpy as np
import pytest
from helpers.tolerances import EXACT

import attnscope as at


def order_statistic(n, b, u):
    """Exact in rational numbers."""
    tau = Fraction(b, b + u)
    j = -((-tau.numerator * n) // tau.denominator)
    variance = Fraction(j * (n + 1 - j), (n + 1) ** 2 * (n + 2))
    return Fraction(b + u, 2) * (variance + (Fraction(j, n + 1) - tau) ** 2)


@pytest.mark.parametrize("b", [1, 3, 9])
def test_one_class_is_an_order_statistic(b):
    for n in (1, 2, 5, 10, 19, 40, 101, 200):
        found = at.decision_regret(n, float(b), 1.0)
        truth = float(order_statistic(n, b, 1))
        assert abs(found.value[0] - truth) <= found.error[0] < EXACT


def test_printed_digits():
    numbers = [at.decision_regret(n, 9.0, 1.0).value[0] for n in (5, 19, 40)]
    np.testing.assert_allclose(numbers, [0.121429, 0.021429, 0.015157], atol=5.01e-7)
    three = at.decision_regret(30, 9.0, 1.0, (0.0, 0.7, 1.6), 3.0).value
    np.testing.assert_allclose(three, [0.11652, 0.04526, 0.07797], atol=5.01e-6)


def test_classes_that_are_the_same_are_one_class():
    one = at.decision_regret(12, 3.0, 1.0).value[0]
    same = at.decision_regret(12, 3.0, 1.0, (0.4, 0.4), 0.0, (0.3, 0.7)).value
    np.testing.assert_allclose(same, one, rtol=EXACT)


def test_a_class_that_is_certain_is_alone():
    two = at.decision_regret(8, 3.0, 1.0, (0.0, 5.0), 2.0, (1.0, 0.0)).value
    assert two[0] == pytest.approx(at.decision_regret(8, 3.0, 1.0).value[0], rel=EXACT)
    # a query of the class that never occurs: only wrong tokens, 5 below
    assert two[1] == pytest.approx(_cost_of_wrong_tokens(), rel=EXACT)


def _cost_of_wrong_tokens():
    """a^ = U_(6) of 8 uniform numbers, mean 6/9, for a demand of 5 + U(0, 1) at 3 a unit short:
    3 (5.5 - 2/3) less the best 3/8.
    """
    return 3 * (5.5 - 6 / 9) - 3 / 8
