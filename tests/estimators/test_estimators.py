"""The fitting functions: gradients, EM, screening and random features by second routes."""

import itertools
import tracemalloc

import numpy as np
import pytest
from helpers.tolerances import EXACT, FORMULA, INTEGRAL, ROOT_EPS, SOLVED, THREE_DIGITS
from scipy.special import logsumexp
from scipy.stats import ttest_rel
from sklearn.linear_model import BayesianRidge, Ridge

import attnscope as at
from attnscope.estimators.fit.attention import WAVE_COUNT, WAVE_KERNEL_WIDTH, random_waves
from attnscope.estimators.fit.data import Data, scaling_of
from attnscope.estimators.fit.em import e_step, em_step, run_em, scores, whitening
from attnscope.estimators.fit.held_out import (
    RIVAL_GAIN_STANDARD_ERRORS,
    Track,
    is_better,
    make_folds,
)
from attnscope.estimators.fit.intervals import interval_scale
from attnscope.estimators.fit.mixture import (
    bag_answers,
    from_em,
    token_scores,
    with_free_score,
)
from attnscope.estimators.fit.quick_em import (
    Tied,
    beta_of,
    screen_starts,
    tied_scores,
    token_model,
    whiten_all,
)
from attnscope.estimators.fit.starts import add_moments, bag_moments, make_starts
from attnscope.estimators.regressor import SingleLocationRegressor
from attnscope.numerics.compiled.data_pass import (
    BERNOULLI,
    CATEGORICAL,
    GAUSSIAN,
    MIXTURE,
    SIGMOID,
    SOFTMAX,
    bag_softmax,
    data_pass,
)

RNG = np.random.default_rng(0)
OFFSETS = np.array([0, 3, 4, 9, 11])
TOKENS = RNG.standard_normal((11, 5))
EXTRA = RNG.standard_normal((11, 2))
GIVEN = RNG.standard_normal(11)
WEIGHT = np.array([1.0, 0.5, 2.0, 0.0])
LABELS = {
    GAUSSIAN: RNG.standard_normal(4),
    BERNOULLI: np.array([0.0, 1, 1, 0]),
    CATEGORICAL: np.array([2.0, 0, 1, 1]),
}
OUTPUTS = {GAUSSIAN: 1, BERNOULLI: 1, CATEGORICAL: 3}
VARIANCE = 0.7


def plain_loss(theta, family, combine):
    """The docstring of data_pass, written bag by bag with SciPy: the second route."""
    m = OUTPUTS[family]
    gate = theta[:7]
    values = theta[7:-m].reshape(5, m)
    bias = theta[-m:]
    total = 0.0
    for i in range(4):
        rows = slice(OFFSETS[i], OFFSETS[i + 1])
        u = GIVEN[rows] + np.column_stack([TOKENS[rows], EXTRA[rows]]) @ gate
        w = TOKENS[rows] @ values
        y = LABELS[family][i]

        def log_f(w, y=y):
            if family == GAUSSIAN:
                return -((y - w[..., 0]) ** 2) / (2 * VARIANCE)
            if family == BERNOULLI:
                return -np.log1p(np.exp(-(2 * y - 1) * w[..., 0]))
            return w[..., int(y)] - logsumexp(w, axis=-1)

        log_p = u - logsumexp(u)
        if combine == MIXTURE:
            loss = -logsumexp(log_p + log_f(w + bias))
        elif combine == SOFTMAX:
            loss = -log_f(np.exp(log_p) @ (w + bias))
        else:
            loss = -log_f(1 / (1 + np.exp(-u)) @ w + bias)
        total += WEIGHT[i] * loss
    return total


@pytest.mark.parametrize("combine", [MIXTURE, SOFTMAX, SIGMOID])
@pytest.mark.parametrize("family", [GAUSSIAN, BERNOULLI, CATEGORICAL])
def test_data_pass_is_the_loss_and_its_gradient(family, combine):
    m = OUTPUTS[family]
    theta = np.random.default_rng(1).standard_normal(7 + 6 * m)
    args = (theta[:7], theta[7:-m].reshape(5, m), theta[-m:])
    loss, *slopes = data_pass(
        TOKENS,
        EXTRA,
        GIVEN,
        OFFSETS,
        LABELS[family],
        WEIGHT,
        *args,
        family,
        combine,
        VARIANCE,
    )
    assert loss == pytest.approx(plain_loss(theta, family, combine), rel=EXACT)
    slope = np.concatenate([slopes[0], slopes[1].ravel(), slopes[2]])
    h = 1e-6  # central differences: error h^2 plus rounding 1e-16/h, both below 1e-9
    steps = np.eye(len(theta)) * h
    numeric = [
        (plain_loss(theta + s, family, combine) - plain_loss(theta - s, family, combine))
        / (2 * h)
        for s in steps
    ]
    np.testing.assert_allclose(slope, numeric, atol=2e-8)


@pytest.mark.parametrize("combine", [MIXTURE, SOFTMAX, SIGMOID])
def test_data_pass_does_not_depend_on_its_blocks(combine, monkeypatch):
    """All bags in one block, and blocks of at most two tokens, shorter than some bags."""
    theta = np.random.default_rng(1).standard_normal(7 + 18)
    args = (
        TOKENS,
        EXTRA,
        GIVEN,
        OFFSETS,
        LABELS[CATEGORICAL],
        WEIGHT,
        theta[:7],
        theta[7:-3].reshape(5, 3),
        theta[-3:],
    )
    whole = data_pass(*args, CATEGORICAL, combine, VARIANCE)
    monkeypatch.setattr("attnscope.numerics.compiled.data_pass.BLOCK_BYTES", 2 * 8 * 7)
    for a, b in zip(whole, data_pass(*args, CATEGORICAL, combine, VARIANCE)):
        np.testing.assert_allclose(b, a, rtol=EXACT, atol=FORMULA)


def test_better_is_a_paired_test(small):
    data, _ = small
    folds = make_folds(data, 0)
    rng = np.random.default_rng(3)
    assert sorted(np.concatenate([fold.out for fold in folds])) == list(range(200))
    verdicts = set()
    for shift in (0.0, 0.1, 0.14, 0.2, 0.3):
        old = rng.standard_normal(200)
        new = rng.standard_normal(200) - shift
        verdict = is_better(folds, Track([], new, ()), Track([], old, ()))
        assert verdict == (ttest_rel(old, new).statistic > RIVAL_GAIN_STANDARD_ERRORS)
        verdicts.add(verdict)
    assert verdicts == {True, False}


def standard(batch, scaling=None):
    """A Batch as Data in standardised coordinates."""
    n, length, d = batch.tokens.shape
    x, ones = batch.tokens.reshape(-1, d), np.ones(n)
    scaling = scaling or scaling_of(len(x), x.sum(0), (x**2).sum(0), batch.target, ones)
    labels = (batch.target - scaling.label_mean) / scaling.label_scale
    return Data(
        scaling.tokens(x), np.arange(n + 1) * length, labels, ones, GAUSSIAN, 1
    ), scaling


@pytest.fixture(scope="module")
def small():
    task = at.SingleLocation(dim=6, length=4, signal=3.0, noise=0.2, seed=1)
    data, scaling = standard(task.sample(200, seed=1))
    return data, make_starts(bag_moments(data), GAUSSIAN, scaling.origin, 1, 0)["sum"]


def full_log_likelihood(em, data):
    """log density of all tokens and labels under the model, from multivariate normal densities:
    nothing shared with em.py but parameters.
    """
    precision = em.tokens.whiten @ em.tokens.whiten.T
    root = np.linalg.inv(em.tokens.whiten.T)  # covariance = root root^T
    key = em.tokens.mean + root @ em.tokens.key

    def log_normal(x, mean, scale):
        gap = x - mean
        d = x.shape[1]
        quad = np.einsum("ij,jk,ik->i", gap, precision, gap) / scale
        return -0.5 * (quad + d * np.log(2 * np.pi * scale) - np.linalg.slogdet(precision)[1])

    background = log_normal(data.tokens, em.tokens.mean, 1.0)
    ratio = log_normal(data.tokens, key, em.tokens.spread) - background
    w = (data.tokens @ em.values.weights + em.values.bias)[:, 0]
    var = em.values.variance
    label = -((data.per_token(data.labels) - w) ** 2) / (2 * var) - 0.5 * np.log(
        2 * np.pi * var
    )
    per_bag = np.logaddexp.reduceat(ratio + label, data.offsets[:-1]) - np.log(data.lengths)
    return background.sum() + per_bag.sum(), ratio


def test_scores_are_log_density_ratios_and_em_climbs(small, monkeypatch):
    """With shrinkage and the dof correction off, EM is exact and its likelihood never falls."""
    data, em = small
    from attnscope.estimators.fit import em as module

    def plain_whitening(covariance, count):
        return np.linalg.inv(np.linalg.cholesky(covariance)).T

    # maximum likelihood: least squares and the mean squared residual
    def plain_values(gram, fixed):
        n = gram[0, 0]
        theta = np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])
        rss = gram[-1, -1] - theta @ gram[:-1, -1]
        return em.values._replace(weights=theta[1:, None], bias=theta[:1], variance=rss / n)

    monkeypatch.setattr(module, "whitening", plain_whitening)
    monkeypatch.setattr(module, "evidence_ridge", plain_values)
    values = []
    for _ in range(8):
        value, ratio = full_log_likelihood(em, data)
        np.testing.assert_allclose(
            scores(em.tokens, data.tokens), ratio, rtol=INTEGRAL, atol=INTEGRAL
        )
        values.append(value)
        em, _ = em_step(em, data, True)
    assert values[-1] > values[0] + 50
    assert np.diff(values).min() > -1e-8


def test_sums_are_additive(small):
    data, em = small
    halves = [data.take(np.arange(90)), data.take(np.arange(90, 200))]
    whole, _ = e_step(em, data)
    parts = [e_step(em, half)[0] for half in halves]
    for a, b, c in zip(whole, *parts):
        np.testing.assert_allclose(a, b + c, rtol=SOLVED, atol=INTEGRAL)
    for a, b in zip(bag_moments(data), add_moments(*map(bag_moments, halves))):
        np.testing.assert_allclose(a, b, rtol=SOLVED, atol=INTEGRAL)


def test_weights_count_as_repetition(small):
    data, em = small
    twice = np.repeat(np.arange(200), 1 + np.arange(200) % 2)
    repeated = run_em(em, data.take(twice), True, 5, tol=0)
    weighted = run_em(em, data._replace(weight=1.0 + np.arange(200) % 2), True, 5, tol=0)
    np.testing.assert_allclose(
        weighted.values.weights, repeated.values.weights, rtol=INTEGRAL
    )


def test_whitening_is_an_inverse_root_and_shrinks_noise():
    x = np.random.default_rng(2).standard_normal((5000, 5)) @ np.diag([1, 2, 3, 4, 5])
    covariance = np.cov(x.T, bias=True)
    w = whitening(covariance, 5000)
    np.testing.assert_allclose(
        w @ w.T, np.linalg.inv(covariance), rtol=0.02, atol=THREE_DIGITS
    )
    noise = np.cov(np.random.default_rng(3).standard_normal((40, 30)).T)
    eigenvalues = np.linalg.eigvalsh(
        np.linalg.inv(whitening(noise, 40) @ whitening(noise, 40).T)
    )
    assert eigenvalues.min() > 0.5 and np.linalg.eigvalsh(noise).min() < 0.1


def test_freed_score_is_the_same_function_where_the_model_is_linear_in_the_features():
    """Identity whitening: the EM score is exactly linear in (x, |x|^2),
    so least squares recovers it up to a constant.
    """
    rng = np.random.default_rng(4)
    data = Data(
        rng.standard_normal((400, 3)),
        np.arange(101) * 4,
        rng.standard_normal(100),
        np.ones(100),
        GAUSSIAN,
        1,
    )
    em = make_starts(bag_moments(data), GAUSSIAN, np.zeros(3), 1, 0)["sum"]
    tokens = em.tokens._replace(
        whiten=np.eye(3), mean=np.zeros(3), key=np.array([0.5, 0.2, 0.0]), spread=0.8
    )
    model = from_em(em._replace(tokens=tokens), GAUSSIAN)
    a, b = (
        bag_softmax(token_scores(f, data.tokens), data.offsets)
        for f in (model, with_free_score(model, data, True))
    )
    np.testing.assert_allclose(a, b, atol=SOLVED)


@pytest.mark.parametrize("dof", [np.inf, 5.0])
def test_screening_uses_the_token_model_it_returns(small, dof):
    """Scores from |z|^2 and z.delta alone against em.scores of the model in the data's
    coordinates.
    """
    data, em = small
    white = whiten_all(data, dof)
    delta, middle = np.random.default_rng(5).standard_normal((2, 6)) / 2
    state = Tied(delta, 0.6, middle, 0.4, em.values)
    expected = scores(token_model(state, white), data.tokens)
    np.testing.assert_allclose(
        tied_scores(state, white)[0], expected, rtol=INTEGRAL, atol=INTEGRAL
    )


@pytest.mark.parametrize(
    ("middle", "level"), [(0.0, 1.0), (0.2, 1.0), (0.0, 1.5), (0.0, 0.7)]
)
def test_screening_keeps_the_moments_of_all_tokens(small, middle, level):
    """Mixing background and deciding token in their shares gives back the mean asked for, the
    shrunk covariance of all tokens across the key, and along it their own second moment, at least
    1. `level`: of the whitened tokens, as shrinkage may leave it.
    """
    data, em = small
    white = whiten_all(data, np.inf)
    white = white._replace(z=np.sqrt(level) * white.z)
    delta = np.full(6, 0.3)
    middle = np.full(6, middle)
    t = (white.z - middle) @ delta
    state = Tied(delta, 0.6, middle, beta_of(t, delta, white), em.values)
    model = token_model(state, white)
    s0 = np.linalg.inv(model.whiten @ model.whiten.T)
    q = white.share
    shift = np.linalg.solve(model.whiten.T, model.key)
    np.testing.assert_allclose(
        (model.mean + q * shift - white.mean) @ white.whiten, middle, atol=EXACT
    )
    mixed = (1 - q + q * 0.6) * s0 + q * (1 - q) * np.outer(shift, shift)
    seen = white.whiten.T @ mixed @ white.whiten  # in z
    u = delta / np.linalg.norm(delta)
    across = np.eye(6) - np.outer(u, u)
    np.testing.assert_allclose(across @ seen, across, atol=EXACT)
    along = np.mean(((white.z - middle) @ u) ** 2)
    assert u @ seen @ u == pytest.approx(max(along, 1.0), rel=EXACT)
    assert abs(along - level) < 0.1 * level + (u @ middle) ** 2


def test_screened_starts_are_where_em_goes(small):
    """Six cheap steps bring the log likelihood per bag, -35.05 at the start, to within .01 of what
    EM reaches (seeds 0-3: .002 to .005).
    """
    data, em = small
    screened = screen_starts({"a": em, "again": em}, data, True, 6, None)
    assert screened["a"] is screened["again"]
    reached, best = (
        full_log_likelihood(e, data)[0] for e in (screened["a"], run_em(em, data, True, 60))
    )
    assert abs(reached - best) < 0.01 * data.size
    assert best - full_log_likelihood(em, data)[0] > 3 * data.size


def test_waves_start_where_the_gate_was(small, monkeypatch):
    """Zero weights leave every score; the features approximate the Gaussian kernel they stand for;
    their array stays within its bytes.
    """
    data, em = small
    model = from_em(em, GAUSSIAN)
    waved = random_waves(model, data, 0)
    np.testing.assert_array_equal(
        token_scores(waved, data.tokens), token_scores(model, data.tokens)
    )
    x = data.tokens[:40]
    gap = ((x[:, None] - x) ** 2).sum(axis=2)
    width = WAVE_KERNEL_WIDTH * np.sqrt(
        np.median(((data.tokens[:, None] - data.tokens) ** 2).sum(axis=2))
    )
    h = waved.features(x)
    # 600 cosines: standard error of a mean of 2 cos cos at most sqrt(1.5/600) = .05; 5 of them for
    # 800 pairs, and 1000 pairs gave the width
    np.testing.assert_allclose(
        2 * h @ h.T / WAVE_COUNT, np.exp(-gap / (2 * width**2)), atol=0.25
    )
    monkeypatch.setattr(
        "attnscope.estimators.fit.attention.WAVE_FEATURE_BYTES", 250 * 8 * len(data.tokens)
    )
    assert random_waves(model, data, 0).features.frequency.shape == (6, 250)


def test_interval_scale_is_the_conformal_rank():
    scores_ = np.arange(1.0, 20.0)  # n = 19: rank ceil(20 c)
    ones = np.ones(19)
    assert [interval_scale(scores_, ones, c) for c in (0.5, 0.9, 0.95)] == [10, 18, 19]
    assert interval_scale(scores_, ones, 0.99) == np.inf  # too few scores: refused by callers


def test_bags_of_one_token_are_ridge():
    rng = np.random.default_rng(6)
    x, truth = rng.standard_normal((80, 6)), rng.standard_normal(6)
    y = x @ truth + 0.5 * rng.standard_normal(80) + 3
    z = (x - x.mean(0)) / x.std(0)
    model = SingleLocationRegressor(alpha=2.5).fit(x[:, None, :], y)
    np.testing.assert_allclose(
        model.predict(x[:, None, :]), Ridge(alpha=2.5).fit(z, y).predict(z), rtol=ROOT_EPS
    )
    evidence = BayesianRidge(
        alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, max_iter=2000, tol=1e-12
    ).fit(z, y)
    model = SingleLocationRegressor().fit(x[:, None, :], y)
    # BayesianRidge divides the residuals by n - g, here n - 1 - g for the intercept: a tiny
    # difference of the ridge
    np.testing.assert_allclose(model.predict(x[:, None, :]), evidence.predict(z), atol=2e-3)


def test_streaming_em_equals_em_in_memory():
    """The same steps over 7 uneven batches and over all bags at once agree to 1e-8."""
    batch = at.SingleLocation(dim=8, length=5, signal=4.0, noise=0.2, seed=2).sample(
        300, seed=3
    )
    cuts = [0, 3, 50, 90, 160, 161, 240, 300]
    pieces = [(batch.tokens[a:b], batch.target[a:b]) for a, b in itertools.pairwise(cuts)]
    streamed = SingleLocationRegressor().fit_batches(pieces, passes=14)
    whole = SingleLocationRegressor().fit_batches([(batch.tokens, batch.target)], passes=14)
    np.testing.assert_allclose(
        streamed.predict(batch.tokens),
        whole.predict(batch.tokens),
        rtol=ROOT_EPS,
        atol=ROOT_EPS,
    )

    data, scaling = standard(batch)
    data = data._replace(origin=scaling.origin)
    starts = make_starts(
        bag_moments(data), GAUSSIAN, scaling.origin, 8, streamed._stream.seed
    )
    name = next(iter(streamed._stream.ems))
    em = run_em(starts[name], data, True, 12, tol=0)
    answers = bag_answers(from_em(em, GAUSSIAN), data.tokens, data.offsets)
    expected = answers.output[:, 0] * scaling.label_scale + scaling.label_mean
    np.testing.assert_allclose(
        streamed.predict(batch.tokens), expected, rtol=ROOT_EPS, atol=ROOT_EPS
    )
    assert np.mean(streamed.locate(batch.tokens) == batch.location) > 0.95


def peak_memory(length):
    rng = np.random.default_rng(8)
    bags = [rng.standard_normal((length, 4)) for _ in range(6)]
    tracemalloc.start()
    model = SingleLocationRegressor(n_starts=1, alpha=(np.inf, 1.0)).fit(bags, np.arange(6.0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(model.predict(bags)).all()
    return peak


def test_memory_is_linear_in_the_tokens():
    """Twice the tokens take twice the memory (an L x L array would take four times)."""
    assert peak_memory(6_000) < 2.2 * peak_memory(3_000)


@pytest.mark.slow
def test_bags_of_a_hundred_thousand_tokens():
    assert peak_memory(100_000) < 500e6  # the tokens themselves are 19 MB


def test_softmax_within_bags():
    u = np.array([1e3, 0.0, -1e3, 5.0, 2.0, 2.0])
    np.testing.assert_allclose(
        bag_softmax(u, np.array([0, 3, 4, 6])), [1, 0, 0, 1, 0.5, 0.5], atol=1e-300
    )
