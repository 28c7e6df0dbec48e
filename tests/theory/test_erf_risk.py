"""The erf closed form against the 1-D route, the paper's formula written independently,
and its printed numbers.
"""

import numpy as np
import pytest
from helpers.tolerances import EXACT, LAST_DIGIT, LONG_SUM
from scipy.special import erf, owens_t

import attnscope as at
from attnscope.theory.law import Law
from attnscope.theory.risks.componentwise_risk import componentwise_excess
from attnscope.theory.risks.erf_risk import erf_excess, erf_excess_and_error, erf_variance

TASK = at.SingleLocation(dim=400, length=10, gamma=0.5**0.5)


def extreme_setting(rng, i, low_length):
    """d to 1e8, lam 1e-6..1e3, L to 1e4; every third setting has |overlap| = 1 somewhere."""
    d = int(10 ** rng.uniform(0.4, 8))
    L = int(10 ** rng.uniform(np.log10(low_length + 0.05), 4))
    lam, gam, c = 10 ** rng.uniform(-6, 3), 10 ** rng.uniform(-0.7, 0.5), 0.0
    e = np.eye(6)
    k, v = (x / np.linalg.norm(x) for x in rng.standard_normal((2, 6)))
    k, v = [
        (k, v),
        (e[0], v),
        (k, e[1]),
        (rng.choice([-1, 1]) * e[0], rng.choice([-1, 1]) * e[1]),
        (e[1], e[0]),
        (k, k),
    ][i % 6]
    law = Law(gam, (d / 2) ** 0.5, L, c)
    return (k[0], k[1], v[0], v[1], min(1.0, k @ v)), lam, law


@pytest.mark.parametrize("seed", [0, 1])
def test_closed_form_equals_one_dimensional_route(seed):
    """Relative 1e-11 (worst seen 2e-14), and both error estimates are honest."""
    rng = np.random.default_rng(seed)
    route = at.Componentwise(erf, 1.0)
    for i in range(200):
        o, lam, law = extreme_setting(rng, i, low_length=2)
        closed, error = erf_excess_and_error(o, lam, law)
        other, other_error = componentwise_excess(route, o, lam, law)
        assert closed == pytest.approx(other, rel=LONG_SUM)
        assert abs(closed - other) <= error + other_error


def test_length_one_has_no_cancellation():
    """At L = 1 the oracle's risk gam^2 E(1 - erf(lam (s + gam G)))^2 can be tiny:
    relative 1e-11 against 40-digit quadrature.
    """
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        for lam, gam, s in (
            (0.1, 0.7, 3.0),
            (0.5, 0.7, 7.0),
            (0.2, 0.3, 20.0),
            (0.3, 1.0, 12.0),
            (2.0, 0.1, 2.5),
        ):
            square = lambda g, lam=lam, gam=gam, s=s: (
                mpmath.erfc(lam * (s + gam * g)) ** 2 * mpmath.npdf(g)
            )
            exact = gam**2 * float(mpmath.quad(square, list(range(-30, 13))))
            ours = erf_excess((1.0, 0.0, 0.0, 1.0, 0.0), lam, Law(gam, s, 1))
            assert ours == pytest.approx(exact, rel=LONG_SUM)


def test_errors_are_honest_at_length_one():
    rng = np.random.default_rng(5)
    route = at.Componentwise(erf, 1.0)
    for i in range(60):
        o, lam, law = extreme_setting(rng, i, low_length=1)
        law = law._replace(length=1)
        closed, error = erf_excess_and_error(o, lam, law)
        other, other_error = componentwise_excess(route, o, lam, law)
        assert abs(closed - other) <= error + other_error


def paper_formula(o, lam, gam, s, L):
    """The risk as the paper groups it, with SciPy's Owen T; an independent transcription."""
    kap, eta, the, nu, rho = o
    S = np.sqrt(1 + 2 * (lam * gam) ** 2)
    q = np.sqrt(1 + 4 * (lam * gam) ** 2)
    a = lam * s * kap / S
    C = 2 * lam / np.sqrt(np.pi * (1 + 2 * lam**2))
    d1 = 2 * np.exp(-a * a) / np.sqrt(np.pi)
    d2 = -4 * a * np.exp(-a * a) / np.sqrt(np.pi)
    zeta = 1 - 8 * owens_t(np.sqrt(2) * a, 1 / q)
    out = gam**2 - 2 * (
        gam**2 * nu * erf(a)
        + lam * gam**2 * s * eta * the * d1 / S
        + lam**2 * gam**4 * eta * rho * d2 / S**2
    )
    out += (s**2 * the**2 + gam**2) * zeta
    out += (
        4
        * lam
        * gam**2
        * s
        * (the * rho - lam**2 * gam**2 * rho**2 * kap / S**2)
        * erf(a / q)
        * d1
        / S
    )
    t = np.sqrt(2) * lam * s * kap / q
    out += (
        4
        / np.sqrt(np.pi)
        * lam**2
        * gam**4
        * rho**2
        * (2 * np.exp(-t * t) / np.sqrt(np.pi))
        / (S**2 * q)
    )
    out += (
        (L - 1) * 8 / np.pi * lam**2 * rho**2 / (np.sqrt(1 + 4 * lam**2) * (1 + 2 * lam**2))
    )
    out += (L - 1) * (L - 2) * 4 / np.pi * lam**2 * rho**2 / (1 + 2 * lam**2)
    out += 2 * (L - 1) * C * rho * (s * the * erf(a) + lam * gam**2 * rho * d1 / S)
    return out + (L - 1) * 2 / np.pi * np.arcsin(2 * lam**2 / (1 + 2 * lam**2))


def test_closed_form_equals_the_papers_grouping():
    rng = np.random.default_rng(2)
    for _ in range(100):
        k, v = (x / np.linalg.norm(x) for x in rng.standard_normal((2, 5)))
        o = (k[0], k[1], v[0], v[1], k @ v)
        lam, gam, s, L = (
            rng.uniform(0.05, 3),
            rng.uniform(0.3, 2),
            rng.uniform(0, 6),
            int(rng.integers(1, 30)),
        )
        ours = erf_excess(o, lam, Law(gam, s, L))
        assert ours == pytest.approx(paper_formula(o, lam, gam, s, L), rel=EXACT)


def test_variance_integral_is_owens_t():
    a, g = np.meshgrid(np.linspace(0, 5, 21), [1e-3, 0.1, 1.0, 30.0])
    q = np.sqrt(1 + 4 * g * g)
    exact = 8 * (owens_t(np.sqrt(2) * a, 1.0) - owens_t(np.sqrt(2) * a, 1 / q))
    np.testing.assert_allclose(erf_variance(a, q, g * g), exact, rtol=0, atol=3e-16)


@pytest.mark.parametrize(
    ("lam", "printed"),
    [
        (0.01, 0.3552),
        (0.03, 0.1610),
        (0.05, 0.0793),
        (0.1, 0.1135),
        (0.2, 0.4248),
        (0.5, 1.947),
        (0.9, 3.819),
    ],
)
def test_oracle_risk_by_inverse_temperature(lam, printed):
    digits = 3 if printed > 1 else 4
    assert round(at.risk(TASK, at.Erf(lam), at.Overlaps.oracle()).value, digits) == printed


def test_reference_numbers_of_the_paper_setting():
    oracle = at.Overlaps.oracle()
    assert at.SingleLocation(400, 10).null_risk().value == pytest.approx(0.5, abs=LAST_DIGIT)
    assert round(TASK.linear_risk().value, 5) == 0.47368
    assert f"{at.risk(TASK, at.Erf(0.1), oracle).value:.5f}" == "0.11350"
    best, at_best = at.optimal_inverse_temperature(TASK, at.Erf)
    assert (f"{best:.5f}", f"{at_best.value:.5f}") == ("0.06377", "0.06710")
    from attnscope.theory.reference_risks import swapped_optimum

    lam, swapped = swapped_optimum(TASK)
    assert (f"{lam:.5f}", f"{swapped.value:.5f}") == ("0.05749", "0.04221")
    assert f"{at.critical_inverse_temperature(TASK):.4f}" == "0.8924"


def test_arrays_of_overlaps_broadcast():
    kappa = np.linspace(-0.7, 0.7, 5)[:, None]
    nu = np.linspace(-0.7, 0.7, 4)
    out = at.risk(TASK, at.Erf(0.1), at.Overlaps(kappa, 0.0, 0.0, nu, 0.0))
    assert (
        out.value.shape
        == out.error.shape
        == out.excess.shape
        == out.log_excess.shape
        == (5, 4)
    )
    one = at.risk(TASK, at.Erf(0.1), at.Overlaps(kappa[1, 0], 0.0, 0.0, nu[2], 0.0))
    assert out.value[1, 2] == one.value
    assert isinstance(one.value, float)


def test_noise_adds_its_variance():
    noisy = at.SingleLocation(dim=400, length=10, noise=0.3)
    out = at.risk(noisy, at.Erf(0.1), at.Overlaps.oracle())
    assert out.value == pytest.approx(out.excess + 0.09, abs=LAST_DIGIT)
    assert out.excess == at.risk(TASK, at.Erf(0.1), at.Overlaps.oracle()).excess
