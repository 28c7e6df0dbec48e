"""The softmax risk in its limits: no inverse temperature, one token, hard attention; symmetries."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.softmax_settings import (
    ORACLE,
    random_overlaps,
    softmax_excess,
    softmax_excess_with_gradient,
)
from helpers.tolerances import (
    EXACT,
    FEW_ROUNDINGS,
    FORMULA,
    THREE_DIGITS,
)

import attnscope as at
from attnscope.errors import AttnscopeError


def mean_pooling(o, gam, s, length, c):
    """inverse temperature = 0: second moments of (1/L) sum_m (Y - w_m)."""
    _, _, the, nu, _ = o
    target = s * s * c * c + gam**2
    own = (s * (c - the)) ** 2 + 2 * gam**2 * (1 - nu)
    cross = s * s * (c - the) * c + gam**2 * (1 - nu)
    n = length - 1
    return (own + 2 * n * cross + n * (target + 1) + n * (n - 1) * target) / length**2


@pytest.mark.parametrize("length", [1, 2, 3, 10, 10**6])
def test_zero_inverse_temperature_is_mean_pooling_and_continuous(length):
    rng = np.random.default_rng(length)
    for c in (0.0, 0.5):
        o = random_overlaps(rng, c=c)
        kw = {"gamma": 0.8, "signal": 3.0, "length": length, "alignment": c}
        at_zero, gradient = softmax_excess_with_gradient(*o, inverse_temperature=0.0, **kw)
        assert at_zero.excess == pytest.approx(
            mean_pooling(o, 0.8, 3.0, length, c), rel=EXACT
        )
        for lam in (1e-12, 1e-7, 1e-4):
            near = softmax_excess(*o, inverse_temperature=lam, **kw).excess
            # second order in lam: |R''| <= 200 at scores of size 4 (largest seen 60)
            assert abs(near - at_zero.excess - lam * gradient[5]) < 1e-12 + 100 * lam * lam


def test_one_token_is_closed_form():
    """length = 1: T = X.v. The twin, which has no special case for it, is compared above."""
    o = (0.3, 0.2, -0.4, 0.6, 0.1)
    risk, gradient = softmax_excess_with_gradient(
        *o, inverse_temperature=2.0, gamma=0.7, signal=3.0, length=1, alignment=0.2
    )
    assert risk.excess == pytest.approx((3.0 * 0.6) ** 2 + 2 * 0.49 * 0.4, rel=FEW_ROUNDINGS)
    np.testing.assert_allclose(
        gradient, [0, 0, -2 * 9 * 0.6, -2 * 0.49, 0, 0], rtol=FEW_ROUNDINGS
    )
    assert softmax_excess(
        *ORACLE, inverse_temperature=1.0, gamma=1.0, signal=1.0, length=1
    ) == (
        0.0,
        -math.inf,
        0.0,
    )


def hard_attention(o, gam, s, length):
    """inverse temperature = infinity: the token with the largest score, by an integral over that
    score.
    """
    kap, eta, the, nu, rho = o
    u = np.linspace(-12, 12, 40_001)
    h = u[1] - u[0]
    density = np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
    below = 0.5 * np.array([math.erfc(-x / math.sqrt(2)) for x in u])
    g = (u - s * kap) / gam
    p1 = np.exp(-0.5 * g * g) / (gam * math.sqrt(2 * math.pi))
    own = (gam * (eta - rho) * g - s * the) ** 2 + gam**2 * (2 - 2 * nu - (eta - rho) ** 2)
    informative = (p1 * own * below ** (length - 1)).sum() * h
    # a background token wins at u: average (Y - w)^2 over the informative score below u, by
    # cumulative sums
    y0, y1, y2 = (
        np.cumsum(p1 * m) * h - 0.5 * h * p1 * m
        for m in (1.0, gam * eta * g, (gam * eta * g) ** 2)
    )
    other = (
        y2
        + gam**2 * (1 - eta**2) * y0
        - 2 * rho * u * y1
        + (rho * rho * u * u + 1 - rho * rho) * y0
    )
    return informative + (length - 1) * (density * below ** (length - 2) * other).sum() * h


@pytest.mark.parametrize("length", [2, 10, 1000])
def test_large_inverse_temperature_tends_to_hard_attention(length):
    """The difference falls like 1/inverse temperature;
    at 1e6 it is below 1e-5 (grid error of the reference 1e-7).
    """
    o = random_overlaps(np.random.default_rng(3))
    gam = 0.8
    s = 2.0
    limit = hard_attention(o, gam, s, length)
    gaps = [
        abs(
            softmax_excess(
                *o, inverse_temperature=t, gamma=gam, signal=s, length=length
            ).excess
            / limit
            - 1
        )
        for t in (1e2, 1e3, 1e6)
    ]
    assert gaps[0] < 0.2 and gaps[1] < 0.15 * gaps[0] and gaps[2] < 1e-5


@pytest.mark.parametrize("kappa", [1.0, -1.0])
@pytest.mark.parametrize("inverse_temperature", [0.0, 0.1, 5.0, 14.0, 223.0, 1e5])
@pytest.mark.parametrize("length", [2, 10, 10**6])
def test_extremes_are_finite_and_bounded(kappa, inverse_temperature, length):
    """d = 400, at the oracle and its mirror image:
    finite, small errors, risk <= gamma^2 + 1 since v = v*.
    """
    kw = {"gamma": 0.5**0.5, "signal": math.sqrt(200.0), "length": length}
    risk, gradient = softmax_excess_with_gradient(
        kappa, 0, 0, 1, 0, inverse_temperature=inverse_temperature, **kw
    )
    assert 0 <= risk.error <= 1e-7 * risk.excess and math.isfinite(risk.log_excess)
    assert risk.excess <= 1.5 + 1e-9 and np.all(np.isfinite(gradient))


def test_symmetries():
    """Flipping v and v* together leaves the risk alone; flipping k* does not."""
    o = (0.4, -0.3, 0.2, 0.5, 0.1)
    kw = {"inverse_temperature": 1.3, "gamma": 0.9, "signal": 2.5, "length": 7}
    base = softmax_excess(*o, alignment=0.3, **kw).excess
    kap, eta, the, nu, rho = o
    assert softmax_excess(
        kap, -eta, -the, nu, -rho, alignment=-0.3, **kw
    ).excess == pytest.approx(base, rel=FORMULA)
    assert softmax_excess(
        -kap, eta, -the, nu, rho, alignment=-0.3, **kw
    ).excess != pytest.approx(base, rel=THREE_DIGITS)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"inverse_temperature": -1.0}, "inverse_temperature"),
        ({"inverse_temperature": math.nan}, "inverse_temperature"),
        ({"inverse_temperature": 1e12}, "inverse_temperature"),
        ({"gamma": 0.0}, "gamma"),
        ({"signal": math.inf}, "signal"),
        ({"length": 0}, "length"),
        ({"length": 2.5}, "length"),
        ({"kappa": math.nan}, "kappa"),
        ({"rho": -1.1}, "rho"),
    ],
)
def test_refusals(change, match):
    names = ("kappa", "eta", "theta", "nu", "rho")
    kw = (
        dict(zip(names, ORACLE, strict=True))
        | {"inverse_temperature": 1.0, "gamma": 1.0, "signal": 2.0, "length": 4}
        | change
    )
    overlaps = at.Overlaps(*(kw.pop(name) for name in names))
    inverse_temperature = kw.pop("inverse_temperature")
    for function in (at.risk, at.risk_gradient):
        call = lambda function=function: function(
            at.SingleLocation(dim=30, **kw), at.Softmax(inverse_temperature), overlaps
        )
        with pytest.raises(AttnscopeError, match=match):
            call()
