"""The exact softmax risk against tensor quadrature, Monte Carlo and thirty digits; its errors."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from helpers.softmax_settings import (
    random_overlaps,
    random_setting,
    softmax_excess,
    softmax_excess_with_gradient,
)
from helpers.tolerances import (
    EXACT,
)

from attnscope.theory.risks import softmax_integral as sm
from attnscope.theory.risks import softmax_panels, softmax_risk
from attnscope.theory.risks.softmax_risk import outer_bound


def given_scores(o, lam, gam, s, c, scores):
    """E[(Y - T)^2 | scores] from Gaussian conditioning, no Laplace transform;
    scores[0] is informative.
    """
    kap, eta, the, nu, rho = o
    weights = np.exp(lam * (scores - np.max(scores, axis=0)))
    a = weights / weights.sum(axis=0)
    g = (scores[0] - s * kap) / gam
    mean = (
        s * c
        + gam * eta * g
        - a[0] * (s * the + gam * rho * g)
        - rho * (a[1:] * scores[1:]).sum(axis=0)
    )
    var = gam**2 * (1 - eta**2 - 2 * a[0] * (nu - rho * eta) + a[0] ** 2 * (1 - rho**2))
    return mean**2 + var + (1 - rho**2) * (a[1:] ** 2).sum(axis=0)


def tensor_risk(o, lam, gam, s, length, c=0.0, step=0.13):
    """Trapezoid rule over the scores; analytic in |Im lam u| < pi: error
    e^{-2 pi^2/(lam step)}, 7e-14 at inverse temperature 5.
    """
    g = np.arange(-8.6, 8.6 + step / 2, step)
    w = np.exp(-0.5 * g * g) * step / math.sqrt(2 * math.pi)
    total = 0.0
    for g1, w1 in zip(g, w, strict=True):
        grids = np.meshgrid(*[g] * (length - 1), indexing="ij")
        scores = np.stack([np.full_like(grids[0], s * o[0] + gam * g1), *grids])
        values = given_scores(o, lam, gam, s, c, scores)
        for _ in range(length - 1):
            values = values @ w
        total += w1 * float(values)
    return total


@pytest.mark.parametrize("length", [2, 3])
def test_tensor_quadrature(length):
    """Off-manifold, aligned and not, inverse temperatures up to 5: 1e-11 relative (measured 2e-13)."""
    rng = np.random.default_rng(length)
    for lam, c in [(0.3, 0.0), (1.7, 0.4), (5.0, 0.0), (5.0, -0.7)]:
        o, gam, s = random_overlaps(rng, c=c), rng.uniform(0.5, 1.4), rng.uniform(0.0, 6.0)
        got = softmax_excess(
            *o, inverse_temperature=lam, gamma=gam, signal=s, length=length, alignment=c
        )
        want = tensor_risk(o, lam, gam, s, length, c)
        assert abs(got.excess / want - 1) < 1e-11
        assert abs(got.excess - want) < max(got.error, 1e-12 * want)


@pytest.mark.parametrize(
    ("p", "yc", "width"),
    [(1, 0.4, 0.02), (2, -3.0, 1.3), (1, -60.0, 12.0), (2, 55.0, 14.0), (1, -4000.0, 30.0)],
)
def test_token_averages_to_thirty_digits(p, yc, width):
    """E[g^n K_p] and E[K_0] against mpmath at 30 digits,
    from narrow to wide scores and far in both tails.
    """
    out = np.zeros(8)
    scale = sm.tilted_moments(float(p), yc, width, 37.0, 41.0, out)
    g0 = sm.mode(float(p), yc, width)[0]
    with mpmath.workdps(30):
        cuts = sorted(
            {
                g0 + x * t
                for x in (-40, -10, -5, -2, -1, 0, 1, 2, 5, 10)
                for t in (1.0, 3.0 / max(3.0, width))
            }
        )

        def average(f):
            def density(g):
                y = yc + width * g
                return (
                    f(g, y)
                    * mpmath.exp(p * y - mpmath.exp(y) - g * g / 2 - scale)
                    / mpmath.sqrt(2 * mpmath.pi)
                )

            return float(mpmath.quad(density, cuts))

        want = [average(lambda g, y, n=n: (g - g0) ** n) for n in range(4)]
        slope = average(lambda g, y: p - mpmath.exp(y))
    centred = [
        sum(math.comb(n, j) * out[j] * (-g0) ** (n - j) for j in range(n + 1))
        for n in range(4)
    ]
    assert centred[0] == pytest.approx(want[0], rel=EXACT)
    size = max(1.0, abs(g0))
    for n in range(1, 4):
        assert abs(centred[n] - want[n]) < 1e-12 * want[0] * size**n
    assert abs(out[4] - slope) < 1e-12 * want[0] * max(1.0, p)


@pytest.mark.parametrize("yc", [-95.0, -12.0, -0.3, 0.3, 12.0, 95.0])
@pytest.mark.parametrize("width", [4.0, 9.9])
def test_direct_and_by_parts_survival_agree(yc, width):
    out = np.zeros(8)
    log_k1 = sm.tilted_moments(1.0, yc, width, 37.0, 41.0, out)
    log_k1 += math.log(out[0])
    direct = sm.log_survival(yc, width, log_k1, 37.0, 41.0)
    by_parts = sm._log_survival_by_parts(yc, width, 37.0, 41.0)
    assert by_parts == pytest.approx(direct, rel=3e-13)


def projections(rng, samples, o, length, gam, s, c):
    """Scores (n, L), values (n, L), targets (n): Gaussian projections of the tokens;
    token 0 informative.
    """
    kap, eta, the, nu, rho = o
    gram = np.array([[1, rho, eta], [rho, 1, nu], [eta, nu, 1]])
    root = np.linalg.cholesky(gram + 1e-13 * np.eye(3))
    u = rng.standard_normal((samples, length))
    w = rho * u + math.sqrt(max(0.0, 1 - rho * rho)) * rng.standard_normal((samples, length))
    z = rng.standard_normal((samples, 3)) @ root.T
    u[:, 0], w[:, 0] = s * kap + gam * z[:, 0], s * the + gam * z[:, 1]
    return u, w, s * c + gam * z[:, 2]


def monte_carlo_z(rng, samples, o, kw):
    c = kw["alignment"]
    gam = kw["gamma"]
    s = kw["signal"]
    length = kw["length"]
    u, w, y = projections(rng, samples, o, length, gam, s, c)
    a = np.exp(kw["inverse_temperature"] * (u - u.max(axis=1, keepdims=True)))
    loss = (y - (a * w).sum(axis=1) / a.sum(axis=1)) ** 2
    error = loss.std() / math.sqrt(samples)
    return (loss.mean() - softmax_excess(*o, **kw).excess) / error


def test_monte_carlo():
    """200 off-manifold settings: unit z-scores.
    For exact values P(max |z| > 5) = 1e-4, P(rms off) = 6e-5.
    """
    rng = np.random.default_rng(2024)
    z = []
    for i in range(200):
        c = float(rng.uniform(-0.9, 0.9)) if i % 3 == 0 else 0.0
        o, kw = (
            random_overlaps(rng, int(rng.choice([4, 10, 50])), c),
            random_setting(rng, lengths=(2, 3, 5, 10, 20))[1],
        )
        z.append(monte_carlo_z(rng, 10_000, o, kw | {"alignment": c}))
    assert 0.8 < np.sqrt(np.mean(np.square(z))) < 1.2
    assert np.max(np.abs(z)) < 5


@pytest.mark.parametrize("step", [0.27, 0.5, 0.8])
def test_outer_bound_holds(step):
    """On Gamma(2) = int t^2 e^{-t} dtau, the integrand of one token, for the worst of 16 grids."""
    errors = []
    for offset in np.linspace(0, step, 16, endpoint=False):
        t = np.exp(np.arange(-22.0, 5.0, step) + offset)
        errors.append(abs(step * np.sum(t * t * np.exp(-t)) - 1))
    assert (
        1e-3 * outer_bound(step) < max(errors) + 1e-14
        and max(errors) < outer_bound(step) + 1e-14
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_error_estimates_are_honest(seed):
    """Value against the gradient's own range and grid in extreme settings:
    within the error estimates.
    """
    rng = np.random.default_rng(seed)
    for _ in range(400):
        c = float(rng.choice([0.0, 0.0, 0.4, -0.7]))
        o = (
            random_overlaps(rng, int(rng.choice([2, 3, 20])), c)
            if rng.random() < 0.8
            else (1.0, c, c, 1.0, c)
        )
        kw = {
            "inverse_temperature": 10 ** rng.uniform(-4, 3),
            "gamma": 10 ** rng.uniform(-1.5, 1),
            "signal": 10 ** rng.uniform(-1, 2.3),
            "length": int(rng.choice([2, 3, 10, 1000, 10**6, 10**9])),
            "alignment": c,
        }
        a = softmax_excess(*o, **kw)
        b = softmax_excess_with_gradient(*o, **kw)[0]
        if a.excess > 1e-300:
            assert abs(a.log_excess - b.log_excess) < (a.error + b.error) / a.excess


@pytest.mark.slow
def test_monte_carlo_large():
    """50 settings with 400 000 samples and inverse temperatures up to 30. P(false alarm) < 1e-3."""
    rng = np.random.default_rng(77)
    z = []
    for _ in range(50):
        o, kw = random_setting(rng, lam_max=30.0, lengths=(2, 5, 10, 30))
        z.append(monte_carlo_z(rng, 400_000, o, kw))
    assert 0.65 < np.sqrt(np.mean(np.square(z))) < 1.35
    assert np.max(np.abs(z)) < 5


# -- panels ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_panels_equal_equal_steps(monkeypatch):
    """Two rules of different kind over the same integrand, values and gradients, at any setting."""
    rng = np.random.default_rng(12)
    for i in range(24):
        rows = rng.standard_normal((4, 6))
        k, v, key, value = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        overlaps = (k @ key, k @ value, v @ key, v @ value, k @ v)
        numbers = {
            "inverse_temperature": 10 ** rng.uniform(-2, 2.5),
            "gamma": 10 ** rng.uniform(-1.5, 1.5),
            "signal": 10 ** rng.uniform(-1, 1.5),
            "length": int(10 ** rng.uniform(0.4, 9)),
            "alignment": key @ value,
        }
        monkeypatch.setattr(softmax_risk, "MAX_EQUAL_STEPS", 10**9)
        steps, slope = softmax_excess_with_gradient(*overlaps, **numbers)
        monkeypatch.setattr(softmax_risk, "MAX_EQUAL_STEPS", 0)
        panels = softmax_excess(*overlaps, **numbers)
        assert abs(panels.excess - steps.excess) <= panels.error + steps.error, numbers
        if i % 4 == 0:
            other = softmax_excess_with_gradient(*overlaps, **numbers)[1]
            assert np.abs(other - slope).max() <= 1e-9 * np.abs(slope).max() + steps.error


@pytest.mark.slow
def test_scores_of_two_scales_take_few_evaluations(monkeypatch):
    """gam = 1619, lam = 11578, L = 1e7 took 85,000 equal steps;
    panels of 14 nodes say the same as those of 20.
    """
    overlaps = (-0.86998909, 0.28747748, 0.86998911, -0.28747742, -1.0)
    numbers = {
        "inverse_temperature": 11578.5,
        "gamma": 1619.06,
        "signal": 1.5e-3,
        "length": 12_748_754,
    }
    counted = []
    fill = softmax_panels.fill_panels
    monkeypatch.setattr(
        softmax_panels,
        "fill_panels",
        lambda ends, *rest: (counted.append(len(ends)), fill(ends, *rest)),
    )
    out = softmax_excess(*overlaps, **numbers)
    assert 0 < sum(counted) * softmax_panels.PANEL_NODES < 20_000
    points, weights = np.polynomial.legendre.leggauss(14)
    monkeypatch.setattr(softmax_panels, "PANEL_POINTS", points)
    monkeypatch.setattr(softmax_panels, "PANEL_WEIGHTS", weights)
    other = softmax_excess(*overlaps, **numbers)
    assert abs(out.excess - other.excess) <= out.error + other.error
