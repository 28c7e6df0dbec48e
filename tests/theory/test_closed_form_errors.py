"""The closed forms of linear attention and erf against 50 digits at the corners where their terms
cancel: the error holds, nothing is negative.
"""

import math

import mpmath as mp
import numpy as np
import pytest
from helpers.settings import unit
from helpers.tolerances import INTEGRAL

import attnscope as at
from attnscope.theory.overlaps import checked_overlaps, gram

CORNERS = (0.0, 1e-8, 1e8)


def linear_reference(o, lam, offset, task):
    kap, eta, the, nu, rho = (mp.mpf(float(x)) for x in o)
    lam, g2, s, n = (
        mp.mpf(lam),
        mp.mpf(task.gamma) ** 2,
        mp.mpf(task.signal),
        mp.mpf(task.length) - 1,
    )
    al = mp.mpf(offset) + lam * s * kap
    be = s * the
    norm = (
        1
        + al**2
        - 2 * al * nu
        + (lam * be) ** 2
        - 2 * lam * be * eta
        + 2 * al * lam * be * rho
    )
    M = al * be + lam * rho * (g2 + n) - s * mp.mpf(task.alignment)
    spread = lam**2 * (1 + rho**2)
    return g2 * norm + g2**2 * spread + n * (mp.mpf(offset) ** 2 + spread) + M**2


def erf_reference(o, lam, task):
    """R as second moment minus twice the cross moment plus gamma^2:
    none of the regrouping that is tested.
    """
    kap, eta, the, nu, rho = (mp.mpf(float(x)) for x in o)
    lam, g2, D, n = (
        mp.mpf(lam),
        mp.mpf(task.gamma) ** 2,
        mp.mpf(task.signal),
        mp.mpf(task.length) - 1,
    )
    S = mp.sqrt(1 + 2 * lam**2 * g2)
    q = mp.sqrt(1 + 4 * lam**2 * g2)
    a = lam * D * kap / S
    A = lam * g2 / S
    al = 1 / q
    e = mp.erf(a)
    e1 = 2 / mp.sqrt(mp.pi) * mp.exp(-a * a)
    b = mp.erf(a * al)
    cuts = mp.linspace(al, 1, 3 + int(4 * min(abs(a), 40)))
    V = (
        4 / mp.pi * mp.quad(lambda x: mp.exp(-a * a * (1 + x * x)) / (1 + x * x), cuts)
        if lam
        else mp.mpf(0)
    )
    C = 2 * lam / mp.sqrt(mp.pi * (1 + 2 * lam**2))
    zeta0 = 2 / mp.pi * mp.asin(2 * lam**2 / (1 + 2 * lam**2))
    M = D * the * e + A * rho * e1 + n * C * rho - D * mp.mpf(task.alignment)
    W = 8 / mp.pi * mp.exp(-a * a * (1 + al * al)) * al - 4 * a * b * e1 - e1**2
    R = g2 * (1 + e**2 + V - 2 * e * nu) + (D * the) ** 2 * V - 2 * A * D * eta * the * e1
    R += (
        4 * A**2 * eta * rho * a * e1
        + 2 * A * D * the * rho * e1 * (2 * b - e)
        + (A * rho) ** 2 * W
    )
    return R + n * (zeta0 + (rho * C) ** 2 * (2 / mp.sqrt(1 + 4 * lam**2) - 1)) + M**2


def corner(rng):
    """A task, overlaps next to or at special ones, and an inverse temperature;
    half of them with one token.
    """
    length = int(rng.choice([1, 1, 2, int(10 ** rng.uniform(0, 12))]))
    gamma = 10.0 ** rng.uniform(-4, 4)
    signal = float(
        rng.choice(
            [*CORNERS, 10.0 ** rng.uniform(-8, 8), gamma * 10.0 ** rng.uniform(-1, 1.5)]
        )
    )
    lam = float(
        rng.choice(
            [
                0.0,
                1e6,
                10.0 ** rng.uniform(-6, 6),
                10.0 ** rng.uniform(-1, 1) / max(signal, 1e-6),
            ]
        )
    )
    c = float(rng.choice([0.0, 0.0, rng.uniform(-1, 1)]))
    value = c * np.eye(6)[0] + math.sqrt(1 - c * c) * np.eye(6)[1]
    task = at.SingleLocation(
        6, length, gamma=gamma, signal=signal, key=np.eye(6)[0], value=value
    )
    near = lambda x: x if rng.integers(2) else unit_near(rng, x)
    frame = [task.key, task.value, -task.key, -task.value]
    k = near(frame[rng.integers(4)])
    v = k if rng.integers(4) == 0 else near(frame[rng.integers(4)])
    return task, at.Overlaps.of(task, k, v), min(lam, 1e6)


def unit_near(rng, x):
    y = x + 10.0 ** rng.uniform(-12, 0) * unit(rng, len(x))
    return y / np.linalg.norm(y)


def test_linear_attention_where_terms_cancel():
    rng = np.random.default_rng(13)
    for _ in range(800):
        task, o, lam = corner(rng)
        near_one = 1 + float(rng.choice([-1, 1])) * 10.0 ** rng.uniform(-16, 0)
        offset = float(
            rng.choice([0.0, 1.0, -1.0, near_one, 1 - lam * task.signal * o.kappa])
        )
        found = at.risk(task, at.LinearAttention(lam, offset), o)
        with mp.workdps(50):
            truth = linear_reference(checked_overlaps(o, task, "test"), lam, offset, task)
            assert abs(truth - found.excess) <= found.error, (task, o, lam, offset)
        assert found.excess >= 0 and found.error >= 0


def test_linear_attention_row_of_the_issue():
    """One token, signal 5.1, offset .99999, a small inverse temperature: the old error, 1e-14 of
    the result, was too small by a factor of hundreds.
    """
    task = at.SingleLocation(10, 1, signal=5.1)
    found = at.risk(task, at.LinearAttention(1e-6, 0.99999), at.Overlaps.oracle())
    with mp.workdps(50):
        truth = linear_reference(at.Overlaps.oracle(), 1e-6, 0.99999, task)
        assert (
            1e-14 * found.excess
            < abs(truth - found.excess)
            <= found.error
            < 1e-3 * found.excess
        )


def test_erf_where_terms_cancel():
    rng = np.random.default_rng(14)
    for _ in range(60):
        task, o, lam = corner(rng)
        found = at.risk(task, at.Erf(lam), o)
        with mp.workdps(40):
            truth = erf_reference(checked_overlaps(o, task, "test"), lam, task)
            assert abs(truth - found.excess) <= found.error, (task, o, lam)
        assert found.excess >= 0 and found.error >= 0


def test_erf_oracle_of_one_token_down_to_underflow():
    """gamma^2 (erfc(a)^2 + V) alone: every digit is that of an exponential."""
    for ratio in (2.0, 9.0, 14.0, 30.0):
        for steep in (0.7, 1e3):
            task = at.SingleLocation(6, 1, gamma=0.3, signal=0.3 * ratio)
            lam = steep / 0.3
            found = at.risk(task, at.Erf(lam), at.Overlaps.oracle())
            with mp.workdps(30):
                x = mp.mpf(lam) * mp.mpf(task.gamma)
                a, al = (
                    mp.mpf(lam) * mp.mpf(task.signal) / mp.sqrt(1 + 2 * x**2),
                    1 / mp.sqrt(1 + 4 * x**2),
                )
                # mp.quad has an absolute tolerance: the size of the integrand comes afterwards
                fall = lambda y, a=a, al=al: mp.exp(-a * a * (y * y - al * al)) / (1 + y * y)
                size = mp.exp(-a * a * (1 + al * al))
                V = size * 4 / mp.pi * mp.quad(fall, mp.linspace(al, 1, 4 + int(2 * a)))
                truth = mp.mpf(task.gamma) ** 2 * (mp.erfc(a) ** 2 + V)
                assert abs(truth - found.excess) <= found.error
            assert found.error <= 1e-10 * found.excess or found.excess < 1e-280


def test_erf_saturates_without_losing_digits():
    """At inverse temperature 1e6 an arcsin near 1 cost 2,800 times the stated error."""
    task = at.SingleLocation(6, 3, gamma=1e-4, signal=0.0)
    found = at.risk(task, at.Erf(1e6), at.Overlaps(0.0, 1.0, -1.0, 0.0, 0.0))
    with mp.workdps(40):
        assert (
            abs(erf_reference((0.0, 1.0, -1.0, 0.0, 0.0), 1e6, task) - found.excess)
            <= found.error
        )


@pytest.mark.parametrize("kind", [at.Erf, at.LinearAttention])
def test_gradient_at_one_token_and_small_gamma(kind):
    """gamma^4 + L - 1 must not lose gamma^4 at L = 1; against differences in 50 digits."""
    task = at.SingleLocation(6, 1, gamma=1e-4, signal=2e-4)
    o = at.Overlaps(0.6, 0.1, 0.2, 0.5, 0.3)
    value = (
        erf_reference
        if kind is at.Erf
        else lambda o, lam, task: linear_reference(o, lam, 0.0, task)
    )
    with mp.workdps(50):
        h = mp.mpf(10) ** -12
        truth = float(
            (value(o, mp.mpf(700) + h, task) - value(o, mp.mpf(700) - h, task)) / (2 * h)
        )
    assert at.risk_gradient(task, kind(700.0), o).inverse_temperature == pytest.approx(
        truth, rel=INTEGRAL
    )


# overlaps that miss the possible ones by rounding


def test_overlaps_are_moved_to_possible_ones():
    rng = np.random.default_rng(15)
    for c in (0.0, 0.6, 1 - 1e-9, 1.0, -1.0):
        value = c * np.eye(6)[0] + math.sqrt(1 - c * c) * np.eye(6)[1]
        task = at.SingleLocation(6, 3, key=np.eye(6)[0], value=value)
        frame = [task.key, task.value, -task.key, -task.value]
        for _ in range(200):
            k = frame[rng.integers(4)] if rng.integers(2) else unit(rng, 6)
            v = frame[rng.integers(4)] if rng.integers(2) else k
            o = at.Overlaps.of(task, k, v)
            given = at.Overlaps(
                *(x + rng.uniform(-1, 1) * 10.0 ** rng.uniform(-16, -11) for x in o)
            )
            if abs(c) > 0.9:  # there eta - c kappa must be small itself
                given = at.Overlaps(
                    given.kappa, c * given.kappa, given.theta, c * given.theta, given.rho
                )
            moved = checked_overlaps(given, task, "test")
            assert max(abs(float(x) - y) for x, y in zip(moved, given)) <= 1e-9
            # roundoff of eigvalsh
            assert np.linalg.eigvalsh(gram(moved, task.alignment))[0] >= -4e-15
            for predictor in (
                at.LinearAttention(0.0, 1.0),
                at.LinearAttention(0.4),
                at.Erf(0.5),
            ):
                found = at.risk(task, predictor, given)
                assert found.excess >= 0 and found.error >= 0


def test_overlaps_row_of_the_issue():
    task = at.SingleLocation(10, 1, signal=5.0)
    found = at.risk(
        task, at.LinearAttention(0.0, 1.0), at.Overlaps(1.0, 0.0, 0.0, 1 + 9e-10, 0.0)
    )
    assert found.excess == 0.0 and 0 <= found.error < 1e-25
    with pytest.raises(at.AttnscopeError, match=r"nu=1\.000000003"):
        at.risk(task, at.LinearAttention(0.0, 1.0), at.Overlaps(1.0, 0.0, 0.0, 1 + 3e-9, 0.0))


def test_possible_overlaps_keep_their_bits():
    rng = np.random.default_rng(16)
    task = at.SingleLocation(10, 3)
    o = at.Overlaps(*rng.uniform(-0.4, 0.4, (5, 1000)))
    assert all((x == y).all() for x, y in zip(checked_overlaps(o, task, "test"), o))
    assert tuple(checked_overlaps(at.Overlaps.oracle(), task, "test")) == at.Overlaps.oracle()
