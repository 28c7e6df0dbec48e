"""Starts drawn in law against the vectors they stand for."""

import numpy as np
import pytest
from helpers.tolerances import FEW_ROUNDINGS
from scipy.stats import ks_2samp

from attnscope.dynamics.starts import Moments, starting_overlaps
from attnscope.errors import AttnscopeError
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps, gram

# Two-sample Kolmogorov-Smirnov on the overlaps and their products. There are at most 15 + 15
# comparisons per case and 15 cases: at ALARM per comparison the family-wise false-alarm rate is
# below 1 % (and the seeds are fixed).
ALARM = 2e-5
SAMPLES = 2500


def aligned_task(dim, c, **options):
    key, value = np.eye(dim)[:2]
    return SingleLocation(dim, key=key, value=c * key + np.sqrt(1 - c * c) * value, **options)


def with_products(o):
    """(5, n) -> the five overlaps and their ten products."""
    pairs = [o[i] * o[j] for i in range(5) for j in range(i)]
    return np.concatenate([o, pairs])


def p_values(a, b):
    return np.array(
        [ks_2samp(x, y).pvalue for x, y in zip(with_products(a), with_products(b))]
    )


def units(rng, n, dim):
    x = rng.standard_normal((n, dim))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def read(task, k, v):
    return np.array(
        [k @ task.key, k @ task.value, v @ task.key, v @ task.value, np.sum(k * v, axis=1)]
    )


def sphere_vectors(task, n, seed):
    rng = np.random.default_rng(seed)
    return read(task, units(rng, n, task.dim), units(rng, n, task.dim))


def manifold_vectors(task, n, seed):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        k = rng.standard_normal(task.dim)
        k -= (k @ task.value) * task.value
        basis, sizes, _ = np.linalg.svd(np.array([task.key, k]).T, full_matrices=False)
        basis = basis[:, sizes > 1e-9]  # in two dimensions k is along k*
        v = rng.standard_normal(task.dim)
        v -= basis @ (basis.T @ v)
        v -= basis @ (basis.T @ v)
        out.append((k / np.linalg.norm(k), v / np.linalg.norm(v)))
    k, v = (np.array(x) for x in zip(*out))
    return read(task, k, v)


def moments_vectors(task, samples, n, seed):
    pairs = [Moments(samples).estimate(task.sample(samples, seed=seed + i)) for i in range(n)]
    k, v = (np.array(x) for x in zip(*pairs))
    return read(task, k, v)


@pytest.mark.parametrize(
    ("dim", "c"), [(2, 0.0), (3, 0.0), (4, 0.0), (40, 0.0), (2, 0.6), (3, -0.8), (5, 0.6)]
)
def test_sphere_in_law(dim, c):
    task = aligned_task(dim, c, length=3)
    assert (
        p_values(
            starting_overlaps(task, "sphere", SAMPLES, 1), sphere_vectors(task, SAMPLES, 2)
        ).min()
        > ALARM
    )


@pytest.mark.parametrize("dim", [2, 3, 4, 40])
def test_manifold_in_law(dim):
    task = SingleLocation(dim, 3)
    drawn = starting_overlaps(task, "manifold", SAMPLES, 1)
    vectors = manifold_vectors(task, SAMPLES, 2)
    assert np.abs(drawn[[1, 2, 4]]).max() == 0
    assert np.abs(vectors[[1, 2, 4]]).max() < 1e-9
    vectors[[1, 2, 4]] = 0
    # rounding of +-1 must not look like a law
    signs = lambda o: np.where(np.abs(np.abs(o) - 1) < 1e-9, np.sign(o), o)
    assert p_values(signs(drawn), signs(vectors)).min() > ALARM


MOMENT_CASES = {
    "narrow": (SingleLocation(6, 3, noise=0.4, signal=1.5), 8),
    "plane": (SingleLocation(2, 3, noise=0.4, signal=0.7), 5),
    "space": (SingleLocation(3, 2, gamma=1.2), 4),
    "one token": (SingleLocation(5, 1, noise=0.3), 6),
    "aligned": (aligned_task(6, 0.6, length=4, noise=0.2, signal=2.0), 10),
    "two samples": (SingleLocation(4, 5), 2),
}


@pytest.mark.parametrize("name", MOMENT_CASES)
def test_moments_in_law(name):
    task, samples = MOMENT_CASES[name]
    drawn = starting_overlaps(task, Moments(samples), SAMPLES, 1)
    vectors = moments_vectors(task, samples, SAMPLES, 10**6)
    assert np.abs(drawn[4]).max() == 0 and np.abs(vectors[4]).max() < 1e-9
    vectors[4] = 0
    assert p_values(drawn, vectors).min() > ALARM


def test_the_comparison_sees_planted_errors():
    """One dimension too many, one sample too many, a missing informative variance:
    each is rejected.
    """
    task = SingleLocation(4, 3)
    wrong_dim = SingleLocation(5, 3)
    for start, vectors in (("sphere", sphere_vectors), ("manifold", manifold_vectors)):
        assert (
            p_values(
                starting_overlaps(wrong_dim, start, SAMPLES, 1), vectors(task, SAMPLES, 2)
            ).min()
            < ALARM
        )
    task, samples = MOMENT_CASES["narrow"]
    vectors = moments_vectors(task, samples, SAMPLES, 10**6)
    vectors[4] = 0
    quiet = SingleLocation(6, 3, noise=0.4, signal=1.5, gamma=0.6)  # instead of sqrt(1/2)
    loud = SingleLocation(6, 3, noise=0.8, signal=1.5)
    for wrong in (SingleLocation(7, 3, noise=0.4, signal=1.5), quiet, loud):
        assert (
            p_values(starting_overlaps(wrong, Moments(samples), SAMPLES, 1), vectors).min()
            < ALARM
        )
    task, samples = MOMENT_CASES["two samples"]
    vectors = moments_vectors(task, samples, SAMPLES, 10**6)
    assert (
        p_values(starting_overlaps(task, Moments(samples + 1), SAMPLES, 1), vectors).min()
        < ALARM
    )


def test_moments_at_the_papers_size():
    """kappa .955 and nu about .4 from 200 samples at d = 400:
    k0 = s k* + tau N(0, I/n), v0 = gam^2 v* + noise.
    """
    task = SingleLocation(400, 10)
    o = starting_overlaps(task, "moments", 2000, 0)
    tau2 = 9.5
    n = 200
    d = 400
    kappa = task.signal / np.sqrt(task.signal**2 + tau2 * d / n)
    nu = 0.5 / np.sqrt(0.25 + 0.5 * tau2 * d / n)
    error = lambda x: x.std() / np.sqrt(x.size)
    # + terms of second order in 1/d
    assert abs(o[0].mean() - kappa) < 5 * error(o[0]) + 0.002
    # first order: y and the tokens share noise
    assert abs(o[3].mean() - nu) < 5 * error(o[3]) + 0.02
    assert starting_overlaps(task, "moments", 5, 0) == pytest.approx(
        starting_overlaps(task, Moments(200), 5, 0), abs=0
    )


def test_estimate_accepts_a_pair_and_refuses_nothing_to_learn():
    batch = SingleLocation(5, 3).sample(50, seed=3)
    k, v = Moments().estimate(batch)
    assert np.linalg.norm(k) == pytest.approx(1, abs=FEW_ROUNDINGS) and np.linalg.norm(
        v
    ) == pytest.approx(1, abs=FEW_ROUNDINGS)
    again = Moments().estimate((batch.tokens, batch.target))
    np.testing.assert_array_equal(again, (k, v))
    with pytest.raises(AttnscopeError, match="the covariance of target and tokens"):
        Moments().estimate((batch.tokens, np.ones(50)))
    with pytest.raises(AttnscopeError, match="at least 2 sequences"):
        Moments().estimate((batch.tokens[:1], batch.target[:1]))
    with pytest.raises(
        AttnscopeError, match="samples of Moments must be an integer >= 2, got 1"
    ):
        Moments(1)


@pytest.mark.parametrize("start", ["sphere", "manifold", "moments"])
@pytest.mark.parametrize("dim", [2, 3, 4, 400, 10**8])
def test_every_start_belongs_to_unit_vectors_and_to_its_run(start, dim):
    task = SingleLocation(dim, 10)
    o = starting_overlaps(task, start, 20, 7)
    spectrum = np.linalg.eigvalsh(gram(Overlaps(*o)))
    assert spectrum.min() > -1e-12
    if dim < 4:  # the four vectors live in dim dimensions
        assert np.abs(spectrum[:, : 4 - dim]).max() < 1e-12
    np.testing.assert_array_equal(starting_overlaps(task, start, 3, 7), o[:, :3])
    assert not np.array_equal(starting_overlaps(task, start, 20, 8)[0], o[0])


def test_given_overlaps_and_vectors():
    task = SingleLocation(6, 3)
    rng = np.random.default_rng(0)
    k, v = units(rng, 2, 6)
    o = Overlaps.of(task, k, v)
    np.testing.assert_array_equal(
        starting_overlaps(task, (k, v), 3, 0), np.repeat(np.array(o)[:, None], 3, axis=1)
    )
    several = Overlaps(*(np.array([x, 0.0]) for x in o))
    np.testing.assert_array_equal(starting_overlaps(task, several, 2, 0), np.array(several))


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("spheres", "start of train must be"),
        (3, "start of train must be"),
        (Overlaps(1.0, 1.0, 0.0, 0.0, 0.0), "must be those of unit vectors"),
        (
            Overlaps(np.zeros(3), 0, 0, 0, 0),
            r"arrays of shape \(2,\), one entry per run, got shape \(3,\)",
        ),
        ((np.ones(6), np.ones(6)), "k of Overlaps.of must be a unit vector"),
    ],
)
def test_bad_starts(start, message):
    with pytest.raises(AttnscopeError, match=message):
        starting_overlaps(SingleLocation(6, 3), start, 2, 0)


def test_manifold_needs_orthogonal_key_and_value():
    with pytest.raises(
        AttnscopeError, match=r"key perpendicular to value, got key\.value = 0\.6"
    ):
        starting_overlaps(aligned_task(5, 0.6, length=3), "manifold", 2, 0)
