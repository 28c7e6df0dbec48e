"""Several directions and spike mixtures: exact posteriors against enumeration of all positions with
full densities, risks by two routes.

Stochastic comparisons allow 4.5 standard errors at fixed seeds: 7e-6 each, below 3e-4 for all of
this file.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from helpers.tolerances import EXACT, FEW_ROUNDINGS, FORMULA, INTEGRAL
from scipy.stats import multivariate_normal

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.numerics.integrals.log_mixture import mixture
from attnscope.tasks.planted.multi_direction import MultiDirection
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.tasks.planted.spike_mixture import SpikeMixture

Z = 4.5


def oblique(rng, count, dim):
    rows = rng.standard_normal((count, dim))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def enumerated(task, x):
    """(posterior (F, L), mean, variance) of one sequence by all position tuples and full Gaussian
    densities.
    """
    F = task.directions
    L = task.length
    d = task.dim
    log_mass = []
    tuples = []
    for J in product(range(L), repeat=F):
        if task.positions == "distinct" and len(set(J)) < F:
            continue
        mean = np.zeros((L, d))
        for f, j in enumerate(J):
            mean[j] += task.signal * task.keys[f]
        scale = [task.gamma**2 if l in J else 1.0 for l in range(L)]
        tuples.append(J)
        log_mass.append(
            sum(
                multivariate_normal(mean[l], scale[l] * np.eye(d)).logpdf(x[l])
                for l in range(L)
            )
        )
    p = np.exp(np.array(log_mass) - max(log_mass))
    p /= p.sum()
    posterior = np.zeros((F, L))
    for mass, J in zip(p, tuples):
        posterior[np.arange(F), J] += mass
    said = np.array([sum(x[j] @ task.values[f] for f, j in enumerate(J)) for J in tuples])
    mean = p @ said
    return posterior, mean, p @ (said - mean) ** 2


@pytest.mark.parametrize("positions", ["distinct", "independent"])
@pytest.mark.parametrize(
    ("F", "gamma", "given"), [(1, 0.7, False), (2, 0.6, True), (3, 1.4, False)]
)
def test_posterior_is_bayes_rule_over_all_positions(positions, F, gamma, given):
    rng = np.random.default_rng(F)
    vectors = {"keys": oblique(rng, F, 7), "values": oblique(rng, F, 7)} if given else {}
    task = MultiDirection(7, 4, F, positions, gamma=gamma, signal=1.3, **vectors)
    tokens = task.sample(6, seed=3).tokens
    posterior, mean, variance = (
        f(tokens) for f in (task.posterior, task.bayes_predict, task.posterior_variance)
    )
    for i, x in enumerate(tokens):
        p, m, v = enumerated(task, x)
        np.testing.assert_allclose(posterior[i], p, rtol=0, atol=FORMULA)
        assert mean[i] == pytest.approx(m, abs=EXACT) and variance[i] == pytest.approx(
            v, abs=EXACT
        )


def test_two_distinct_directions_by_prefix_and_suffix_sums():
    """p_1l ~ r_1l (sum of r_2 over the other tokens), the formula for F = 2, at gamma = 1."""
    task = MultiDirection(6, 9, 2, gamma=1.0, signal=2.0)
    tokens = task.sample(50, seed=1).tokens
    r = np.exp(task.signal * np.einsum("nld,fd->nfl", tokens, task.keys))
    others = np.stack([np.delete(r[:, ::-1], l, axis=2).sum(2) for l in range(9)], axis=2)
    p = r * others
    np.testing.assert_allclose(
        task.posterior(tokens), p / p.sum(2, keepdims=True), rtol=EXACT
    )


def test_extreme_tokens_stay_finite():
    """Both keys point at the same token with log ratios of thousands:
    exclusion leaves one of them elsewhere.
    """
    task = MultiDirection(
        4, 3, 2, keys=np.eye(4)[:2], values=np.eye(4)[2:], gamma=1.0, signal=60.0
    )
    tokens = np.zeros((1, 3, 4))
    tokens[0, 0, :2] = 100.0, 90.0
    p = task.posterior(tokens)[0]
    np.testing.assert_allclose(p, [[1, 0, 0], [0, 0.5, 0.5]], atol=EXACT)
    assert (
        np.isfinite(task.bayes_predict(tokens)).all()
        and np.isfinite(task.posterior_variance(tokens)).all()
    )


def test_one_direction_is_the_single_location_task():
    rng = np.random.default_rng(0)
    key, value = oblique(rng, 2, 5)
    one = MultiDirection(
        5, 6, 1, gamma=0.6, signal=1.1, noise=0.2, keys=key[None], values=value[None]
    )
    single = SingleLocation(5, 6, gamma=0.6, signal=1.1, noise=0.2, key=key, value=value)
    tokens = one.sample(20).tokens
    np.testing.assert_allclose(
        one.posterior(tokens)[:, 0], single.posterior(tokens), rtol=EXACT
    )
    np.testing.assert_allclose(
        one.bayes_predict(tokens), single.bayes_predict(tokens), rtol=EXACT
    )
    assert one.bayes_risk().value == pytest.approx(single.bayes_risk().value, rel=EXACT)
    assert one.null_risk().value == pytest.approx(single.null_risk().value, rel=EXACT)


@pytest.mark.parametrize("positions", ["distinct", "independent"])
@pytest.mark.parametrize("given", [False, True])
def test_samples_have_the_stated_law(positions, given):
    rng = np.random.default_rng(8)
    vectors = {"keys": oblique(rng, 2, 6), "values": oblique(rng, 2, 6)} if given else {}
    task = MultiDirection(6, 3, 2, positions, gamma=0.7, signal=1.5, noise=0.4, **vectors)
    n = 40_000
    batch = task.sample(n, seed=2)
    same = (batch.location[:, 0] == batch.location[:, 1]).mean()
    chance = 0 if positions == "distinct" else 1 / 3
    assert abs(same - chance) <= Z * np.sqrt(chance * (1 - chance) / n)
    null = task.null_risk()
    spread = (batch.target - batch.target.mean()) ** 2
    assert abs(spread.mean() - null.value) < Z * spread.std() / np.sqrt(n)
    error = (batch.target - task.bayes_predict(batch.tokens)) ** 2
    direct = (error.mean(), error.std() / np.sqrt(n))
    bayes = task.bayes_risk(samples=n, seed=5)
    assert abs(direct[0] - bayes.value) < Z * np.hypot(direct[1], bayes.error)
    mean = np.stack(
        [batch.tokens[np.arange(n), batch.location[:, f]].mean(0) for f in range(2)]
    )
    expected = task.signal * (task.keys + chance * task.keys[::-1])
    # spread of a coordinate: below 1.2
    assert np.abs(mean - expected).max() < Z * 1.2 / np.sqrt(n)


# section 5 of the notes, gamma = 1: Bayes by simulation to .001 there, plain softmax heads exactly
# 2 R_B
@pytest.mark.parametrize(
    ("L", "nu", "distinct", "twice"),
    [(3, 5, 0.2055, 0.2905), (10, 5, 0.7017, 0.7196), (10, 10, 0.2097, 0.2243)],
)
def test_exclusion_helps_and_independent_positions_factorise(L, nu, distinct, twice):
    near = MultiDirection(8, L, gamma=1.0, signal=nu**0.5).bayes_risk(samples=40_000)
    far = MultiDirection(8, L, positions="independent", gamma=1.0, signal=nu**0.5)
    assert far.bayes_risk().value == pytest.approx(twice, abs=5.1e-5)
    assert far.bayes_risk().value == pytest.approx(
        2 * SingleLocation.spiked(8, L, nu).bayes_risk().value, rel=EXACT
    )
    assert (
        abs(near.value - distinct) < Z * np.hypot(near.error, 0.001)
        and near.value < far.bayes_risk().value
    )
    # the posterior of each direction is a plain softmax
    tokens = far.sample(300, seed=1).tokens
    heads = at.attention_weights(at.MultiHead(at.Softmax(far.signal), 2), far.keys, tokens)
    np.testing.assert_allclose(far.posterior(tokens), heads, rtol=0, atol=FORMULA)


def test_the_two_averages_of_the_bayes_risk_agree():
    """gamma = 1: with outputs averaged out, and the plain posterior variance on the same
    sequences.
    """
    task = MultiDirection(8, 5, gamma=1.0, signal=2.0)
    seen, _ = task._draw_projections(40_000, np.random.default_rng(0))
    gap = task._scored_variance(seen) - task._moments(seen)[1]
    assert abs(gap.mean()) < Z * gap.std() / 200


def test_mixture_ignores_parts_without_weight():
    none = (np.array([-np.inf]), np.array([9.0]), np.array([9.0]))
    some = (np.zeros(1), np.ones(1), np.zeros(1))
    assert [float(x[0]) for x in mixture([none, some])] == [0.0, 1.0, 0.0]
    assert float(mixture([none, none])[0][0]) == -np.inf


def test_drawn_vectors_are_orthonormal_and_lazy():
    task = MultiDirection(12, 5, 3, keys=np.eye(12)[:3])
    rows = np.concatenate([task.keys, task.values])
    np.testing.assert_allclose(rows @ rows.T, np.eye(6), atol=FEW_ROUNDINGS)
    huge = MultiDirection(10**8, 5, signal=2.0, gamma=1.0)
    assert huge.bayes_risk(1000).error > 0 and "keys" not in vars(huge)


# -- spikes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [1.0, 0.6, 1.5])
def test_spike_posterior_is_bayes_rule_with_full_densities(gamma):
    rng = np.random.default_rng(4)
    means = 1.5 * rng.standard_normal((3, 5))
    outputs = oblique(rng, 3, 5)
    task = SpikeMixture(
        5, 4, means=means, outputs=outputs, prior=(0.2, 0.5, 0.3), gamma=gamma
    )
    tokens = task.sample(5, seed=1).tokens
    log_mass = np.empty((5, 3, 4))
    for i, h, l in product(range(5), range(3), range(4)):
        density = [
            multivariate_normal(means[h], gamma**2 * np.eye(5))
            if m == l
            else multivariate_normal(np.zeros(5))
            for m in range(4)
        ]
        log_mass[i, h, l] = np.log(task.prior[h]) + sum(
            p.logpdf(tokens[i, m]) for m, p in enumerate(density)
        )
    p = np.exp(log_mass - log_mass.max((1, 2), keepdims=True))
    p /= p.sum((1, 2), keepdims=True)
    np.testing.assert_allclose(task.posterior(tokens), p, rtol=0, atol=EXACT)
    predictor = at.BayesSoftmax(1 / gamma**2, task.bias, task.curvature)
    np.testing.assert_allclose(
        at.attention_weights(predictor, means, tokens), p, rtol=0, atol=EXACT
    )
    np.testing.assert_allclose(
        at.predict(predictor, means, outputs, tokens),
        task.bayes_predict(tokens),
        rtol=0,
        atol=EXACT,
    )


E = np.eye(20)
SPIKES = {  # means, prior, and the simulated value of the notes (standard error .0018)
    "2 directions": ([10**0.5 * E[0], 10**0.5 * E[1]], None, 0.1686),
    "+-k": ([10**0.5 * E[0], -(10**0.5) * E[0]], None, 0.1717),
    "unequal": ([4 * E[0], 6**0.5 * E[1]], (0.3, 0.7), 0.2464),
    "(+-1, +-1)": (
        [5**0.5 * (a * E[0] + b * E[1]) for a in (1, -1) for b in (1, -1)],
        None,
        0.2424,
    ),
}


@pytest.mark.parametrize("name", SPIKES)
def test_quadrature_of_the_spike_risk_is_the_sampled_one(name):
    means, prior, noted = SPIKES[name]
    task = SpikeMixture(20, 10, means=np.array(means), prior=prior)
    exact = task.bayes_risk()
    assert exact.method == "2-D quadrature" and exact.error < 1e-9
    tokens = task.sample(20_000, seed=3).tokens
    variance = task.posterior_variance(tokens)
    assert abs(variance.mean() - exact.value) < Z * variance.std() / np.sqrt(len(variance))
    assert abs(exact.value - noted) < 3 * 0.0018


def test_one_spike_is_the_spiked_single_location_task():
    for nu, L in ((5.0, 3), (10.0, 10), (20.0, 2)):
        one = SpikeMixture(4, L, strengths=(nu**0.5,)).bayes_risk()
        assert one.value == pytest.approx(
            SingleLocation.spiked(4, L, nu).bayes_risk().value, rel=INTEGRAL
        )


def test_sampled_spike_risk_is_the_squared_error():
    rng = np.random.default_rng(1)
    task = SpikeMixture(
        4, 3, strengths=(2.0, 1.0), gamma=0.8, outputs=oblique(rng, 2, 4), noise=0.3
    )
    batch = task.sample(40_000, seed=2)
    error = (batch.target - task.bayes_predict(batch.tokens)) ** 2
    bayes = task.bayes_risk(40_000)
    assert bayes.method.startswith("Monte Carlo")
    assert abs(error.mean() - bayes.value) < Z * np.hypot(error.std() / 200, bayes.error)
    spread = (batch.target - batch.target.mean()) ** 2
    assert abs(spread.mean() - task.null_risk().value) < Z * spread.std() / 200


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MultiDirection(3, 4), "dim of MultiDirection must be an integer >= 4"),
        (lambda: MultiDirection(9, 1), "length of MultiDirection"),
        (lambda: MultiDirection(9, 4, 7), "directions of MultiDirection"),
        (lambda: MultiDirection(9, 4, positions="near"), "positions of MultiDirection"),
        (
            lambda: MultiDirection(4, 4, keys=2 * np.eye(4)[:2]),
            "a row of keys of MultiDirection must be a unit vector",
        ),
        (
            lambda: MultiDirection(9, 4).bayes_predict(np.zeros((2, 4, 8))),
            "tokens of MultiDirection.bayes_predict",
        ),
        (lambda: SpikeMixture(2, 4), "for an output orthogonal to the spikes"),
        (lambda: SpikeMixture(1, 4), "for orthogonal spikes"),
        (
            lambda: SpikeMixture(5, 4, strengths=(1.0, -1.0)),
            "strengths of SpikeMixture must be non-negative",
        ),
        (
            lambda: SpikeMixture(5, 4, prior=(1.0, 0.0)),
            "prior of SpikeMixture must be positive",
        ),
        (lambda: SpikeMixture(5, 4, means=np.ones((2, 4))), "means of SpikeMixture"),
    ],
)
def test_bad_input_gets_one_sentence(make, words):
    with pytest.raises(AttnscopeError, match=words):
        make()


def test_posterior_where_log_ratios_round_to_more_than_1():
    """Scores of 1e15 and more: a share may be any of the positions', never NaN."""
    ones = np.ones((3, 1))
    task = at.MultiDirection(
        1, 3, 3, gamma=0.626, signal=6.26e7, keys=ones, values=ones, positions="distinct"
    )
    tokens = 58.5 * task.sample(200, seed=0).tokens
    for x in (tokens, tokens[:, ::-1]):
        posterior = task.posterior(x)
        assert np.isfinite(posterior).all()
        assert np.allclose(posterior.sum(axis=2), 1)


def test_null_risk_of_spikes_nearly_perpendicular_to_their_outputs():
    """Products of 1e8 that cancel: the error holds what they round to, against exact sums."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        outputs = rng.standard_normal((2, 48))
        outputs /= np.linalg.norm(outputs, axis=1, keepdims=True)
        means = 1e8 * rng.standard_normal((2, 48))
        means -= np.sum(means * outputs, axis=1, keepdims=True) * outputs
        means += 1e3 * rng.standard_normal((2, 1)) * outputs
        task = SpikeMixture(48, 2, means=means, outputs=outputs, gamma=4.7)
        said = [
            sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(m, v))
            for m, v in zip(task.means, task.outputs)
        ]
        first, second = (Fraction(float(p)) for p in task.prior)
        middle = first * said[0] + second * said[1]
        spread = first * (said[0] - middle) ** 2 + second * (said[1] - middle) ** 2
        found = task.null_risk()
        assert abs(found.excess - float(Fraction(4.7) ** 2 + spread)) <= found.error
