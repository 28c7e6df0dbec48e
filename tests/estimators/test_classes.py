"""The classifier: two classes, three, one deciding token, bad classes; saved models."""

import numpy as np
import pytest
from helpers.easy_bags import QUICK, TEST, X, Y
from helpers.tolerances import EXACT
from sklearn.exceptions import NotFittedError

from attnscope.errors import AttnscopeError
from attnscope.estimators.classifier import SingleLocationClassifier
from attnscope.estimators.model_file.read import load_model
from attnscope.estimators.regressor import SingleLocationRegressor


def test_binary(binary):
    truth = np.where(TEST.target > 0, "up", "down")
    assert list(binary.classes_) == ["down", "up"]
    p = binary.predict_proba(TEST.tokens)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=EXACT)
    # logistic regression with the location known: .957
    assert binary.score(TEST.tokens, truth) > 0.9
    assert np.mean(binary.locate(TEST.tokens) == TEST.location) > 0.97
    assert np.mean(binary.locate(TEST.tokens, truth) == TEST.location) > 0.97
    np.testing.assert_array_equal(
        binary.predict(TEST.tokens), binary.classes_[p.argmax(axis=1)]
    )


def test_three_classes():
    cuts = np.quantile(Y, [1 / 3, 2 / 3])
    model = SingleLocationClassifier(**QUICK).fit(X, np.digitize(Y, cuts))
    p = model.predict_proba(TEST.tokens)
    assert p.shape == (300, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=EXACT)
    assert model.score(TEST.tokens, np.digitize(TEST.target, cuts)) > 0.7
    assert np.mean(model.locate(TEST.tokens) == TEST.location) > 0.95


def test_bags_that_are_positive_because_of_one_token():
    """Multiple-instance classification: negative bags hold no special token at all."""
    rng = np.random.default_rng(5)
    tokens = rng.standard_normal((400, 6, 8))
    label = np.arange(400) % 2
    tokens[label == 1, rng.integers(0, 6, 200), 0] += 4
    model = SingleLocationClassifier(**QUICK).fit(tokens[:200], label[:200])
    assert (
        model.score(tokens[200:], label[200:]) > 0.9
    )  # the best threshold on the best token's first feature reaches .9475


def test_bad_classes(binary):
    with pytest.raises(AttnscopeError, match="at least two classes, got only"):
        SingleLocationClassifier().fit(X, np.zeros(150))
    with pytest.raises(
        AttnscopeError,
        match="must be class labels, got numbers with fractions; try SingleLocationRegressor",
    ):
        SingleLocationClassifier().fit(X, Y)
    with pytest.raises(AttnscopeError, match="must be 1 for classes"):
        SingleLocationClassifier(heads=2).fit(X, Y > 0)
    with pytest.raises(AttnscopeError, match="among the 2 classes seen in fit"):
        binary.locate(X, np.full(150, "sideways"))


def test_saved_models_answer_alike(model, binary, tmp_path):
    for i, fitted in enumerate((model, binary)):
        fitted.save(tmp_path / f"{i}.npz")
        with np.load(tmp_path / f"{i}.npz", allow_pickle=False) as file:
            assert all(file[name].dtype != object for name in file.files)
        back = load_model(tmp_path / f"{i}.npz")
        assert type(back) is type(fitted) and back.get_params() == fitted.get_params()
        np.testing.assert_array_equal(back.predict(TEST.tokens), fitted.predict(TEST.tokens))
        np.testing.assert_array_equal(
            back.attention(TEST.tokens), fitted.attention(TEST.tokens)
        )
    np.testing.assert_array_equal(
        load_model(tmp_path / "0.npz").predict_interval(X), model.predict_interval(X)
    )
    with pytest.raises(NotFittedError, match="needs a fitted model"):
        SingleLocationRegressor().save(tmp_path / "2.npz")
