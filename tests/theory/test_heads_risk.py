"""Risks of several heads: exact, by quadrature and sampled; closed forms; minima.

Stochastic comparisons: 4.5 standard errors (7e-6 each) or 5 (6e-7), at fixed seeds; a correct
library fails this file with probability at most 1e-4 over the choice of seeds.
"""

import numpy as np
import pytest
from helpers.several_heads import SMALL, directions
from helpers.tolerances import EXACT, FEW_ROUNDINGS, FIVE_DIGITS, INTEGRAL, SIX_DIGITS, SOLVED
from scipy.special import erf as erf_function
from scipy.stats import norm

import attnscope as at
from attnscope.dynamics.starts import sphere_grams
from attnscope.errors import AttnscopeError
from attnscope.numerics.border.x64 import x64
from attnscope.theory.optima.heads_minimum import (
    _Sample,
    _unit_rows,
    heads_minimum,
)
from attnscope.theory.optima.sphere_hessian import tangent_basis
from attnscope.theory.risks.distinct_heads import _loss_given_scores
from attnscope.theory.risks.multi_head_risk import heads_risk

Z = 4.5


@pytest.mark.parametrize(
    "head", [at.Erf(0.7), at.SoftmaxOne(0.9), at.LinearAttention(0.3, offset=0.2)], ids=repr
)
@pytest.mark.parametrize("repeated", [False, True])
def test_risk_is_the_squared_error_on_sampled_tokens(head, repeated):
    """Three free heads, generic or with two equal keys:
    tokens in R^d, no projections and no Gram matrix.
    """
    rng = np.random.default_rng(3)
    K, V = directions(rng, 3, 9, 0.8)
    K[2] = K[0] if repeated else K[2]
    predictor = at.MultiHead(head, 3)
    known = heads_risk(SMALL, predictor, (K, V), samples=100_000)
    batch = SMALL.sample(100_000, seed=4)
    error = (at.predict(predictor, K, V, batch.tokens) - batch.target) ** 2
    allowed = np.hypot(known.error, error.std() / np.sqrt(len(error)))
    assert abs(error.mean() - known.value) < Z * allowed


def test_quadrature_agrees_with_the_sampled_scores():
    G = sphere_grams(SMALL, 2, 3, seed=1)
    predictor = at.MultiHead(at.Erf(1.3), 2)
    exact, drawn = (
        heads_risk(SMALL, predictor, G, 100_000, 0, how) for how in ("best", "monte-carlo")
    )
    assert exact.method == "2-D quadrature" and exact.error.max() < 1e-6
    assert (np.abs(exact.value - drawn.value) < Z * drawn.error).all()


@pytest.mark.parametrize(
    "head", [at.Erf(0.7), at.Erf(5.0), at.LinearAttention(0.4, offset=0.3)], ids=repr
)
def test_one_head_has_the_single_location_risk(head):
    rng = np.random.default_rng(6)
    task = at.SingleLocation(9, 5, gamma=0.8, signal=1.5, noise=0.2)
    (k,), (v,) = directions(rng, 1, 9)
    single = at.risk(task, head, at.Overlaps.of(task, k, v))
    assert heads_risk(task, at.MultiHead(head, 1), (k[None], v[None])).value == pytest.approx(
        single.value, rel=SOLVED
    )


def test_one_softmax_head_has_the_single_location_risk():
    rng = np.random.default_rng(7)
    task = at.SingleLocation(9, 5, gamma=0.8, signal=1.5)
    (k,), (v,) = directions(rng, 1, 9)
    single = at.risk(task, at.Softmax(0.9), at.Overlaps.of(task, k, v))
    drawn = heads_risk(
        task, at.MultiHead(at.Softmax(0.9), 1), (k[None], v[None]), samples=100_000
    )
    assert abs(drawn.value - single.value) < Z * drawn.error


def erf_oracle(task, lam):
    """2[gam^2 E(1 - erf(lam(s + gam G)))^2 + (L-2) A(lam) + gam^2 A(lam gam)], A(g)
    = E erf(g G)^2, by a plain sum over a grid.
    """
    z = np.linspace(-9, 9, 3001)
    mass = norm.pdf(z) * (z[1] - z[0])
    A = lambda g: 2 / np.pi * np.arcsin(2 * g**2 / (1 + 2 * g**2))
    own = (1 - erf_function(lam * (task.signal + task.gamma * z))) ** 2 @ mass
    g2 = task.gamma**2
    return 2 * (g2 * own + (task.length - 2) * A(lam) + g2 * A(lam * task.gamma))


def test_two_head_erf_oracle_has_its_closed_form():
    task = at.MultiDirection(80, 10, 2)
    for lam in (0.05, 0.0952, 0.5, 2.0):
        known = heads_risk(task, at.MultiHead(at.Erf(lam), 2), (task.keys, task.values))
        assert known.value == pytest.approx(erf_oracle(task, lam), rel=INTEGRAL)
    assert erf_oracle(task, 0.0952) == pytest.approx(0.34718, abs=5e-6)


def test_star_star_is_not_the_best_erf_point():
    """Swapped, half swapped and rotated heads are below it at its best inverse temperature."""
    task, predictor = at.MultiDirection(80, 10, 2), at.MultiHead(at.Erf(0.0952), 2)
    K, V, mix = task.keys, task.values, np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    half = np.stack([V[0], K[1]]), np.stack([K[0], V[1]])
    pairs = {"star": (K, V), "swapped": (V, K), "half": half, "rotated": (mix @ K, mix @ V)}
    values = {name: heads_risk(task, predictor, pair).value for name, pair in pairs.items()}
    assert values["swapped"] < values["rotated"] < values["half"] < values["star"]
    assert values["swapped"] == pytest.approx(0.29755, abs=FIVE_DIGITS) and values[
        "rotated"
    ] == pytest.approx(0.32044, abs=FIVE_DIGITS)


@pytest.mark.slow
def test_sampled_risk_and_its_hessian():
    """The JAX form on the same scores as the NumPy one; its gradient and Hessian against
    differences along the spheres.
    """
    rng = np.random.default_rng(10)
    task, z = (
        at.MultiDirection(30, 5, 2, gamma=0.6, signal=2.0),
        rng.standard_normal((200, 5, 2)),
    )
    x = _unit_rows(rng.standard_normal((4, 8)))
    rows = np.concatenate([x, np.eye(4, 8)])
    with x64():
        sample = _Sample(task, 2, 0.9, z)
        known = _loss_given_scores(task, at.Softmax(0.9), 2, rows @ rows.T, 0.9, z).mean()
        assert sample.value(x)[0] == pytest.approx(known, rel=EXACT)
        tangent = tangent_basis(*x).T
        np.testing.assert_allclose(tangent @ tangent.T, np.eye(28), atol=FEW_ROUNDINGS)
        t = (rng.standard_normal(28) @ tangent).reshape(4, 8)
        h = 1e-4
        size = np.linalg.norm(t, axis=1, keepdims=True)
        # a geodesic
        along = lambda a: sample.value(x * np.cos(a * size) + t / size * np.sin(a * size))[0]
        slope = (along(h) - along(-h)) / (2 * h)
        bend = (along(h) - 2 * along(0.0) + along(-h)) / h**2
        c = tangent @ t.ravel()
        assert sample.value(x)[1].ravel() @ t.ravel() == pytest.approx(slope, rel=SIX_DIGITS)
        assert c @ sample._hessian(x, tangent) @ c == pytest.approx(bend, rel=FIVE_DIGITS)


@pytest.mark.slow
def test_unspecialised_state_is_a_local_minimum():
    """Keys that share both directions: stationary, 28 positive eigenvalues,
    risk as noted elsewhere (.099).
    """
    start = [
        [0.6, 0.35, 0.6, -0.35],
        [0.05, 0.7, -0.05, 0.7],
        [0.6, -0.35, 0.6, 0.35],
        [-0.05, 0.7, 0.05, 0.7],
    ]
    task, predictor = at.MultiDirection(80, 10, 2), at.MultiHead(at.Softmax(1.0), 2)
    found = heads_minimum(task, predictor, np.array(start), samples=1500)
    assert found.gradient < 1e-9 and len(found.eigenvalues) == 28 and found.eigenvalues[0] > 0
    x = found.vectors[:, :4] @ np.stack([task.keys, task.values], 1).reshape(4, -1)
    known = heads_risk(task, predictor, (x[0::2], x[1::2]), samples=20_000)
    # the sample of 1500 moves the state a little
    assert known.value == pytest.approx(0.099, abs=0.006)
    assert abs(found.risk - known.value) < 0.01
    with pytest.raises(AttnscopeError, match="predictor of heads_minimum"):
        heads_minimum(task, at.MultiHead(at.Erf(1.0), 2), np.array(start))


@pytest.mark.parametrize("name", ["bump", "wave"])
def test_a_sigma_that_the_grid_does_not_see_is_sampled(name):
    """A bump of width 1e-3 and 50 radians per unit: the grid would be wrong with a small error."""
    import jax.numpy as jnp

    sigma = {
        "bump": lambda x: jnp.exp(-(((x - 1.234) / 1e-3) ** 2)),
        "wave": lambda x: jnp.cos(50 * x),
    }[name]
    task = at.MultiDirection(20, 5, 2, signal=2.0)
    where = (task.keys, task.values)
    assert (
        at.heads_risk(task, at.MultiHead(at.Componentwise(jnp.tanh, 1.0), 2), where).method
        == "2-D quadrature"
    )
    found = at.heads_risk(task, at.MultiHead(at.Componentwise(sigma, 1.0), 2), where)
    assert found.method == "Monte Carlo over scores"
    again = at.heads_risk(
        task,
        at.MultiHead(at.Componentwise(sigma, 1.0), 2),
        where,
        seed=5,
        method="monte-carlo",
    )
    assert abs(found.excess - again.excess) < 5 * np.hypot(found.error, again.error)
