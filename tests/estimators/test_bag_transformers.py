"""Scaler, PCA and pooling of bags: against scikit-learn's on all tokens, form by form, and in
pipelines; each sentence.
"""

import numpy as np
import pandas as pd
import pytest
from helpers.tolerances import EXACT, SOLVED
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import attnscope as at
from attnscope.errors import AttnscopeError

N, D = 40, 6
RNG = np.random.default_rng(11)
UNITS = 10.0 ** np.arange(-2, 4)
BAGS = [RNG.standard_normal((length, D)) * UNITS + 3 for length in RNG.integers(1, 7, N)]
FLAT = np.concatenate(BAGS)
TASK = at.SingleLocation(dim=D, length=5, signal=5.0, noise=0.1, seed=3).sample(80, seed=1)
QUICK = {
    "gate": "quadratic",
    "pooling": "softmax",
    "loss": "mixture",
    "n_starts": 2,
    "alpha": (np.inf, 0.1),
}
STEPS = [at.BagScaler(), at.BagPCA(3), at.BagPooling()]


def test_scaler_is_that_of_all_tokens():
    expected = StandardScaler().fit(FLAT)
    found = at.BagScaler().fit(BAGS)
    np.testing.assert_allclose(found.scale_, expected.scale_, rtol=EXACT)
    out = found.transform(BAGS)
    np.testing.assert_allclose(np.concatenate(out), expected.transform(FLAT), atol=SOLVED)
    assert [len(bag) for bag in out] == [len(bag) for bag in BAGS]
    plain = at.BagScaler(with_mean=False, with_std=False).fit_transform(BAGS)
    np.testing.assert_array_equal(np.concatenate(plain), FLAT)


def test_a_constant_feature_is_centred_and_not_scaled():
    bags = np.concatenate([TASK.tokens, np.full((80, 5, 1), 1 / 3)], axis=2)
    out = at.BagScaler().fit_transform(bags)
    assert np.abs(out[..., -1]).max() < EXACT


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("size", [None, 3, 0.9])
def test_pca_is_that_of_all_tokens(size, whiten):
    tokens = FLAT / UNITS
    bags = [bag / UNITS for bag in BAGS]
    expected = PCA(size, whiten=whiten, svd_solver="full").fit(tokens)
    found = at.BagPCA(size, whiten=whiten).fit(bags)
    np.testing.assert_allclose(
        found.explained_variance_ratio_, expected.explained_variance_ratio_, rtol=SOLVED
    )
    same = np.sign(np.einsum("ij,ij->i", found.components_, expected.components_))
    np.testing.assert_allclose(
        np.concatenate(found.transform(bags)), expected.transform(tokens) * same, atol=SOLVED
    )
    assert (found.components_.max(axis=1) == np.abs(found.components_).max(axis=1)).all()


def test_pooling_by_hand():
    how = ("mean", "max", "min", "std", "sum")
    found = at.BagPooling(how).fit_transform(BAGS)
    by_hand = [[getattr(np, name)(bag, axis=0) for name in how] for bag in BAGS]
    np.testing.assert_allclose(found, np.reshape(by_hand, (N, -1)), rtol=SOLVED, atol=SOLVED)
    names = at.BagPooling(("mean", "max")).fit(BAGS).get_feature_names_out()
    assert names[[0, D]].tolist() == ["mean x0", "max x0"]


# -- forms -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS[:2], ids=["scaler", "pca"])
def test_bags_come_back_as_they_were_given(step):
    x = TASK.tokens
    step = clone(step).fit(x)
    expected = step.transform(x)
    width = expected.shape[2]
    np.testing.assert_allclose(np.stack(step.transform(list(x))), expected, rtol=EXACT)
    assert step.transform(x[3]).shape == (5, width)
    mask = np.repeat([1, 0], [5, 2]) * np.ones((80, 1), int)
    padded = np.concatenate([x, np.full((80, 2, D), 1e6)], axis=1)
    tokens, kept = step.transform((padded, mask))
    np.testing.assert_allclose(tokens[:, :5], expected, rtol=EXACT)
    assert not tokens[:, 5:].any() and kept.dtype == bool
    order = np.random.default_rng(2).permutation(400)
    ids = np.repeat(np.arange(80), 5)[order]
    rows = x.reshape(-1, D)[order]
    tokens, again = step.transform((rows, ids))
    np.testing.assert_allclose(tokens, expected.reshape(-1, width)[order], rtol=EXACT)
    assert again is ids
    frame = pd.DataFrame(rows, columns=list("abcdef"), index=order).assign(bag=ids, label=ids)
    named = clone(step).fit(frame, "label")
    out = named.transform(frame)
    assert out.index.tolist() == order.tolist() and out["label"].tolist() == ids.tolist()
    np.testing.assert_allclose(
        out[named.get_feature_names_out()].to_numpy(), tokens, rtol=SOLVED, atol=SOLVED
    )


def test_polars_tables_come_back():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"u": [1.0, 3.0, 5.0], "bag": ["a", "a", "b"]})
    out = at.BagScaler().fit_transform(frame)
    assert isinstance(out, polars.DataFrame) and abs(out["u"].to_numpy().sum()) < EXACT


# -- pipelines -------------------------------------------------------------------------------------


def test_a_pipeline_of_bags_in_cross_validation_and_search():
    model = at.SingleLocationRegressor(**QUICK)
    pipe = Pipeline([("scale", at.BagScaler()), ("model", model)])
    for bags in (TASK.tokens, list(TASK.tokens)):
        found = cross_val_score(pipe, bags, TASK.target, cv=2)
        plain = cross_val_score(model, bags, TASK.target, cv=2)
        # the model scales by itself
        np.testing.assert_allclose(found, plain, rtol=1e-6)
    pipe = make_pipeline(at.BagPCA(), model)
    search = GridSearchCV(pipe, {"bagpca__n_components": [1, D]}, cv=2)
    assert search.fit(TASK.tokens, TASK.target).best_params_ == {"bagpca__n_components": D}
    labels = TASK.target > 0
    classes = make_pipeline(at.BagScaler(), at.SingleLocationClassifier(**QUICK))
    assert classes.fit(TASK.tokens, labels).score(TASK.tokens, labels) > 0.9


def test_pooling_before_any_estimator():
    pipe = make_pipeline(at.BagPooling(("mean", "max")), Ridge())
    x = TASK.tokens
    both = np.concatenate([x.mean(axis=1), x.max(axis=1)], axis=1)
    found = cross_val_score(pipe, list(x), TASK.target, cv=3)
    np.testing.assert_allclose(found, cross_val_score(Ridge(), both, TASK.target, cv=3))


def test_a_table_with_its_labels_goes_through_a_pipeline():
    frame = pd.DataFrame(TASK.tokens.reshape(-1, D), columns=list("abcdef"))
    frame = frame.assign(bag=np.repeat(np.arange(80), 5), label=np.repeat(TASK.target, 5))
    pipe = make_pipeline(at.BagScaler(), at.SingleLocationRegressor(**QUICK))
    found = pipe.fit(frame, "label").predict(frame)
    plain = make_pipeline(at.BagScaler(), at.SingleLocationRegressor(**QUICK))
    expected = plain.fit(TASK.tokens, TASK.target).predict(TASK.tokens)
    np.testing.assert_allclose(found, expected, rtol=SOLVED)


# -- sentences -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (at.BagScaler(with_mean="yes"), "with_mean"),
        (at.BagPCA(0), "n_components"),
        (at.BagPCA(1.5), "n_components"),
        (at.BagPCA(D + 1), "at most 6"),
        (at.BagPCA(whiten=3), "whiten"),
        (at.BagPooling("median"), "'mean', 'max'"),
        (at.BagPooling(()), "'mean', 'max'"),
    ],
)
def test_bad_parameters(step, words):
    with pytest.raises(AttnscopeError, match=words):
        step.fit(BAGS)


def test_whitening_a_direction_without_spread():
    flat = np.concatenate([TASK.tokens, np.ones((80, 5, 1))], axis=2)
    with pytest.raises(AttnscopeError, match="whiten=False"):
        at.BagPCA(whiten=True).fit(flat)
    with pytest.raises(AttnscopeError, match="two tokens"):
        at.BagPCA().fit(flat[:1, :1])


@pytest.mark.parametrize("step", STEPS, ids=["scaler", "pca", "pooling"])
def test_bad_bags(step):
    with pytest.raises(NotFittedError, match="fit"):
        clone(step).transform(BAGS)
    fitted = clone(step).fit(BAGS)
    with pytest.raises(AttnscopeError, match="6 features"):
        fitted.transform([bag[:, :4] for bag in BAGS])
    with pytest.raises(AttnscopeError, match="BagScaler"):
        clone(step).fit(FLAT)
    with pytest.raises(AttnscopeError, match="neither NaN"):
        fitted.transform([np.full((2, D), np.nan)])


def test_what_is_not_made_for_bags_is_told_what_is(tmp_path):
    for i, bag in enumerate(BAGS[:5]):
        np.save(tmp_path / f"{i}.npy", bag)
    files = at.open_bags(tmp_path)
    for step in (StandardScaler(), PCA()):
        with pytest.raises(AttnscopeError, match="BagScaler"):
            make_pipeline(step, at.SingleLocationRegressor(**QUICK)).fit(
                files, np.arange(5.0)
            )
    out = at.BagScaler().fit_transform(files)
    np.testing.assert_allclose(np.concatenate(out).mean(axis=0), 0, atol=SOLVED)
