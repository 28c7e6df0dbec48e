"""The quadrature of a user's sigma: closed forms and 40-digit integrals, narrow bumps, jumps,
oscillations, cancellation.

References share no code with the package: E exp(-((x-a)/w)^2), E cos, E of steps and of ramps are
closed forms.
"""

import math
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.settings import one_sentence, unit
from helpers.tolerances import ROOT_EPS, SOLVED

import attnscope as at
from attnscope.numerics.integrals import interpolation
from attnscope.numerics.integrals import refined_panels as resolved
from attnscope.numerics.integrals.quadrature import legendre
from attnscope.theory.law import Law
from attnscope.theory.risks.componentwise_risk import componentwise_excess

ORACLE = at.Overlaps.oracle()
TASK = at.SingleLocation(4, 10, gamma=0.7, signal=2.0)


def bump(place, width):
    return lambda x: np.exp(-(((x - place) / width) ** 2))


def mean_bump(mean, sd, place, width):
    """E exp(-((x - place)/width)^2), x ~ N(mean, sd^2)."""
    spread = width**2 + 2 * sd**2
    return width / math.sqrt(spread) * math.exp(-((mean - place) ** 2) / spread)


def at_oracle(task, first, second, outside):
    """gam^2 (1 - 2 E s1 + E s1^2) + (L-1) E s0^2."""
    return task.gamma**2 * (1 - 2 * first + second) + (task.length - 1) * outside


def bump_risk(task, lam, place, width):
    """The square of a bump is a bump of width/sqrt 2."""
    moments = lambda mean, sd, w: mean_bump(lam * mean, lam * sd, place, w)
    half = width / math.sqrt(2)
    s = task.signal
    gam = task.gamma
    return at_oracle(
        task, moments(s, gam, width), moments(s, gam, half), moments(0.0, 1.0, half)
    )


def cosine_risk(task, lam, frequency):
    """E cos(w x) = cos(w mean) exp(-w^2 sd^2/2); cos^2 = (1 + cos 2 w x)/2."""
    w = frequency * lam
    first = math.cos(w * task.signal) * math.exp(-((w * task.gamma) ** 2) / 2)
    second = (1 + math.cos(2 * w * task.signal) * math.exp(-2 * (w * task.gamma) ** 2)) / 2
    return at_oracle(task, first, second, (1 + math.exp(-2 * w * w)) / 2)


def test_narrow_bumps_are_found_wherever_they_are():
    """Width 1e-3 and wider, 60 places within 4 standard deviations of either kind of score:
    found, and within the error.
    """
    rng = np.random.default_rng(0)
    for i in range(60):
        width = 10 ** rng.uniform(-3, -1)
        centre, sd = ((2.0, 0.7), (0.0, 1.0))[i % 2]
        place = centre + sd * rng.uniform(-4, 4)
        out = at.risk(TASK, at.Componentwise(bump(place, width), 1.0), ORACLE)
        assert abs(out.excess - bump_risk(TASK, 1.0, place, width)) <= out.error < 1e-12


def test_the_scale_hint_finds_what_probes_do_not():
    """Width 1e-5, 100 times below what is looked for unasked;
    below the budget the hint is refused with the least scale.
    """
    rng = np.random.default_rng(1)
    for _ in range(6):
        place = rng.uniform(-2, 4)
        out = at.risk(TASK, at.Componentwise(bump(place, 1e-5), 1.0, scale=1e-5), ORACLE)
        assert abs(out.excess - bump_risk(TASK, 1.0, place, 1e-5)) <= out.error < 1e-12
    narrow = at.Componentwise(bump(1.0, 1e-9), 1.0, scale=1e-9)
    one_sentence(
        lambda: at.risk(TASK, narrow, ORACLE),
        "scale of Componentwise must be at least .* got 1e-09; try",
    )
    one_sentence(
        lambda: at.Componentwise(np.tanh, 1.0, scale=0.0),
        "scale of Componentwise must be a finite number > 0",
    )


def test_the_promised_gap_of_the_probes_holds():
    """No interval of GOLDEN_GAP/n of a panel, nor across two panels, is without a probe."""
    for n in 2 ** np.arange(3, 12):
        places = interpolation.golden(int(n))
        twice = np.concatenate([places, places + 1])
        assert np.diff(twice).max() <= interpolation.GOLDEN_GAP / n
        assert places[0] > 0 and places[-1] < 1


def test_one_jump_or_kink_cannot_hide_in_a_panel():
    """At 20,000 places of a step, a ramp and a cusp the error of the 20-point rule is below what
    the panel reports.
    """
    x, w = legendre(20)
    c, weight = interpolation.lobatto()
    place = np.random.default_rng(7).uniform(0, 1, (20_000, 1))
    shapes = (
        (lambda t: np.where(t > place, 1.0, 0.0), 1 - place),
        (lambda t: np.maximum(t - place, 0.0), (1 - place) ** 2 / 2),
        (lambda t: np.sqrt(np.abs(t - place)), (place**1.5 + (1 - place) ** 1.5) * 2 / 3),
    )
    for shape, exact in shapes:
        s = shape(x)
        apart = np.abs(shape(c) - interpolation.through(s, c)) @ weight
        assert np.all(np.abs(s @ w - exact[:, 0]) <= resolved.JUMP_FACTOR * apart)


@pytest.mark.parametrize(
    ("frequency", "inverse_temperature"),
    [(50.0, 5.0), (3.0, 1.0), (700.0, 1.0), (1000.0, 0.01)],
)
def test_fast_oscillations_are_resolved(frequency, inverse_temperature):
    wave = at.Componentwise(lambda x: np.cos(frequency * x), inverse_temperature)
    out = at.risk(TASK, wave, ORACLE)
    assert (
        abs(out.excess - cosine_risk(TASK, inverse_temperature, frequency))
        <= out.error
        < 1e-9
    )


def test_what_the_budget_does_not_resolve_is_refused():
    for frequency in (1e6, 1e9):
        wave = at.Componentwise(lambda x, w=frequency: np.cos(w * x), 5.0)
        one_sentence(
            lambda wave=wave: at.risk(TASK, wave, ORACLE),
            "sigma of Componentwise must be resolved .* try kinks=",
        )


@pytest.mark.slow
def test_jumps_and_kinks_need_not_be_declared():
    """Steps and ramps at 40 random places, declared or not;
    places on and next to the panels' own edges among them.
    """
    Phi = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))
    phi = lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    rng = np.random.default_rng(2)
    places = [0.0, 1.0, 1 + 1e-4, 1 - 3e-4, 2.0, *rng.uniform(-3, 4, 35)]
    for a in places:
        step = lambda x, a=a: np.where(x > a, 1.0, 0.0)
        ramp = lambda x, a=a: np.maximum(x - a, 0.0)
        b1 = (a - 2.0) / 0.7
        b0 = a
        steps = at_oracle(TASK, Phi(-b1), Phi(-b1), Phi(-b0))
        first = lambda b, sd: sd * (phi(b) - b * Phi(-b))
        second = lambda b, sd: sd**2 * ((1 + b * b) * Phi(-b) - b * phi(b))
        ramps = at_oracle(TASK, first(b1, 0.7), second(b1, 0.7), second(b0, 1.0))
        for sigma, exact in ((step, steps), (ramp, ramps)):
            for kinks in ((), (a,)):
                out = at.risk(TASK, at.Componentwise(sigma, 1.0, kinks=kinks), ORACLE)
                # of the closed form
                assert abs(out.excess - exact) <= out.error + 1e-15 * exact
                assert out.error < 1e-12


def cancelling(rng):
    """Length 1, v = k = k* and v* = k* or nearly: the risk is what is left of signal^2 terms."""
    signal = 10 ** rng.uniform(0, 4)
    gamma = 10 ** rng.uniform(-2, 0.5)
    return signal, gamma, rng.uniform(2, 17) / signal


def test_errors_hold_where_terms_cancel():
    """E[((s + gam G)(1 - tanh(lam (s + gam G))))^2] at L = 1 in 40 digits:
    signal to 1e4, also the reported signal 1000.
    """
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(3)
    settings = [(1000.0, 0.1, 0.012), *(cancelling(rng) for _ in range(7))]
    key = np.eye(4)[0]
    for signal, gamma, lam in settings:
        task = at.SingleLocation(4, 1, gamma=gamma, signal=signal, key=key, value=key)
        out = at.risk(
            task, at.Componentwise(np.tanh, lam), at.Overlaps(1.0, 1.0, 1.0, 1.0, 1.0)
        )
        with mpmath.workdps(40):
            s, gam, t = (mpmath.mpf(x) for x in (signal, gamma, lam))
            rest = lambda u, t=t: 2 * u / (1 + mpmath.exp(2 * t * u))
            square = lambda g, s=s, gam=gam, rest=rest: (
                rest(s + gam * g) ** 2 * mpmath.npdf(g)
            )
            exact = mpmath.quad(square, mpmath.linspace(-20, 20, 21), maxdegree=5)
            assert abs(mpmath.mpf(out.excess) - exact) <= out.error
        assert out.error < 1e-3 * out.excess + 1e-20 * signal**2


def test_errors_hold_for_random_sums_of_bumps_and_waves():
    """Off the oracle, by the moments of bumps and waves in closed form (tilted Gaussians),
    60 settings of any size.
    """
    rng = np.random.default_rng(4)
    for _ in range(60):
        gamma = 10 ** rng.uniform(-2, 2)
        signal = 10 ** rng.uniform(-2, 2)
        lam = 10 ** rng.uniform(-3, 2)
        length = int(10 ** rng.uniform(0, 6))
        key, value, k, v = (unit(rng, 5) for _ in range(4))
        o = (k @ key, k @ value, v @ key, v @ value, k @ v)
        width = lam * max(1.0, gamma) * 10 ** rng.uniform(-2.8, 0.5)
        place = (
            lam * (signal * o[0] + gamma * rng.normal())
            if rng.random() < 0.5
            else lam * rng.normal()
        )
        predictor = at.Componentwise(bump(place, width), lam)
        numbers = {
            "gamma": gamma,
            "signal": signal,
            "length": length,
            "alignment": key @ value,
        }
        value_, error = componentwise_excess(predictor, o, lam, Law(**numbers))
        exact = bump_risk_anywhere(o, lam, place, width, **numbers)
        assert abs(value_ - exact) <= error
        assert error < 1e-9 * exact


def bump_risk_anywhere(o, lam, place, width, *, gamma, signal, length, alignment):
    """R from the moments E[s^p G^n], n <= 2, in 50 digits:
    a bump times the density of G is a Gaussian.
    """
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        mp = mpmath.mpf
        kap, eta, the, nu, rho, lam, a, w, gam, s, c = map(
            mp, (*o, lam, place, width, gamma, signal, alignment)
        )

        def moments(mean, sd, p):
            """exp(-p ((A + B g)/w)^2) with A = lam mean - a, B = lam sd."""
            A = lam * mean - a
            B = lam * sd
            precision = 1 + 2 * p * (B / w) ** 2
            centre = -2 * p * A * B / w**2 / precision
            size = mpmath.exp(-p * (A / w) ** 2 + precision * centre**2 / 2) / mpmath.sqrt(
                precision
            )
            return size, size * centre, size * (centre**2 + 1 / precision)

        (a0, a1, a2), (b0, b1, b2) = moments(s * kap, gam, 1), moments(s * kap, gam, 2)
        (_, c1, _), (d0, _, d2) = moments(mp(0), mp(1), 1), moments(mp(0), mp(1), 2)
        m0 = rho * c1
        y = s * c - (length - 1) * m0
        n = s * the
        e = gam * eta
        r = gam * rho
        square = (
            y**2
            + e**2
            - 2 * (y * (n * a0 + r * a1) + e * (n * a1 + r * a2))
            + n**2 * b0
            + 2 * n * r * b1
            + r**2 * b2
        )
        residual = (1 - eta**2) - 2 * (nu - rho * eta) * a0 + (1 - rho**2) * b0
        return float(
            square
            + gam**2 * residual
            + (length - 1) * ((1 - rho**2) * d0 + rho**2 * d2 - m0**2)
        )


def bump_at(y, place, width, numbers):
    return bump_risk_anywhere(tuple(y[:5]), y[5], place, width, **numbers)


RAMP = at.SingleLocation(6, 4, gamma=0.7, signal=1.0)


def right_derivative(task, right, left, value_at_0=0.0):
    """d/dlam at 0+ of gam^2 E(1 - s1)^2 + (L-1)
    E s0^2 for s = value_at_0 + lam u (right where u > 0, left where u < 0).
    """
    a = task.signal / task.gamma
    Phi = 0.5 * math.erfc(-a / math.sqrt(2))
    phi = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    positive = task.signal * Phi + task.gamma * phi  # E max(u, 0) of the informative score
    first = right * positive + left * (task.signal - positive)
    outside = (right - left) / math.sqrt(2 * math.pi)
    others = task.length - 1
    return -2 * task.gamma**2 * (1 - value_at_0) * first + 2 * others * value_at_0 * outside


@pytest.mark.parametrize(
    ("sigma", "kinks", "slopes"),
    [
        (lambda x: jnp.maximum(x, 0), (0.0,), (1.0, 0.0, 0.0)),
        (lambda x: jnp.maximum(x, 0), (), (1.0, 0.0, 0.0)),
        (lambda x: 0.3 + jnp.abs(x), (0.0,), (1.0, -1.0, 0.3)),
        (
            lambda x: 0.3 + jnp.where(x > 0, jnp.tanh(2 * x), 3 * jnp.sin(x)),
            (0.0,),
            (2.0, 3.0, 0.3),
        ),
        (jnp.tanh, (), (1.0, 1.0, 0.0)),
        (lambda x: jnp.exp(x), (), (1.0, 1.0, 1.0)),
        (lambda x: jnp.tanh(1e4 * x), (), (1e4, 1e4, 0.0)),
        # flat at 0
        (lambda x: jnp.where(x > 1.23, 0.3, -0.497), (1.23,), (0.0, 0.0, -0.497)),
        (lambda x: jnp.where(jnp.abs(x) < 1.7, 1.1985, 0.4), (-1.7, 1.7), (0.0, 0.0, 1.1985)),
    ],
)
def test_inverse_temperature_zero_has_the_right_derivative(sigma, kinks, slopes):
    """Slopes from both sides of 0, also those that differ;
    relative 1e-8 against the closed form.
    """
    ours = at.risk_gradient(
        RAMP, at.Componentwise(sigma, 0.0, kinks=kinks), ORACLE
    ).inverse_temperature
    assert ours == pytest.approx(right_derivative(RAMP, *slopes), rel=ROOT_EPS, abs=SOLVED)


def test_an_infinite_derivative_is_refused():
    for sigma in (
        lambda x: jnp.where(x > 0, 1.0, 0.0),
        lambda x: jnp.sqrt(jnp.abs(x)),
        lambda x: jnp.sign(x),
    ):
        predictor = at.Componentwise(sigma, 0.0, kinks=(0.0,))
        words = "inverse_temperature of risk_gradient must be > 0 .* infinite; try"
        one_sentence(lambda p=predictor: at.risk_gradient(RAMP, p, ORACLE), words)
        assert at.risk(RAMP, predictor, ORACLE).value > 0


def test_gradient_of_a_narrow_bump_equals_its_closed_form():
    """Richardson differences of the 50-digit moments above, all six derivatives."""
    rng = np.random.default_rng(6)
    for _ in range(4):
        key, value, k, v = (unit(rng, 5) for _ in range(4))
        x = np.array(
            [k @ key, k @ value, v @ key, v @ value, k @ v, 10 ** rng.uniform(-1, 0.5)]
        )
        numbers = {"gamma": 0.8, "signal": 1.5, "length": 6, "alignment": key @ value}
        place = 0.4
        width = 3e-3 * x[5]
        task = at.SingleLocation(5, 6, gamma=0.8, signal=1.5, key=key, value=value)
        predictor = at.Componentwise(bump(place, width), x[5])
        ours = np.array(at.risk_gradient(task, predictor, at.Overlaps(*x[:5])))
        risk = partial(bump_at, place=place, width=width, numbers=numbers)
        slope = lambda h, x=x, risk=risk: (risk(x + h) - risk(x - h)) / (2 * h.sum())
        expected = [
            (4 * slope(h) - slope(2 * h)) / 3
            for h in np.diag(1e-3 * np.array([1, 1, 1, 1, 1, x[5]]))
        ]
        np.testing.assert_allclose(ours, expected, atol=ROOT_EPS * (1 + np.abs(ours).max()))


def test_other_tasks_resolve_the_same_bump():
    """MultiLocation with one relevant token and an uncorrelated background have the same risk;
    declared jumps too.
    """
    key, value = np.eye(4)[:2]
    single = at.SingleLocation(4, 10, gamma=0.7, signal=2.0, key=key, value=value)
    several = at.MultiLocation(4, 10, relevant=1, gamma=0.7, signal=2.0)
    background = at.CorrelatedBackground(single)
    step = at.Componentwise(lambda x: np.where(x > 0.3, 1.0, 0.0), 1.0, kinks=(0.3,))
    exact = at.risk(single, step, ORACLE).excess
    for predictor, truth in (
        (at.Componentwise(bump(1.234, 2e-3), 1.0), bump_risk(single, 1.0, 1.234, 2e-3)),
        (step, exact),
    ):
        for out in (
            at.risk(several, predictor, ORACLE),
            at.correlated_risk(background, predictor),
        ):
            assert abs(out.excess - truth) <= out.error + 1e-15 < 1e-10


def test_a_kink_where_the_integrand_vanishes_is_seen():
    """|x - a| undeclared, next to g = 0, where the value has mean 0 and the risk does not feel
    sigma.
    """
    law = Law(504.2808648902046, 0.014551639505376674, 10, 1.0)
    the = -0.015070800213894137
    lam = 0.0013302488351023397
    place = -0.001615344607187179
    o = (1.0, 1.0, the, the, the)
    ramp = lambda x: -2.1 * np.abs(x - place)
    hidden, error = componentwise_excess(at.Componentwise(ramp, lam), o, lam, law)
    declared, other = componentwise_excess(
        at.Componentwise(ramp, lam, kinks=(place,)), o, lam, law
    )
    assert abs(hidden - declared) <= max(error, other)
