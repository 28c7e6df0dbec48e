"""critical_inverse_temperature against the plain Hessian in 120 digits:
where there is a saddle, where there is none, and its root.
"""

import math

import mpmath as mp
import numpy as np
import pytest

import attnscope as at
from attnscope.theory.optima.oracle_saddle import oracle_determinant


def plain_block(lam, gamma, signal, length):
    """The 2 x 2 Hessian in (eta, theta) as it is first written down,
    second derivatives one by one; mpmath numbers.
    """
    lam = mp.mpf(lam)
    g2 = mp.mpf(gamma) ** 2
    D = mp.mpf(signal)
    n = mp.mpf(length) - 1
    S = mp.sqrt(1 + 2 * lam**2 * g2)
    q = mp.sqrt(1 + 4 * lam**2 * g2)
    a = lam * D / S
    A = lam * g2 / S
    al = 1 / q
    e = mp.erf(a)
    e1 = 2 / mp.sqrt(mp.pi) * mp.exp(-a * a)
    b = mp.erf(a * al)
    P = mp.exp(-a * a * (1 + al * al))
    cuts = mp.linspace(al, 1, 3 + int(2 * a))
    V = 4 / mp.pi * mp.quad(lambda x: mp.exp(-a * a * (1 + x * x)) / (1 + x * x), cuts)
    C = 2 * lam / mp.sqrt(mp.pi * (1 + 2 * lam**2))
    spread = 2 / mp.sqrt(1 + 4 * lam**2) - 1
    W = 8 / mp.pi * P * al - 4 * a * b * e1 - e1**2
    m = A * e1 + n * C
    rho_rho = 2 * A**2 * W + 2 * n * C**2 * spread + 2 * m**2
    eta_rho = 4 * A**2 * a * e1
    eta_theta = -2 * A * D * e1
    theta_theta = 2 * D**2 * V + 2 * (D * e) ** 2
    theta_rho = 2 * A * D * e1 * (2 * b - e) + 2 * D * e * m
    R_kappa = 2 * g2 * e1 * (b - 1) * lam * D / S
    R_nu = -2 * g2 * e
    x = 2 * eta_rho + rho_rho - R_kappa
    y = theta_theta + 2 * theta_rho + rho_rho - R_nu
    z = eta_theta + eta_rho + theta_rho + rho_rho
    return x, y, z


def plain_determinant(lam, task):
    x, y, z = plain_block(lam, task.gamma, task.signal, task.length)
    return (x * y - z**2) / (abs(x * y) + z**2)


def test_length_one_has_no_saddle():
    """The row of the issue and 300 random settings;
    four of them in 120 digits at random inverse temperatures.
    """
    assert at.critical_inverse_temperature(at.SingleLocation(1000, 1)) == math.inf
    rng = np.random.default_rng(0)
    for i in range(300):
        gamma = 10.0 ** rng.uniform(-4, 4)
        signal = 10.0 ** rng.uniform(-3, 3)
        task = at.SingleLocation(50, 1, gamma=gamma, signal=signal)
        assert at.critical_inverse_temperature(task) == math.inf
        if i < 4:
            with mp.workdps(120):
                ratio = min(signal / gamma, 10.0)  # digits of exp(-a^2) must stay within 120
                same = at.SingleLocation(50, 1, gamma=gamma, signal=ratio * gamma)
                assert plain_determinant(10.0 ** rng.uniform(-2, 2) / gamma, same) > 0


def test_the_determinant_is_that_of_the_plain_hessian():
    """20 settings; x y - z^2 does not depend on the coordinates, its scale does."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        gamma = 10.0 ** rng.uniform(-2, 2)
        length = int(10 ** rng.uniform(0.31, 6))
        task = at.SingleLocation(
            50, length, gamma=gamma, signal=gamma * 10.0 ** rng.uniform(-2, 0.9)
        )
        lam = 3**0.5 / 2 * 10 ** rng.uniform(0, 3)
        with mp.workdps(40):
            x, y, z = plain_block(lam, task.gamma, task.signal, task.length)
            # the coordinates theta - eta and eta
            truth = (x * y - z**2) / (x * (y - 2 * z + x))
        ours = oracle_determinant(task, np.array(lam))
        assert abs(float(truth) - ours.value) <= ours.error
        assert ours.error < 1e-9


@pytest.mark.parametrize(
    ("dim", "length", "gamma"),
    [(400, 10, 0.5**0.5), (50, 10, 0.5**0.5), (30, 2, 1.0), (10**8, 3, 0.1), (900, 40, 2.0)],
)
def test_the_root_is_right_to_all_digits(dim, length, gamma):
    task = at.SingleLocation(dim, length, gamma=gamma)
    found = at.critical_inverse_temperature(task)
    # exp(-a^2) is beyond all digits; what is left of the Hessian without it
    if task.signal > 50:
        with mp.workdps(40):
            n = length - 1
            g2 = mp.mpf(task.gamma) ** 2
            D = mp.mpf(task.signal)
            # n D^2 = (n - 1 + r) (D^2 + gamma^2), solved for r
            r = mp.mpf(n) * D**2 / (D**2 + g2) - (n - 1)
            assert abs(mp.sqrt((2 / r) ** 2 - 1) / 2 / found - 1) < 1e-13
    else:
        with mp.workdps(40):
            assert plain_determinant(mp.mpf(found) * (1 - mp.mpf(10) ** -12), task) > 0
            assert plain_determinant(mp.mpf(found) * (1 + mp.mpf(10) ** -12), task) < 0


def test_extreme_settings_answer_without_warnings():
    rng = np.random.default_rng(2)
    for _ in range(300):
        length = int(rng.choice([1, 2, 3, 10**6, 10**12]))
        signal = float(rng.choice([0.0, 1e-8, 1e8, 10.0 ** rng.uniform(-8, 8)]))
        task = at.SingleLocation(50, length, gamma=10.0 ** rng.uniform(-4, 4), signal=signal)
        found = at.critical_inverse_temperature(task)
        assert found >= 3**0.5 / 2
        assert found == at.critical_inverse_temperature(task)
