"""SoftmaxOne and SoftplusAttention: their weights, exact risks by two routes, training,
refusals.
"""

import mpmath
import numpy as np
import pytest
from helpers.settings import random_settings
from helpers.tolerances import EXACT, FEW_ROUNDINGS, FORMULA, FOUR_DIGITS, INTEGRAL, SOLVED

import attnscope as at
from attnscope.dynamics.engines.losses import weight_function
from attnscope.numerics.border.x64 import x64
from attnscope.theory.law import Law
from attnscope.theory.risks.normalised_gradient import normalised_gradient
from attnscope.theory.risks.normalised_risk import normalised_excess

ORACLE = at.Overlaps.oracle()
KINDS = (at.SoftmaxOne, at.SoftplusAttention)


def naive(kind, scores):
    """The definitions, written out."""
    h = np.exp(scores) if kind is at.SoftmaxOne else np.log1p(np.exp(scores))
    return h / (h.sum(axis=-1, keepdims=True) + (kind is at.SoftmaxOne))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_follow_the_definition(kind):
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 3, (5, 4))
    np.testing.assert_allclose(
        kind(1.0).weights(scores), naive(kind, scores), rtol=FEW_ROUNDINGS
    )
    mask = np.array([[True, True, False, True]] * 5)
    masked = kind(1.0).weights(scores, mask)
    np.testing.assert_allclose(
        masked[:, mask[0]], naive(kind, scores[:, mask[0]]), rtol=FEW_ROUNDINGS
    )
    assert not masked[:, 2].any()
    x, k, v = rng.normal(size=(3, 4, 6)), *rng.normal(size=(2, 6))
    weights = at.attention_weights(kind(0.7), k, x)
    np.testing.assert_allclose(weights, naive(kind, 0.7 * (x @ k)), rtol=FORMULA)
    np.testing.assert_allclose(
        at.predict(kind(0.7), k, v, x), np.sum(weights * (x @ v), axis=1), rtol=FORMULA
    )


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_scores_stay_finite_and_ordered(kind):
    """Far below 0 both are exponential, so softplus becomes a softmax;
    far above, softplus is linear.
    """
    w = kind(1.0).weights(np.array([[-800.0, -801.0], [900.0, 300.0], [0.0, -1e4]]))
    assert np.isfinite(w).all() and (w >= 0).all()
    expected = {
        at.SoftmaxOne: ([0.0, 0.0], [1.0, 0.0]),
        at.SoftplusAttention: ([np.e / (1 + np.e), 1 / (1 + np.e)], [0.75, 0.25]),
    }
    np.testing.assert_allclose(w[:2], expected[kind], atol=FEW_ROUNDINGS)


@pytest.mark.parametrize("kind", KINDS)
def test_jax_weights_equal_numpy(kind):
    import jax
    import jax.numpy as jnp

    scores = np.concatenate(
        [np.random.default_rng(1).normal(0, 5, (6, 5)), np.full((1, 5), -200.0)]
    )
    with x64():
        function = weight_function(kind(1.0), "test")
        np.testing.assert_allclose(
            np.asarray(function(jnp.asarray(scores))), kind(1.0).weights(scores), rtol=EXACT
        )
        slopes = jax.jit(jax.grad(lambda s: function(s)[..., 0].sum()))(jnp.asarray(scores))
        assert np.isfinite(np.asarray(slopes)).all()


def test_quadrature_equals_the_softmax_risk():
    """The same integral by two programs, on and off the manifold:
    1e-11 of the scale, within the reported error.
    """
    for task, lam, o in random_settings(12, seed=3):
        value, error = normalised_excess(at.Softmax(lam), tuple(o), lam, Law.of(task))
        other = at.risk(task, at.Softmax(lam), o)
        assert abs(value - other.excess) < error + other.error
        assert error < 1e-11 * (1 + other.excess)


@pytest.mark.parametrize("kind", KINDS)
def test_risk_equals_monte_carlo(kind):
    """8 random settings, |z| < 4.5: false alarm 1e-4 for both predictors."""
    for task, lam, o in random_settings(8, seed=5):
        exact = at.risk(task, kind(lam), o)
        sampled = at.risk(task, kind(lam), o, method="monte-carlo", samples=30_000)
        assert abs(exact.value - sampled.value) < 4.5 * sampled.error
        assert exact.error < 1e-10 * (1 + exact.value)


def test_limits():
    """Inverse temperature 0 is mean pooling (softmax-1: over L + 1),
    and a large spike makes softmax-1 softmax.
    """
    task = at.SingleLocation(8, 5, gamma=1.0, signal=2.0)
    pooled = lambda a: (1 - a) ** 2 + 4 * a**2
    assert at.risk(task, at.SoftmaxOne(0.0), ORACLE).value == pytest.approx(
        pooled(1 / 6), abs=EXACT
    )
    assert at.risk(task, at.SoftplusAttention(0.0), ORACLE).value == pytest.approx(
        pooled(1 / 5), abs=EXACT
    )
    big = at.SingleLocation(8, 5, gamma=0.5, signal=30.0)
    both = [at.risk(big, kind(1.0), ORACLE).value for kind in (at.Softmax, at.SoftmaxOne)]
    assert both[1] == pytest.approx(both[0], abs=SOLVED)
    long = at.SingleLocation(8, 10**6, gamma=1.0, signal=5.0)
    assert at.risk(long, at.SoftmaxOne(1.0), ORACLE).value == pytest.approx(
        at.risk(long, at.Softmax(1.0), ORACLE).value, rel=FOUR_DIGITS
    )


def test_errors_hold_where_terms_cancel():
    """One token has weight 1 in normalised attention:
    R = (s c - s the)^2 + 2 gam^2 (1 - nu), signal to 1e4, v = k* first.
    """
    key = np.eye(4)[0]
    rng = np.random.default_rng(0)
    unit = lambda: (lambda x: x / np.linalg.norm(x))(rng.standard_normal(4))
    settings = [(1e4, 0.5**0.5, 1.0, key, np.eye(4)[1], key, key)]
    settings += [
        (
            10 ** rng.uniform(-2, 4),
            10 ** rng.uniform(-3, 1),
            0.5,
            unit(),
            unit(),
            unit(),
            unit(),
        )
        for _ in range(40)
    ]
    for signal, gamma, lam, star, value, k, v in settings:
        task = at.SingleLocation(4, 1, gamma=gamma, signal=signal, key=star, value=value)
        o = at.Overlaps.of(task, k, v)
        out = at.risk(task, at.SoftplusAttention(lam), o)
        with mpmath.workdps(40):
            s, gam, c, the, nu = map(
                mpmath.mpf, (signal, gamma, task.alignment, float(o.theta), float(o.nu))
            )
            exact = (s * c - s * the) ** 2 + 2 * gam**2 * (1 - nu)
            assert abs(mpmath.mpf(out.excess) - exact) <= out.error
        assert out.error < 1e-9 * signal**2 + 1e-11 * gamma**2


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_errors_hold_for_softmax_one_of_one_token(share):
    """a = 1/(1 + e^{-lam u}) in 30 digits; value = key in part, so that s^2 terms cancel."""
    rng = np.random.default_rng(1)
    for _ in range(4):
        key, other = np.eye(4)[:2]
        value = share * key + (1 - share**2) ** 0.5 * other
        signal = 10 ** rng.uniform(-1, 3)
        gamma = 10 ** rng.uniform(-2, 0)
        task = at.SingleLocation(4, 1, gamma=gamma, signal=signal, key=key, value=value)
        lam = rng.uniform(3, 30) / signal if signal > 1 else 1.0
        o = at.Overlaps.of(task, key, value)
        out = at.risk(task, at.SoftmaxOne(lam), o)
        with mpmath.workdps(30):
            s, gam, t, c, rho = map(
                mpmath.mpf, (signal, gamma, lam, task.alignment, float(o.rho))
            )
            eta, the, nu = (mpmath.mpf(float(x)) for x in (o.eta, o.theta, o.nu))

            def loss(
                g,
                s=s,
                gam=gam,
                t=t,
                c=c,
                rho=rho,
                eta=eta,
                the=the,
                nu=nu,
                kap=float(o.kappa),
            ):
                a = 1 / (1 + mpmath.exp(-t * (s * kap + gam * g)))
                bias = s * c + gam * eta * g - a * (s * the + gam * rho * g)
                residual = (1 - eta**2) - 2 * a * (nu - rho * eta) + a**2 * (1 - rho**2)
                return (bias**2 + gam**2 * residual) * mpmath.npdf(g)

            exact = mpmath.quad(loss, mpmath.linspace(-12, 12, 25), maxdegree=5)
            assert abs(mpmath.mpf(out.excess) - exact) <= out.error


def test_gradient_equals_the_softmax_gradient():
    """Two programs for h = exp, on and off the manifold, also at inverse temperature 0 and length
    1.
    """
    for task, lam, o in random_settings(12, seed=4):
        for t in (lam, 0.0):
            here = normalised_gradient(at.Softmax(t), tuple(o), t, Law.of(task))
            np.testing.assert_allclose(
                here, at.risk_gradient(task, at.Softmax(t), o), atol=2e-9 if t == 0 else 1e-11
            )


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_equals_differences(kind):
    """Richardson extrapolation of central differences, all six derivatives as free variables:
    1e-9 of their size.
    """
    for task, lam, o in random_settings(5, seed=6):
        x = np.array([*o, lam])
        value = lambda x, task=task: normalised_excess(
            kind(x[5]), tuple(x[:5]), x[5], Law.of(task)
        )[0]
        at_step = lambda h, value=value, x=x: (value(x + h) - value(x - h)) / (2 * h.sum())
        steps = np.diag([1e-3] * 5 + [1e-3 * lam])
        expected = [(4 * at_step(h) - at_step(2 * h)) / 3 for h in steps]
        out = np.array(at.risk_gradient(task, kind(lam), o))
        np.testing.assert_allclose(out, expected, atol=INTEGRAL * (1 + np.abs(out).max()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.slow)])
def test_trains(kind):
    """From half-aligned directions SGD lowers the exact risk of every run,
    and population descent never raises it.
    """
    task = at.SingleLocation(20, 5, gamma=1.0, signal=3.0)
    start = at.Overlaps(0.6, 0.0, 0.0, 0.6, 0.0)
    run = at.train(
        task,
        kind(2.0),
        start,
        runs=4,
        steps=600,
        step_size=1e-2,
        log_every=300,
        batch_size=5,
        progress=False,
    )
    assert np.all(run.risk[:, -1] < 0.8 * run.risk[:, 0])
    assert set(run.outcome) <= {"oracle", "undecided"}
    exact = at.train(
        task,
        kind(2.0),
        start,
        runs=1,
        steps=200,
        step_size=2e-2,
        log_every=20,
        progress=False,
    )
    assert np.all(np.diff(exact.risk[0]) < 0) and exact.outcome[0] == "oracle"


@pytest.mark.parametrize("kind", KINDS)
def test_refusals(kind):
    task = at.SingleLocation(4, 3)
    with pytest.raises(
        at.AttnscopeError, match=f"inverse_temperature of {kind.__name__} must be"
    ):
        kind(-1.0)
    with pytest.raises(
        at.AttnscopeError,
        match="inverse_temperature of the normalised risk must be at most 60",
    ):
        at.risk(task, kind(1e3), ORACLE)
    with pytest.raises(
        at.AttnscopeError,
        match="predictor of risk_function must be one with a JAX risk on SingleLocation",
    ):
        at.risk_function(task, kind(1.0))
