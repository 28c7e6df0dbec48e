"""EM over batches: equal to EM in memory, for numbers and for classes; dask arrays;
what memory it takes; what it refuses.
"""

import itertools
import tracemalloc

import dask.array as da
import numpy as np
import pytest
from helpers.tolerances import ROOT_EPS, SIX_DIGITS
from sklearn.linear_model import LinearRegression, LogisticRegression

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.estimators.bags.dask_bags import dask_batches, is_dask
from attnscope.estimators.classifier import SingleLocationClassifier
from attnscope.estimators.fit.data import Data, label_log_density, scaling_of
from attnscope.estimators.fit.em import run_em
from attnscope.estimators.fit.em_batches import class_step, class_sums
from attnscope.estimators.fit.mixture import bag_answers, from_em
from attnscope.estimators.fit.ridge import values_from
from attnscope.estimators.fit.starts import bag_moments, make_starts
from attnscope.estimators.regressor import SingleLocationRegressor
from attnscope.numerics.compiled.data_pass import BERNOULLI, CATEGORICAL, GAUSSIAN

BATCH = at.SingleLocation(dim=6, length=5, signal=5.0, noise=0.2, seed=2).sample(300, seed=3)
X = BATCH.tokens
Y = BATCH.target
KINDS = {
    "numbers": (SingleLocationRegressor, Y),
    "two classes": (SingleLocationClassifier, np.where(Y > 0, "up", "down")),
    "three classes": (SingleLocationClassifier, np.digitize(Y, [-0.4, 0.4])),
}


def answer(model):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


THREE = pytest.param("three classes", marks=pytest.mark.slow)


@pytest.mark.parametrize("kind", ["numbers", "two classes", THREE])
def test_batches_blocks_and_one_array_give_the_same_model(kind):
    """7 uneven batches, a dask array cut in all three directions, and everything at once:
    to 1e-8.
    """
    family, y = KINDS[kind]
    cuts = [0, 3, 50, 90, 160, 161, 240, 300]
    pieces = [(X[a:b], y[a:b]) for a, b in itertools.pairwise(cuts)]
    whole = family().fit_batches([(X, y)], passes=14)
    blocks = da.from_array(X, chunks=(70, 2, 4))
    for model in (
        family().fit_batches(pieces, passes=14),
        family().fit_batches(lambda: iter(pieces), passes=14),
        family().fit_batches(blocks, da.from_array(y, chunks=64), passes=14),
        family().fit_batches(blocks, y, passes=14),
    ):
        np.testing.assert_allclose(answer(model), answer(whole), rtol=ROOT_EPS, atol=ROOT_EPS)
    assert np.mean(whole.locate(X) == BATCH.location) > 0.95
    known = X[np.arange(300), BATCH.location]
    oracle = LinearRegression() if kind == "numbers" else LogisticRegression()
    # as good as being told the location
    assert whole.score(X, y) > oracle.fit(known, y).score(known, y) - 0.02


def test_the_passes_are_the_steps_of_em_in_memory():
    """The same start followed by `run_em` on all bags, as `fit` runs it: to 1e-8."""
    streamed = SingleLocationRegressor().fit_batches(
        da.from_array(X, chunks=(41, 5, 6)), Y, passes=14
    )
    tokens = X.reshape(-1, 6)
    scaling = scaling_of(
        len(tokens), tokens.sum(axis=0), (tokens**2).sum(axis=0), Y, np.ones(300)
    )
    labels = (Y - scaling.label_mean) / scaling.label_scale
    data = Data(scaling.tokens(tokens), np.arange(301) * 5, labels, np.ones(300), GAUSSIAN, 1)
    data = data._replace(origin=scaling.origin)
    starts = make_starts(
        bag_moments(data), GAUSSIAN, scaling.origin, 8, streamed._stream.seed
    )
    em = run_em(starts[next(iter(streamed._stream.ems))], data, True, 12, tol=0)
    output = bag_answers(from_em(em, GAUSSIAN), data.tokens, data.offsets).output[:, 0]
    np.testing.assert_allclose(
        streamed.predict(X),
        output * scaling.label_scale + scaling.label_mean,
        rtol=ROOT_EPS,
        atol=ROOT_EPS,
    )


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_class_steps_climb_to_the_ridge_logistic_regression(classes):
    """With responsibilities held fixed: the penalised likelihood never falls,
    and the limit is scikit-learn's answer.
    """
    rng = np.random.default_rng(classes)
    x, labels = rng.standard_normal((200, 4)), rng.integers(0, classes, 100).astype(float)
    x[::2, 0] += labels
    r = rng.uniform(0, 1, 200)
    weight = rng.uniform(0.5, 2, 100)
    family, m = (BERNOULLI, 1) if classes == 2 else (CATEGORICAL, classes)
    data = Data(x, np.arange(101) * 2, labels, weight, family, m)
    values = values_from(np.zeros((4, m)), np.zeros(m), 1.0, 0.7)
    rho, each = r * data.per_token(weight), data.per_token(labels)

    def objective(v):
        w = x @ v.weights + v.bias
        return rho @ label_log_density(each, w, family, 1.0) - 0.35 * (v.weights**2).sum()

    heights = [objective(values)]
    for _ in range(1500):
        values = class_step(values, class_sums(values, data, r))
        heights.append(objective(values))
    assert np.diff(heights).min() > -1e-10 * abs(heights[-1])
    peer = LogisticRegression(C=1 / 0.7, tol=1e-10, max_iter=5000, solver="newton-cg").fit(
        x, each, sample_weight=rho
    )
    np.testing.assert_allclose(values.weights.T, peer.coef_, atol=SIX_DIGITS)
    np.testing.assert_allclose(
        values.bias - values.bias.mean(),
        peer.intercept_ - peer.intercept_.mean(),
        atol=SIX_DIGITS,
    )


@pytest.mark.parametrize("kind", ["two classes", THREE])
def test_classes_settle_where_em_in_memory_settles(kind):
    """After many passes neither a further pass nor EM's own step in memory (L-BFGS for V)
    moves the probabilities.
    """
    family, y = KINDS[kind]
    model = family().fit_batches([(X, y)], passes=250)
    stream = model._stream
    index = np.searchsorted(model.classes_, y).astype(float)
    data = Data(
        model.scaling_.tokens(X.reshape(-1, 6)),
        np.arange(301) * 5,
        index,
        np.ones(300),
        stream.family,
        stream.outputs,
        model.scaling_.origin,
    )
    em = run_em(next(iter(stream.ems.values())), data, True, 40, tol=0)
    further = bag_answers(from_em(em, stream.family), data.tokens, data.offsets).output
    np.testing.assert_allclose(further, model.predict_proba(X), atol=2e-4)


def test_weights_count_bags():
    """A bag of weight two is the bag twice; one of weight zero is no bag."""
    weight = np.r_[np.full(100, 2.0), np.ones(150), np.zeros(50)]
    rows = np.r_[np.arange(100), np.arange(250)]
    weighted = SingleLocationRegressor().fit_batches(
        [(X[:1], Y[:1], [2.0]), (X[1:], Y[1:], weight[1:])], passes=8
    )
    repeated = SingleLocationRegressor().fit_batches([(X[rows], Y[rows])], passes=8)
    np.testing.assert_allclose(
        weighted.predict(X), repeated.predict(X), rtol=ROOT_EPS, atol=ROOT_EPS
    )


def test_memory_does_not_grow_with_the_number_of_batches():
    def peak(batches):
        def read():
            for i in range(batches):
                batch = at.SingleLocation(dim=20, length=4, signal=5.0).sample(50, seed=i)
                yield batch.tokens, batch.target

        tracemalloc.start()
        SingleLocationRegressor(n_starts=2).fit_batches(read, passes=3)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(2)  # whatever is loaded once
    assert peak(60) < 1.2 * peak(4)


def test_a_dask_block_is_computed_when_its_turn_comes():
    held = []
    blocks = da.from_array(X, chunks=(100, 5, 6)).map_blocks(
        lambda b: (held.append(len(b)), b)[1], dtype=float, meta=X[:0]
    )
    batches = dask_batches(blocks, Y)
    assert is_dask(blocks) and not is_dask(X) and len(batches) == 3
    iterator = iter(batches)
    next(iterator)
    assert held == [100]
    assert [b.shape for b, _ in iterator] == [(100, 5, 6)] * 2


def test_refusals_are_one_sentence():
    blocks = da.from_array(X, chunks=(100, 5, 6))
    with pytest.raises(
        AttnscopeError,
        match=r"y of dask_batches must be one per bag, shape \(300,\), got shape \(7,\)",
    ):
        SingleLocationRegressor().fit_batches(blocks, Y[:7])
    with pytest.raises(AttnscopeError, match="the labels of the dask array"):
        SingleLocationRegressor().fit_batches(blocks)
    with pytest.raises(
        AttnscopeError, match=r"a dask array \(n, L, d\), got shape \(300, 5\)"
    ):
        dask_batches(blocks[:, :, 0], Y)
    with pytest.raises(AttnscopeError, match=r"try bags.compute_chunk_sizes\(\)"):
        dask_batches(blocks[da.from_array(Y, chunks=100) > 0], Y)
    with pytest.raises(AttnscopeError, match="finite numbers"):
        SingleLocationRegressor().fit_batches(
            da.from_array(np.where(X > 2, np.nan, X), chunks=(100, 5, 6)), Y
        )
    with pytest.raises(AttnscopeError, match="inside each batch"):
        SingleLocationRegressor().fit_batches([(X, Y)], Y)
    with pytest.raises(AttnscopeError, match="no batch left"):
        SingleLocationRegressor().fit_batches(iter([(X, Y)]))
    with pytest.raises(AttnscopeError, match=r"a batch of .* must be \(bags, y\)"):
        SingleLocationRegressor().fit_batches(X)
    with pytest.raises(AttnscopeError, match=r"\(EM only\)"):
        SingleLocationClassifier(pooling="sigmoid").partial_fit(X, Y > 0)
    with pytest.raises(AttnscopeError, match="at least two classes over the first pass"):
        SingleLocationClassifier().partial_fit(X, np.zeros(300, int))
    with pytest.raises(AttnscopeError, match="classes seen in fit"):
        SingleLocationClassifier().partial_fit(X, Y > 0).partial_fit(X, np.full(300, 7))
    with pytest.raises(AttnscopeError, match=r"sample_weight of .* must be >= 0"):
        SingleLocationRegressor().partial_fit(X, Y, np.full(300, -1.0))


@pytest.mark.parametrize("kind", KINDS)
def test_a_streamed_model_is_saved_and_diagnosed_like_any_other(kind, tmp_path):
    family, y = KINDS[kind]
    model = family().fit_batches([(X, y)], passes=12)
    model.save(tmp_path / "m.npz")
    np.testing.assert_array_equal(answer(at.load_model(tmp_path / "m.npz")), answer(model))
    diagnosis = model.diagnose(X, y)
    assert np.isfinite(diagnosis.loss) and diagnosis.attended < 2


def test_diagnosis_of_streamed_classes_compares_with_their_shares():
    batch = at.SingleLocation(8, 5, signal=4.0).sample(300, seed=1)
    y = np.where(batch.target > 0.3, "up", "down")
    model = at.SingleLocationClassifier().fit_batches([(batch.tokens, y)], passes=8)
    found = model.diagnose(batch.tokens, y)
    share = np.mean(y == "up")
    assert found.mean_pool_loss == pytest.approx(
        -share * np.log(share) - (1 - share) * np.log(1 - share)
    )
    assert found.gain > 0
