"""Population descent in overlaps: against the authors' trajectories, autodiff in vectors,
and itself in pieces.
"""

from __future__ import annotations

import functools
import tracemalloc

import mpmath
import numpy as np
import pandas as pd
import pytest
from helpers.paths import DATA
from helpers.tolerances import INTEGRAL, LAST_DIGIT, LONG_SUM
from numba import njit
from scipy import special

from attnscope.dynamics.engines import population_erf
from attnscope.dynamics.engines.population_erf import OVERLAP_ORDER, population_steps
from attnscope.errors import AttnscopeError
from attnscope.numerics.border.x64 import x64
from attnscope.numerics.compiled import run_tiles as lanes
from attnscope.numerics.compiled.fast_erf import erf_given_exp, exp_negative
from attnscope.numerics.compiled.numba_flags import FUSED_FLAGS
from attnscope.theory.law import Law

PAPER = Law(0.5**0.5, 200**0.5, 10)  # d = 400
REFERENCE = pd.read_csv(DATA / "pgd_trajectories.csv")


def overlaps_of(k, v):
    """(5, runs) from vectors (runs, d); k*, v* are the first two axes."""
    return np.array([k[:, 0], k[:, 1], v[:, 0], v[:, 1], np.sum(k * v, axis=1)])


def sphere_vectors(runs, dim, seed):
    x = np.random.default_rng(seed).normal(size=(2, runs, dim))
    return x / np.linalg.norm(x, axis=2, keepdims=True)


def sphere_start(runs, dim=400, seed=0):
    return overlaps_of(*sphere_vectors(runs, dim, seed))


def smallest_gram_eigenvalue(state):
    kap, eta, the, nu, rho = state
    one = np.ones_like(kap)
    zero = np.zeros_like(kap)
    gram = np.array(
        [
            [one, rho, kap, eta],
            [rho, one, the, nu],
            [kap, the, one, zero],
            [eta, nu, zero, one],
        ]
    )
    return np.linalg.eigvalsh(gram.transpose(2, 0, 1)).min()


# ------------------------------------------------ second route: autodiff of the closed form, in
# vectors


def vector_risk(k, v, lam, gam, s, length):
    """The closed form term by term, Owen's T by 40-point Gauss-Legendre;
    k*, v* are the first two axes.
    """
    import jax.numpy as jnp
    from jax.scipy.special import erf

    nodes, weights = np.polynomial.legendre.leggauss(40)

    def erf1(x):
        return 2 * jnp.exp(-x * x) / jnp.sqrt(jnp.pi)

    def zeta(t, g):
        h, a = jnp.sqrt(2.0) * t / jnp.sqrt(1 + 2 * g * g), 1 / jnp.sqrt(1 + 4 * g * g)
        x = a * 0.5 * (nodes + 1)
        owen = jnp.sum(
            a * 0.5 * weights * jnp.exp(-0.5 * h * h * (1 + x * x)) / (1 + x * x)
        ) / (2 * jnp.pi)
        return 1 - 8 * owen

    kap = k[0]
    eta = k[1]
    the = v[0]
    nu = v[1]
    rho = k @ v
    S = jnp.sqrt(1 + 2 * lam**2 * gam**2)
    q = jnp.sqrt(1 + 4 * lam**2 * gam**2)
    others = length - 1
    a, C = lam * s * kap / S, 2 * lam / jnp.sqrt(jnp.pi * (1 + 2 * lam**2))
    cross = gam**2 * nu * erf(a) + lam * gam**2 * s * eta * the * erf1(a) / S
    cross += lam**2 * gam**4 * eta * rho * (-2 * a * erf1(a)) / S**2
    out = gam**2 - 2 * cross + (s**2 * the**2 + gam**2) * zeta(lam * s * kap, lam * gam)
    bracket = the * rho - lam**2 * gam**2 * rho**2 * kap / S**2
    out += 4 * lam * gam**2 * s * bracket * erf(a / q) * erf1(a) / S
    third = erf1(jnp.sqrt(2.0) * lam * s * kap / q)
    out += 4 / jnp.sqrt(jnp.pi) * lam**2 * gam**4 * rho**2 * third / (S**2 * q)
    out += (
        others * 8 / jnp.pi * lam**2 * rho**2 / (jnp.sqrt(1 + 4 * lam**2) * (1 + 2 * lam**2))
    )
    out += others * (length - 2) * 4 / jnp.pi * lam**2 * rho**2 / (1 + 2 * lam**2)
    return out + 2 * others * C * rho * (s * the * erf(a) + lam * gam**2 * rho * erf1(a) / S)


@functools.cache
def compiled_descent():
    """k, v (runs, d), inverse temperatures, step size, gam, s, L -> final k, v,
    by autodiff and projection.
    """
    import jax
    import jax.numpy as jnp

    def sphere_step(x, gradient, alpha):
        x = x - alpha * (gradient - (x @ gradient) * x)
        return x / jnp.linalg.norm(x)

    def descend(k, v, lams, alpha, *setting):
        def step(pair, lam):
            gradients = jax.grad(vector_risk, (0, 1))(*pair, lam, *setting)
            return tuple(
                sphere_step(x, g, alpha) for x, g in zip(pair, gradients, strict=True)
            ), None

        return jax.lax.scan(step, (k, v), lams)[0]

    return jax.jit(jax.vmap(descend, (0, 0) + (None,) * 5))


def vector_descent(k, v, *setting):
    with x64():
        k, v = compiled_descent()(*(np.asarray(x, float) for x in (k, v, *setting)))
        return overlaps_of(np.asarray(k), np.asarray(v))


@pytest.mark.parametrize(
    ("lam", "gam", "s", "length"),
    [(lam, 0.5**0.5, 200**0.5, 10) for lam in (0.02, 0.1, 1.0)]
    + [(3.0, 1.4, 2.0, 2), (0.7, 0.3, 5.0, 1)],
)
def test_one_step_is_the_step_of_autodiff(lam, gam, s, length):
    k, v = sphere_vectors(40, 4, seed=3)  # d = 4: all overlaps of order one
    small = 0.3 / (1 + s**2)  # a step that moves by tenths
    expected = vector_descent(k, v, [lam], small, gam, s, length)
    got = population_steps(overlaps_of(k, v), np.array([lam]), small, Law(gam, s, length))
    assert np.abs(got - overlaps_of(k, v)).max() > 0.02
    np.testing.assert_allclose(got, expected, rtol=0, atol=3e-15)


@pytest.mark.parametrize("lam", [0.1, 0.02])
def test_reduced_equals_full_after_4000_steps(lam):
    k, v = sphere_vectors(4, 400, seed=1)
    inverse_temperatures = np.full(4000, lam)
    expected = vector_descent(k, v, inverse_temperatures, 4e-3, *PAPER[:3])
    got = population_steps(overlaps_of(k, v), inverse_temperatures, 4e-3, PAPER)
    assert np.abs(got - overlaps_of(k, v)).max() > 0.1  # the state has moved
    np.testing.assert_allclose(got, expected, rtol=0, atol=LONG_SUM)


@pytest.mark.parametrize("experiment", sorted(REFERENCE.experiment.unique()))
def test_reference_trajectories(experiment):
    rows = REFERENCE[REFERENCE.experiment == experiment]
    table = rows.pivot(index="step", columns="run", values=list(OVERLAP_ORDER))
    first = rows.iloc[0]
    state = np.array([table[name].loc[0] for name in OVERLAP_ORDER])
    done = 0
    for step in table.index[1:]:
        # the map is unstable there: paths of any two implementations part
        if first.schedule and step > 500:
            break
        times = np.arange(done, step)
        inverse_temperatures = first.lambda0 / (1 + 1e-4 * times * first.schedule)
        state = population_steps(state, inverse_temperatures, first.alpha, PAPER)
        done = step
        np.testing.assert_allclose(
            state, [table[name].loc[step] for name in OVERLAP_ORDER], rtol=0, atol=INTEGRAL
        )
    assert done >= 500


# ------------------------------------------------ special functions inside


@njit(**FUSED_FLAGS)
def _erf_and_exp(x, out):
    for i in range(x.size):
        out[0, i] = exp_negative(x[i] * x[i])
        out[1, i] = erf_given_exp(x[i], out[0, i])


def test_fast_exp_and_erf():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.uniform(-26, 26, 1000), rng.uniform(-6, 6, 2000), rng.uniform(-0.7, 0.7, 1000)]
    )
    x = np.concatenate([x, np.geomspace(1e-150, 0.5, 50), [0.5, -0.5]])
    out = np.empty((2, x.size))
    _erf_and_exp(x, out)
    with mpmath.workdps(30):  # against the truth: another library's rounding would enter
        exponential = [
            mpmath.mpf(e) * mpmath.exp(mpmath.mpf(y * y)) - 1
            for e, y in zip(out[0], x, strict=True)
        ]
        error = [
            mpmath.mpf(e) / mpmath.erf(mpmath.mpf(y)) - 1
            for e, y in zip(out[1], x, strict=True)
        ]
        assert max(map(abs, exponential)) < 5e-16
        assert max(map(abs, error)) < 5e-16


def test_fast_exp_and_erf_at_the_ends():
    x = np.array([0.0, 26.4, -30.0, 1e3, -1e150])
    out = np.empty((2, x.size))
    _erf_and_exp(x, out)
    np.testing.assert_array_equal(out[1], [0, 1, -1, 1, -1])
    assert out[0, 0] == 1 and np.all(out[0, 1:] < 1e-300)


@pytest.mark.parametrize("lam", [1e-8, 1e-3, 0.02, 0.1, 0.5, 1.0, 3.0, 1e3])
def test_series_of_the_second_moment_equals_owens_t(lam):
    gam = 0.8
    row = population_erf._constant_rows(np.array([lam]), 1.0, gam, 1.0, 10)[0]
    a = np.linspace(0, 6, 301)
    w = a * a
    series = np.exp(-2 * w) * np.polynomial.polynomial.polyval(
        w, row[population_erf.CONSTANT_COLUMNS :]
    )
    q = np.sqrt(1 + 4 * (lam * gam) ** 2)
    expected = 1 - 8 * special.owens_t(np.sqrt(2) * a, 1 / q)
    np.testing.assert_allclose(
        special.erf(a) ** 2 + series, expected, rtol=0, atol=LAST_DIGIT
    )
    # at a = 0 Owen's T is known: relative accuracy, where 1 - 8T has none
    # = arcsin(2 g^2 / (1 + 2 g^2)), well conditioned
    angle = np.arctan2(2 * (lam * gam) ** 2, q)
    np.testing.assert_allclose(series[0], 2 / np.pi * angle, rtol=2e-15)


# ------------------------------------------------ bits: cuts, company, threads, trouble


def schedule(steps):
    return 1 / (1 + 1e-2 * np.arange(steps))


@pytest.mark.parametrize(
    "inverse_temperatures", [np.full(5000, 0.1), schedule(5000)], ids=["constant", "schedule"]
)
@pytest.mark.parametrize("cut", [1, 777, 4096, 4999])
def test_cutting_a_schedule_changes_no_bit(inverse_temperatures, cut):
    start = sphere_start(3)
    whole = population_steps(start, inverse_temperatures, 4e-3, PAPER)
    part = population_steps(start, inverse_temperatures[:cut], 4e-3, PAPER)
    np.testing.assert_array_equal(
        population_steps(part, inverse_temperatures[cut:], 4e-3, PAPER), whole
    )


def test_a_run_does_not_depend_on_its_company(monkeypatch):
    start, inverse_temperatures = sphere_start(45), schedule(300)
    together = population_steps(start, inverse_temperatures, 4e-3, PAPER)
    for run in (0, 7, 15, 16, 44):
        alone = population_steps(start[:, run : run + 1], inverse_temperatures, 4e-3, PAPER)
        np.testing.assert_array_equal(alone[:, 0], together[:, run])
    monkeypatch.setattr(lanes, "THREADING_SECONDS", 0.0)
    for threads in (1, 2, 3):
        monkeypatch.setattr(lanes.config, "NUMBA_NUM_THREADS", threads)
        np.testing.assert_array_equal(
            population_steps(start, inverse_temperatures, 4e-3, PAPER), together
        )


def test_a_constant_inverse_temperature_given_step_by_step_changes_no_bit():
    start = sphere_start(5)
    lam = 0.1
    expected = population_steps(start, np.full(50, lam), 4e-3, PAPER)
    scheduled = np.append(np.full(50, lam), 0.2)
    varied = population_steps(start, scheduled, 4e-3, PAPER)
    np.testing.assert_array_equal(
        population_steps(expected, np.array([0.2]), 4e-3, PAPER), varied
    )


@pytest.mark.parametrize("row", range(5))
def test_a_non_finite_run_stays_so_and_disturbs_no_other(row):
    start = sphere_start(6)
    clean = population_steps(start, np.full(50, 0.1), 4e-3, PAPER)
    start[row, 2] = np.nan
    got = population_steps(start, np.full(50, 0.1), 4e-3, PAPER)
    assert not np.isfinite(got[:, 2]).any()
    np.testing.assert_array_equal(np.delete(got, 2, axis=1), np.delete(clean, 2, axis=1))


def test_overlaps_stay_those_of_vectors_for_200_000_steps():
    start = sphere_start(16, dim=5, seed=2)
    # points of the plane of k*, v* that repel: k = -k*, v = +-v*; the swapped ones; k = v
    repelling = [
        [-1, 0, 0, 1, 0],
        [1, 0, 0, -1, 0],
        [0, 1, -1, 0, 0],
        [0, -1, 1, 0, 0],
        [0.6, 0.8, 0.6, 0.8, 1],
    ]
    start[:, :5] = np.transpose(repelling)
    for lam in (0.1, 0.9, 3.0):
        end = population_steps(start, np.full(200_000, lam), 4e-3, PAPER)
        assert np.isfinite(end).all()
        assert smallest_gram_eigenvalue(end) > -1e-12
        assert np.abs(end).max() <= 1 + 1e-15


def test_the_manifold_is_invariant():
    start = np.array([[0.05, -0.02], [0, 0], [0, 0], [0.08, 0.03], [0, 0]])
    end = population_steps(start, np.full(20_000, 0.1), 4e-3, PAPER)
    np.testing.assert_array_equal(end[[1, 2, 4]], 0.0)
    np.testing.assert_allclose(np.abs(end[[0, 3]]), [[0.983] * 2, [1] * 2], atol=2e-3)


def test_memory_does_not_grow_with_the_number_of_steps():
    def peak(runs, steps):
        inverse_temperatures = schedule(steps)
        start = np.tile(sphere_start(1), runs)
        tracemalloc.start()
        population_steps(start, inverse_temperatures, 4e-3, PAPER)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    table = (
        8 * 74 * population_erf.CONSTANT_BLOCK_STEPS
    )  # the constants of one block of steps
    assert peak(10_000, 20) < 10 * 10_000 * 5 * 8
    assert peak(1, 50_000) < 4 * table


def test_refusals_and_empty_cases():
    with pytest.raises(
        AttnscopeError, match=r"state of population_steps must be an array of shape \(5"
    ):
        population_steps(np.zeros((4, 2)), np.ones(3), 0.1, PAPER)
    start = sphere_start(2)
    np.testing.assert_array_equal(population_steps(start, np.empty(0), 0.1, PAPER), start)
    assert population_steps(np.empty((5, 0)), np.ones(3), 0.1, PAPER).shape == (5, 0)
