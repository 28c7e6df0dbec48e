"""SGD in overlaps: its law against SGD on vectors, its random numbers against their laws, its bits
in pieces.

Family-wise false alarm of the law tests: 1 %, by Bonferroni over all of them together (FAMILY
below); the tests of the random numbers have their own 1 %. Seeds are fixed: what passes once passes
always.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from numba import njit
from scipy import special, stats

from attnscope.dynamics.engines import sgd_erf
from attnscope.dynamics.engines.population_erf import population_steps
from attnscope.dynamics.engines.sgd_erf import seed_generators, sgd_steps
from attnscope.errors import AttnscopeError
from attnscope.numerics.compiled import fast_normal
from attnscope.numerics.compiled import run_tiles as lanes
from attnscope.numerics.compiled.numba_flags import FUSED_FLAGS
from attnscope.numerics.compiled.run_tiles import LANES
from attnscope.theory.law import Law

GAMMA = 0.5**0.5
NOISE = 0.1
LENGTH = 4
START = np.array([0.3, -0.2, 0.25, 0.4, 0.3])
CASES = [(dim, batch) for dim in (4, 5, 6, 80) for batch in (1, 5)]
# of the laws in `make test`: no degree outside the frame, one, and many; the planted errors take the
# same samples
QUICK_CASES = [(4, 1), (5, 1), (80, 5)]
QUICK_PATHS = [(4, 5), (5, 1)]
HORIZONS = (1, 10, 100, 1000)
STATISTICS = 15  # five overlaps and their ten products
FAMILY = STATISTICS * len(CASES) * len(HORIZONS)
THRESHOLD = 0.01 / FAMILY  # of a p-value


def some(quick):
    """All cases, those that are not quick in `make test-all`."""
    return [
        case if case in quick else pytest.param(*case, marks=pytest.mark.slow)
        for case in CASES
    ]


def inverse_temperatures(steps):
    return 0.5 / (1 + 0.01 * np.arange(steps))


def step_size(dim):
    """Large enough that the length of the gradient outside the frame matters:
    a small step hides it.
    """
    return 0.4 / (1 + dim / 2)


def task(dim, batch):
    law = Law(GAMMA, (dim / 2) ** 0.5, LENGTH)
    return {"law": law, "dim": dim, "batch_size": batch, "noise": NOISE}


# ------------------------------------------------ the second route: SGD on vectors, nothing reduced


def vectors_of(overlaps, dim):
    """k, v in R^dim with these overlaps; k*, v* are the first two axes."""
    kap, eta, the, nu, rho = overlaps
    k, v = np.zeros(dim), np.zeros(dim)
    k[:2], v[:2] = (kap, eta), (the, nu)
    k[2] = np.sqrt(1 - kap**2 - eta**2)
    v[2] = (rho - kap * the - eta * nu) / k[2]
    v[3] = np.sqrt(1 - the**2 - nu**2 - v[2] ** 2)
    return k, v


def full_step(k, v, lam, alpha, rng, *, law, dim, batch_size, noise):
    """One step of k, v (paths, dim), each path on its own fresh batch."""
    paths = len(k)
    gamma, signal, length, _ = law
    tokens = rng.standard_normal((paths, batch_size, length, dim))
    # the predictor is permutation invariant: the informative token may be the first
    tokens[:, :, 0] *= gamma
    tokens[:, :, 0, 0] += signal
    target = tokens[:, :, 0, 1] + noise * rng.standard_normal((paths, batch_size))
    flat = tokens.reshape(paths, batch_size * length, dim)
    scores = (flat @ np.stack([k, v], axis=2)).reshape(paths, batch_size, length, 2)
    u = lam * scores[..., 0]
    w = scores[..., 1]
    sigma = special.erf(u)
    factor = 2 / batch_size * (np.sum(sigma * w, axis=2) - target)[..., None]
    slope = lam * 2 / np.sqrt(np.pi) * np.exp(-(u**2)) * w
    coefficients = np.stack([factor * slope, factor * sigma]).reshape(2, paths, 1, -1)
    return tuple(
        _sphere_step(x, (c @ flat)[:, 0], alpha)
        for x, c in zip((k, v), coefficients, strict=True)
    )


def _sphere_step(x, gradient, alpha):
    x = x - alpha * (gradient - np.sum(x * gradient, axis=1, keepdims=True) * x)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@functools.cache
def full_paths(dim, batch, paths, horizons, seed):
    """Overlaps (5, paths) of SGD on vectors after each of the horizons."""
    rng = np.random.default_rng(seed)
    out = {h: [] for h in horizons}
    for part in np.array_split(np.arange(paths), max(1, paths // 2000)):
        k, v = (np.tile(x, (len(part), 1)) for x in vectors_of(START, dim))
        for t, lam in enumerate(inverse_temperatures(max(horizons))):
            k, v = full_step(k, v, lam, step_size(dim), rng, **task(dim, batch))
            if t + 1 in out:
                out[t + 1].append(
                    np.array([k[:, 0], k[:, 1], v[:, 0], v[:, 1], np.sum(k * v, axis=1)])
                )
    return {h: np.concatenate(parts, axis=1) for h, parts in out.items()}


def reduced_paths(dim, batch, paths, horizons, seed, **planted):
    """The same by the reduced engine; `planted` overrides the arguments of its private entry."""
    state = np.tile(START[:, None], paths)
    generators = seed_generators(seed, paths)
    out = {}
    done = 0
    right = {"degrees": dim - 4, "informative_variance": GAMMA**2}
    setting = (step_size(dim), GAMMA, (dim / 2) ** 0.5, LENGTH, batch, NOISE)
    for h in horizons:
        lams = inverse_temperatures(h)[done:]
        if planted:
            state, generators = sgd_erf._run_tiles(
                state, generators, lams, setting, **(right | planted)
            )
        else:
            state, generators = sgd_steps(
                state, generators, lams, step_size(dim), **task(dim, batch)
            )
        out[h], done = state, h
    return out


def smallest_p_value(one, other):
    """Two-sample Kolmogorov-Smirnov over the five overlaps and their ten products."""
    rows = [(one[i], other[i]) for i in range(5)]
    rows += [
        (one[i] * one[j], other[i] * other[j]) for i, j in itertools.combinations(range(5), 2)
    ]
    return min(stats.ks_2samp(a, b, method="asymp").pvalue for a, b in rows)


@pytest.mark.parametrize(("dim", "batch"), some(QUICK_CASES))
def test_law_of_one_step(dim, batch):
    full = full_paths(dim, batch, 50_000, (1,), seed=dim + batch)
    reduced = reduced_paths(dim, batch, 100_000, (1,), seed=1)
    assert smallest_p_value(full[1], reduced[1]) > THRESHOLD


@pytest.mark.parametrize(("dim", "batch"), some(QUICK_PATHS))
def test_law_of_paths(dim, batch):
    full = full_paths(dim, batch, 2000, (10, 100), seed=100 + dim + batch)
    reduced = reduced_paths(dim, batch, 20_000, (10, 100), seed=2)
    for horizon in (10, 100):
        assert smallest_p_value(full[horizon], reduced[horizon]) > THRESHOLD


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "batch"), CASES)
def test_law_of_long_paths(dim, batch):
    paths = 2000 if dim < 10 else 500  # 80 dimensions take minutes otherwise
    full = full_paths(dim, batch, paths, (1000,), seed=200 + dim + batch)
    reduced = reduced_paths(dim, batch, 20_000, (1000,), seed=3)
    assert smallest_p_value(full[1000], reduced[1000]) > THRESHOLD


@pytest.mark.parametrize("dim", [4, 5, pytest.param(6, marks=pytest.mark.slow)])
def test_one_degree_of_freedom_too_many_is_rejected(dim):
    full = full_paths(dim, 1, 50_000, (1,), seed=dim + 1)  # the very sample of the test above
    wrong = reduced_paths(dim, 1, 100_000, (1,), seed=1, degrees=dim - 3)
    assert smallest_p_value(full[1], wrong[1]) < THRESHOLD


@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_a_missing_informative_variance_is_rejected(batch):
    full = full_paths(80, batch, 50_000, (1,), seed=80 + batch)
    wrong = reduced_paths(80, batch, 100_000, (1,), seed=1, informative_variance=1.0)
    assert smallest_p_value(full[1], wrong[1]) < THRESHOLD


def test_small_steps_follow_the_population_gradient_on_average():
    dim = 80
    alpha = 1e-5
    lam = 0.3
    runs = 400_000
    start = np.tile(START[:, None], runs)
    moved, _ = sgd_steps(
        start, seed_generators(5, runs), np.array([lam]), alpha, **task(dim, 1)
    )
    law = Law(GAMMA, (dim / 2) ** 0.5, LENGTH)
    drift = population_steps(START[:, None], np.array([lam]), alpha, law)
    errors = np.mean(moved - drift, axis=1) / (np.std(moved, axis=1) / np.sqrt(runs))
    # the means differ at second order: alpha^2 |g|^2 against a standard error alpha |g| /
    # sqrt(runs), a twentieth
    # false alarm 1 % over the five overlaps
    assert np.abs(errors).max() < stats.norm.isf(0.01 / 2 / 5)


# ------------------------------------------------ random numbers


@njit(**FUSED_FLAGS)
def _draw_normals(g, out):
    z = np.empty(2 * LANES)
    for t in range(out.shape[0]):
        fast_normal.normals(z, g, LANES)
        for i in range(2 * LANES):
            out[t, i] = z[i]


@njit(**FUSED_FLAGS)
def _draw_chi_squares(g, degrees, out):
    z = np.empty(2 * LANES)
    chi2 = np.empty(2 * LANES)
    for t in range(out.shape[0]):
        fast_normal.chi_square_pair(chi2, z, g, degrees, LANES)
        for i in range(2 * LANES):
            out[t, i] = chi2[i]


def lane_states(seed):
    return np.ascontiguousarray(seed_generators(seed, LANES).T).ravel()


def test_bits_are_those_of_xoshiro256plusplus():
    mask = 2**64 - 1

    def rotate(x, k):
        return (x << k | x >> (64 - k)) & mask

    states = lane_states(7)
    s = [int(states[j * LANES + 3]) for j in range(4)]
    for _ in range(20):
        expected = (rotate((s[0] + s[3]) & mask, 23) + s[0]) & mask
        t = (s[1] << 17) & mask
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        assert int(fast_normal._random_bits(states, 3)) == expected


@pytest.fixture(scope="module")
def normal_sample():
    out = np.empty((40_000, 2 * LANES))
    _draw_normals(lane_states(11), out)
    return out  # 1,280,000 draws: [:, i] and [:, LANES + i] are the pair of lane i


# of the normals: five moments, four tails, six more; family-wise false alarm 1 %
NORMAL_TESTS = 15


def test_normals_have_their_moments_and_their_law(normal_sample):
    z = normal_sample.ravel()
    limit = stats.norm.isf(0.01 / NORMAL_TESTS / 2)
    for power, mean, variance in (
        (1, 0, 1),
        (2, 1, 2),
        (3, 0, 15),
        (4, 3, 96),
        (6, 15, 10395 - 225),
    ):
        assert abs(np.mean(z**power) - mean) < limit * np.sqrt(variance / z.size)
    assert stats.kstest(z, "norm").pvalue > 0.01 / NORMAL_TESTS


@pytest.mark.parametrize("level", [2.0, 3.0, 4.0, 4.5])
def test_normals_have_their_tails(normal_sample, level):
    count = np.sum(np.abs(normal_sample) > level)
    p = 2 * stats.norm.sf(level)
    assert stats.binomtest(int(count), normal_sample.size, p).pvalue > 0.01 / NORMAL_TESTS


def test_normals_are_independent(normal_sample):
    n = normal_sample.shape[0] * LANES
    limit = stats.norm.isf(0.01 / NORMAL_TESTS / 2)
    first = normal_sample[:, :LANES]
    second = normal_sample[:, LANES:]
    assert abs(np.sum(first * second)) < limit * np.sqrt(n)
    # the radius is common to a pair; their squares must not show it
    assert abs(np.sum(first**2 * second**2 - 1)) < limit * np.sqrt(8 * n)
    assert abs(np.sum(first[1:] * first[:-1])) < limit * np.sqrt(n)
    assert abs(np.sum(first[:, 1:] * first[:, :-1])) < limit * np.sqrt(n)
    angle = np.arctan2(second, first).ravel() / (2 * np.pi) + 0.5
    assert stats.kstest(angle, "uniform").pvalue > 0.01 / NORMAL_TESTS


@pytest.mark.parametrize("degrees", [0, 1, 2, 3, 4, 76, 10**6])
def test_chi_squares_have_their_law(degrees):
    out = np.empty((5000, 2 * LANES))
    _draw_chi_squares(lane_states(13), degrees, out)
    for half, count in ((out[:, :LANES], degrees), (out[:, LANES:], degrees - 1)):
        if count <= 0:
            np.testing.assert_array_equal(half, 0.0)
        else:
            assert stats.kstest(half.ravel(), "chi2", args=(count,)).pvalue > 0.01 / 14


# ------------------------------------------------ bits: streams, cuts, company, threads, trouble


def spread_start(runs):
    shift = np.random.default_rng(0).uniform(-0.1, 0.1, size=(5, runs))
    return START[:, None] + shift


def test_a_stream_depends_on_its_seed_and_number_only():
    np.testing.assert_array_equal(seed_generators(3, 5)[2:], seed_generators(3, 3, first=2))
    assert (
        len(np.unique(np.concatenate([seed_generators(seed, 50) for seed in (0, 1)]), axis=0))
        == 100
    )
    with pytest.raises(
        AttnscopeError, match="seed of seed_generators must be an integer >= 0, got -1"
    ):
        seed_generators(-1, 2)


@pytest.mark.parametrize("cut", [1, 13, 49])
def test_cutting_a_schedule_changes_no_bit(cut):
    lams = inverse_temperatures(50)
    setting = task(80, 5)
    start = spread_start(3)
    seeds = seed_generators(0, 3)
    whole = sgd_steps(start, seeds, lams, 1e-2, **setting)
    part = sgd_steps(start, seeds, lams[:cut], 1e-2, **setting)
    for got, expected in zip(
        sgd_steps(*part, lams[cut:], 1e-2, **setting), whole, strict=True
    ):
        np.testing.assert_array_equal(got, expected)


# few degrees of freedom: chi^2 proposals are rejected now and then
@pytest.mark.parametrize("dim", [5, 7])
def test_a_run_does_not_depend_on_its_company(monkeypatch, dim):
    lams = inverse_temperatures(200)
    setting = task(dim, 2)
    start = spread_start(45)
    seeds = seed_generators(0, 45)
    together, _ = sgd_steps(start, seeds, lams, 1e-2, **setting)
    for run in (0, 7, 15, 16, 44):
        alone, _ = sgd_steps(
            start[:, run : run + 1], seeds[run : run + 1], lams, 1e-2, **setting
        )
        np.testing.assert_array_equal(alone[:, 0], together[:, run])
    monkeypatch.setattr(lanes, "THREADING_SECONDS", 0.0)
    for threads in (1, 2, 3):
        monkeypatch.setattr(lanes.config, "NUMBA_NUM_THREADS", threads)
        np.testing.assert_array_equal(
            sgd_steps(start, seeds, lams, 1e-2, **setting)[0], together
        )


@pytest.mark.parametrize("row", range(5))
def test_a_non_finite_run_stays_so_and_disturbs_no_other(row):
    start = spread_start(6)
    seeds = seed_generators(0, 6)
    clean, _ = sgd_steps(start, seeds, inverse_temperatures(20), 1e-2, **task(80, 5))
    start[row, 2] = np.nan
    got, _ = sgd_steps(start, seeds, inverse_temperatures(20), 1e-2, **task(80, 5))
    assert not np.isfinite(got[:, 2]).any()
    np.testing.assert_array_equal(np.delete(got, 2, axis=1), np.delete(clean, 2, axis=1))


@pytest.mark.parametrize("dim", [4, 5, 80])
@pytest.mark.parametrize(
    "start",
    [
        [1, 0, 0, 1, 0],
        [-1, 0, 0, 1, 0],
        [0, 1, 1, 0, 0],
        [0.6, 0.8, 0.6, 0.8, 1],
        [0, 0, 0, 0, -1],
    ],
)
def test_degenerate_starts_keep_a_gram_matrix(dim, start):
    state = np.tile(np.array(start, float)[:, None], 16)
    for steps in (1, 20, 2000):
        state, _ = sgd_steps(
            state, seed_generators(steps, 16), np.full(steps, 0.3), 1e-2, **task(dim, 2)
        )
        kap, eta, the, nu, rho = state
        one = np.ones(16)
        zero = np.zeros(16)
        gram = [
            [one, rho, kap, eta],
            [rho, one, the, nu],
            [kap, the, one, zero],
            [eta, nu, zero, one],
        ]
        assert np.linalg.eigvalsh(np.transpose(gram, (2, 0, 1))).min() > -1e-9
        assert np.abs(state).max() <= 1 + 1e-12


def test_refusals_and_empty_cases():
    start = spread_start(2)
    seeds = seed_generators(0, 2)
    with pytest.raises(AttnscopeError, match="dim of sgd_steps must be an integer >= 4"):
        sgd_steps(start, seeds, np.ones(3), 0.1, **task(3, 1))
    with pytest.raises(
        AttnscopeError, match="state and generator_states of sgd_steps must be arrays"
    ):
        sgd_steps(start, seeds[:1], np.ones(3), 0.1, **task(5, 1))
    same, untouched = sgd_steps(start, seeds, np.empty(0), 0.1, **task(5, 1))
    np.testing.assert_array_equal(same, start)
    np.testing.assert_array_equal(untouched, seeds)
