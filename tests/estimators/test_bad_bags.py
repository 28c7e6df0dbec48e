"""Bad input of the estimators is one sentence; what is merely poor still gets an answer."""

import numpy as np
import pytest
from helpers.easy_bags import QUICK, TEST, X, Y
from helpers.tolerances import SIX_DIGITS
from sklearn.exceptions import NotFittedError

from attnscope.errors import AttnscopeError
from attnscope.estimators.model_file.read import load_model
from attnscope.estimators.regressor import SingleLocationRegressor

NAN = X.copy()
NAN[3, 2, 1] = np.nan


PADDING = np.ones((150, 5), bool)
PADDING[7] = False


BAD = {
    "two-dimensional": (
        X[:, 0],
        Y,
        {},
        r"bags of SingleLocationRegressor.fit must be an \(n, L, d\) array.*bags\[:, None, :\]",
    ),
    "ragged widths": (
        [X[0], X[1][:, :3]],
        Y[:2],
        {},
        "must be bags of one width, got 6 features in bag 0 and 3 in bag 1",
    ),
    "nan": (NAN, Y, {}, "must be finite numbers of size at most 1e.50, neither NaN nor inf"),
    "padding": (
        (X, PADDING),
        Y,
        {},
        "True somewhere in every bag, got only padding in bag 7",
    ),
    "mask shape": ((X, PADDING[:, :3]), Y, {}, r"bool of shape \(n, L\)"),
    "empty bag": ([X[0], X[1][:0]], Y[:2], {}, "L_i >= 1"),
    "no bags": ([], [], {}, "at least one bag"),
    "strings": (np.full((2, 2, 2), "a"), Y[:2], {}, "must be real numbers"),
    "one bag": (X[:1], Y[:1], {}, "must be at least two bags, got 1 bag"),
    "y length": (
        X,
        Y[:-1],
        {},
        r"y of SingleLocationRegressor.fit must be one label per bag, shape \(150,\)",
    ),
    "y nan": (
        X,
        np.where(np.arange(150) == 4, np.nan, Y),
        {},
        "1 missing of 150, the first for bag 4; drop those bags",
    ),
    "y strings": (X, np.full(150, "a"), {}, "y of SingleLocationRegressor.fit must be"),
    "gate": (
        X,
        Y,
        {"gate": "cubic"},
        "gate of SingleLocationRegressor.fit must be one of 'linear', 'quadratic'",
    ),
    "pooling": (
        X,
        Y,
        {"pooling": "max"},
        "pooling of SingleLocationRegressor.fit must be one of",
    ),
    "loss": (X, Y, {"loss": None}, "loss of SingleLocationRegressor.fit must be one of"),
    "sigmoid mixture": (
        X,
        Y,
        {"pooling": "sigmoid", "loss": "mixture"},
        'must be "attention" or "auto"',
    ),
    "heads": (
        X,
        Y,
        {"heads": 0},
        "heads of SingleLocationRegressor.fit must be an integer >= 1",
    ),
    "heads and sigmoid": (
        X,
        Y,
        {"heads": 2, "pooling": "sigmoid"},
        "pooling of .* 'auto' with several heads",
    ),
    "heads and attention": (
        X,
        Y,
        {"heads": 2, "loss": "attention"},
        "loss of .* must be 'mixture' or 'auto' with several",
    ),
    "no labels": (X, None, {}, "requires y to be passed"),
    "alpha word": (X, Y, {"alpha": "auto"}, 'must be "cv", a number or a pair'),
    "alpha negative": (
        X,
        Y,
        {"alpha": -1.0},
        "alpha of SingleLocationRegressor.fit must be >= 0",
    ),
    "n_starts": (
        X,
        Y,
        {"n_starts": 0},
        "n_starts of SingleLocationRegressor.fit must be an integer >= 1",
    ),
    "n_jobs": (X, Y, {"n_jobs": 0}, "n_jobs of SingleLocationRegressor.fit"),
    "robust": (
        X,
        Y,
        {"robust": "yes"},
        'robust of SingleLocationRegressor.fit must be True, False or "auto"',
    ),
    "random_state": (
        X,
        Y,
        {"random_state": -3},
        "random_state of SingleLocationRegressor.fit",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(case):
    bags, y, parameters, message = BAD[case]
    with pytest.raises(AttnscopeError, match=message):
        SingleLocationRegressor(**parameters).fit(bags, y)


def test_bad_input_later(model, tmp_path):
    with pytest.raises(
        AttnscopeError, match="must be tokens with 6 features as in fit, got 5 features"
    ):
        model.predict(X[..., :5])
    with pytest.raises(
        AttnscopeError, match=r"coverage of SingleLocationRegressor\.predict_interval"
    ):
        model.predict_interval(X, coverage=1.5)
    with pytest.raises(
        AttnscopeError,
        match=r"head of SingleLocationRegressor\.attention must be an integer >= 0 and <= 0",
    ):
        model.attention(X, head=1)
    with pytest.raises(AttnscopeError, match="sample_weight"):
        SingleLocationRegressor().fit(X, Y, sample_weight=-np.ones(150))
    with pytest.raises(NotFittedError, match="needs a fitted model"):
        SingleLocationRegressor().predict(X)
    (tmp_path / "x.npz").write_text("nothing")
    with pytest.raises(AttnscopeError, match="a file written by save_model"):
        load_model(tmp_path / "x.npz")


def test_constant_labels_and_features():
    constant = SingleLocationRegressor(**QUICK).fit(X, np.full(150, 3.5))
    np.testing.assert_allclose(constant.predict(TEST.tokens), 3.5, atol=SIX_DIGITS)
    assert np.isfinite(constant.predict_interval(TEST.tokens)).all()
    flat = np.concatenate([X, np.full((150, 5, 1), 1e6)], axis=2)
    model = SingleLocationRegressor(**QUICK).fit(flat, Y)
    assert model.score(flat, Y) > 0.9
    same = np.ones((20, 3, 2))
    assert np.isfinite(
        SingleLocationRegressor(**QUICK).fit(same, np.arange(20.0)).predict(same)
    ).all()


def test_two_bags_are_enough_to_answer():
    assert np.isfinite(SingleLocationRegressor().fit(X[:2], Y[:2]).predict(X)).all()


def test_partial_fit_refuses_what_em_cannot_do(model):
    with pytest.raises(AttnscopeError, match=r"\(EM only\)"):
        SingleLocationRegressor(pooling="sigmoid").partial_fit(X, Y)
    with pytest.raises(NotFittedError, match="needs a fitted model"):
        # one pass learns the scale only
        SingleLocationRegressor().partial_fit(X, Y).predict(X)
    streamed = SingleLocationRegressor().fit_batches([(X, Y)], passes=12)
    with pytest.raises(AttnscopeError, match="partial_fit, which holds no bags out"):
        streamed.predict_interval(X)
    with pytest.raises(AttnscopeError, match="no batch left"):
        SingleLocationRegressor().fit_batches(iter([(X, Y)]))
