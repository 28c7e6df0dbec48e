"""The scikit-learn faces: parameters, clones, pipelines, searches, input forms, bad input, classes, saving, diagnosis."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.estimators.classifier import SingleLocationClassifier
from attnscope.estimators.regressor import SingleLocationRegressor
from attnscope.estimators.saved import load_model

TASK = at.SingleLocation(dim=6, length=5, signal=5.0, noise=0.1, seed=3)
TRAIN, TEST = TASK.sample(150, seed=1), TASK.sample(300, seed=2)
X, Y = TRAIN.tokens, TRAIN.target
QUICK = {"gate": "quadratic", "pooling": "softmax", "loss": "mixture", "n_starts": 4}


@pytest.fixture(scope="module")
def model():
    return SingleLocationRegressor(**QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def binary():
    return SingleLocationClassifier(**QUICK).fit(X, np.where(Y > 0, "up", "down"))


# -- scikit-learn ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SingleLocationRegressor, SingleLocationClassifier])
def test_parameters_round_trip_and_init_does_nothing(kind):
    assert set(kind().get_params()) == {
        "gate", "pooling", "loss", "alpha", "heads", "n_starts", "robust", "random_state", "n_jobs", "verbose",
    }  # fmt: skip
    odd = kind(alpha=[3, "x"], n_starts=-1)  # refused by fit, not here
    assert clone(odd).alpha == [3, "x"]
    assert kind().set_params(alpha=2.0).alpha == 2.0
    assert vars(kind(gate="linear")) == kind(gate="linear").get_params()


def test_pipeline_search_and_cross_validation():
    half = make_pipeline(FunctionTransformer(lambda x: x / 2), SingleLocationRegressor(**QUICK, alpha=(np.inf, 0.1)))
    assert half.fit(X, Y).score(TEST.tokens, TEST.target) > 0.9
    search = GridSearchCV(SingleLocationRegressor(**QUICK), {"alpha": [(np.inf, 0.1), (np.inf, 1e4)]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"alpha": (np.inf, 0.1)}
    assert cross_val_score(SingleLocationRegressor(**QUICK, alpha=(np.inf, 0.1)), X, Y, cv=2).min() > 0.8


def test_fit_forgets_and_repeats(model):
    again = SingleLocationRegressor(**QUICK).fit(X[:50], Y[:50]).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    threads = SingleLocationRegressor(**QUICK, n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(threads.predict(X), model.predict(X))


def test_bags_of_weight_zero_take_no_part(model):
    junk = np.concatenate([X, 100 * np.ones((40, 5, 6))]), np.concatenate([Y, np.full(40, 1e3)])
    weighted = SingleLocationRegressor(**QUICK).fit(*junk, sample_weight=np.repeat([1.0, 0.0], [150, 40]))
    np.testing.assert_allclose(weighted.predict(TEST.tokens), model.predict(TEST.tokens), rtol=1e-6, atol=1e-9)


def test_generators_and_verbose(capsys):
    kind = {**QUICK, "n_starts": 1, "verbose": True}
    a, b = (SingleLocationRegressor(**kind, random_state=np.random.RandomState(3)).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert "start sum: held-out loss" in capsys.readouterr().out


def test_units_do_not_matter(model):
    """Tokens and labels in other units give the same model in those units."""
    scale = 10.0 ** np.arange(-3, 3)
    other = SingleLocationRegressor(**QUICK).fit(X * scale + 7, 1e4 * Y - 5)
    np.testing.assert_allclose(
        (other.predict(TEST.tokens * scale + 7) + 5) / 1e4, model.predict(TEST.tokens), atol=0.02
    )


# -- input forms ----------------------------------------------------------------------------------------------------------


def test_array_list_and_mask_agree(model):
    padded, mask = np.full((300, 7, 6), 1e9), np.zeros((300, 7), bool)
    padded[:, 1:6], mask[:, 1:6] = TEST.tokens, True
    expected = model.predict(TEST.tokens)
    np.testing.assert_allclose(model.predict(list(TEST.tokens)), expected, rtol=1e-12)
    np.testing.assert_allclose(model.predict((padded, mask)), expected, rtol=1e-12)
    where = model.locate(TEST.tokens)
    np.testing.assert_array_equal(model.locate((padded, mask)), where + 1)
    np.testing.assert_array_equal(model.locate(list(TEST.tokens)), where)
    weights = model.attention(TEST.tokens)
    assert weights.shape == (300, 5)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
    as_list, masked = model.attention(list(TEST.tokens)), model.attention((padded, mask))
    assert isinstance(as_list, list)
    np.testing.assert_allclose(as_list, weights, rtol=1e-12)
    assert masked.shape == (300, 7) and not masked[~mask].any()


def test_ragged_bags_and_order_of_tokens():
    rng = np.random.default_rng(4)
    bags = [np.concatenate([x, rng.standard_normal((rng.integers(0, 6), 6))]) for x in X]
    model = SingleLocationRegressor(**QUICK).fit(bags, Y)
    assert np.mean(model.locate(bags) == TRAIN.location) > 0.95
    np.testing.assert_allclose(model.predict([b[::-1] for b in bags]), model.predict(bags), rtol=1e-10, atol=1e-12)


def test_float32_and_integers(model):
    single = SingleLocationRegressor(**QUICK).fit(X.astype("float32"), Y.astype("float32"))
    np.testing.assert_allclose(single.predict(X), model.predict(X), atol=1e-4)
    counts = np.round(4 * X).astype(int)
    assert np.isfinite(SingleLocationRegressor(**QUICK).fit(counts, Y).predict(counts)).all()


def test_locating_with_the_label_is_at_least_as_good():
    task = at.SingleLocation(dim=6, length=8, signal=1.5, noise=0.05, seed=3)
    train, test = task.sample(600, seed=1), task.sample(1000, seed=2)
    model = SingleLocationRegressor(**QUICK).fit(train.tokens, train.target)
    without, given = (np.mean(model.locate(test.tokens, y) == test.location) for y in (None, test.target))
    assert given > without + 0.05  # the label narrows eight tokens down; other seeds: .67-.69 without, .81-.84 with


# -- bad input ------------------------------------------------------------------------------------------------------------

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
    "nan": (NAN, Y, {}, "must be finite numbers of size at most 1e.50"),
    "padding": ((X, PADDING), Y, {}, "True somewhere in every bag, got only padding in bag 7"),
    "mask shape": ((X, PADDING[:, :3]), Y, {}, r"bool of shape \(n, L\)"),
    "empty bag": ([X[0], X[1][:0]], Y[:2], {}, "L_i >= 1"),
    "no bags": ([], [], {}, "at least one bag"),
    "strings": (np.full((2, 2, 2), "a"), Y[:2], {}, "must be real numbers"),
    "one bag": (X[:1], Y[:1], {}, "must be at least two bags, got 1 bag"),
    "y length": (X, Y[:-1], {}, r"y of SingleLocationRegressor.fit must be one label per bag, shape \(150,\)"),
    "y nan": (X, np.where(np.arange(150) == 4, np.nan, Y), {}, "must be finite"),
    "y strings": (X, np.full(150, "a"), {}, "y of SingleLocationRegressor.fit must be"),
    "gate": (X, Y, {"gate": "cubic"}, "gate of SingleLocationRegressor.fit must be one of 'linear', 'quadratic'"),
    "pooling": (X, Y, {"pooling": "max"}, "pooling of SingleLocationRegressor.fit must be one of"),
    "loss": (X, Y, {"loss": None}, "loss of SingleLocationRegressor.fit must be one of"),
    "sigmoid mixture": (X, Y, {"pooling": "sigmoid", "loss": "mixture"}, 'must be "attention" or "auto"'),
    "heads": (X, Y, {"heads": 2}, "heads of SingleLocationRegressor.fit must be 1"),
    "alpha word": (X, Y, {"alpha": "auto"}, 'must be "cv", a number or a pair'),
    "alpha negative": (X, Y, {"alpha": -1.0}, "alpha of SingleLocationRegressor.fit must be >= 0"),
    "n_starts": (X, Y, {"n_starts": 0}, "n_starts of SingleLocationRegressor.fit must be an integer >= 1"),
    "n_jobs": (X, Y, {"n_jobs": 0}, "n_jobs of SingleLocationRegressor.fit"),
    "robust": (X, Y, {"robust": "yes"}, "robust of SingleLocationRegressor.fit must be True or False"),
    "random_state": (X, Y, {"random_state": -3}, "random_state of SingleLocationRegressor.fit"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(case):
    bags, y, parameters, message = BAD[case]
    with pytest.raises(AttnscopeError, match=message):
        SingleLocationRegressor(**parameters).fit(bags, y)


def test_bad_input_later(model, tmp_path):
    with pytest.raises(AttnscopeError, match="must be tokens with 6 features as in fit, got 5 features"):
        model.predict(X[..., :5])
    with pytest.raises(AttnscopeError, match=r"coverage of SingleLocationRegressor\.predict_interval"):
        model.predict_interval(X, coverage=1.5)
    with pytest.raises(AttnscopeError, match="sample_weight"):
        SingleLocationRegressor().fit(X, Y, sample_weight=-np.ones(150))
    with pytest.raises(NotFittedError, match="needs a fitted model"):
        SingleLocationRegressor().predict(X)
    (tmp_path / "x.npz").write_text("nothing")
    with pytest.raises(AttnscopeError, match="a file written by save_model"):
        load_model(tmp_path / "x.npz")


def test_constant_labels_and_features():
    constant = SingleLocationRegressor(**QUICK).fit(X, np.full(150, 3.5))
    np.testing.assert_allclose(constant.predict(TEST.tokens), 3.5, atol=1e-6)
    assert np.isfinite(constant.predict_interval(TEST.tokens)).all()
    flat = np.concatenate([X, np.full((150, 5, 1), 1e6)], axis=2)
    model = SingleLocationRegressor(**QUICK).fit(flat, Y)
    assert model.score(flat, Y) > 0.9
    same = np.ones((20, 3, 2))
    assert np.isfinite(SingleLocationRegressor(**QUICK).fit(same, np.arange(20.0)).predict(same)).all()


def test_two_bags_are_enough_to_answer():
    assert np.isfinite(SingleLocationRegressor().fit(X[:2], Y[:2]).predict(X)).all()


# -- classes --------------------------------------------------------------------------------------------------------------


def test_binary(binary):
    truth = np.where(TEST.target > 0, "up", "down")
    assert list(binary.classes_) == ["down", "up"]
    p = binary.predict_proba(TEST.tokens)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert binary.score(TEST.tokens, truth) > 0.9  # logistic regression with the location known: .957
    assert np.mean(binary.locate(TEST.tokens) == TEST.location) > 0.97
    assert np.mean(binary.locate(TEST.tokens, truth) == TEST.location) > 0.97
    np.testing.assert_array_equal(binary.predict(TEST.tokens), binary.classes_[p.argmax(axis=1)])


def test_three_classes():
    cuts = np.quantile(Y, [1 / 3, 2 / 3])
    model = SingleLocationClassifier(**QUICK).fit(X, np.digitize(Y, cuts))
    p = model.predict_proba(TEST.tokens)
    assert p.shape == (300, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    assert model.score(TEST.tokens, np.digitize(TEST.target, cuts)) > 0.7
    assert np.mean(model.locate(TEST.tokens) == TEST.location) > 0.95


def test_bags_that_are_positive_because_of_one_token():
    """Multiple-instance classification: negative bags hold no special token at all."""
    rng = np.random.default_rng(5)
    tokens, label = rng.standard_normal((400, 6, 8)), np.arange(400) % 2
    tokens[label == 1, rng.integers(0, 6, 200), 0] += 4
    model = SingleLocationClassifier(**QUICK).fit(tokens[:200], label[:200])
    assert (
        model.score(tokens[200:], label[200:]) > 0.9
    )  # the best threshold on the best token's first feature reaches .9475


def test_bad_classes(binary):
    with pytest.raises(AttnscopeError, match="at least two classes, got only"):
        SingleLocationClassifier().fit(X, np.zeros(150))
    with pytest.raises(
        AttnscopeError, match="must be class labels, got numbers with fractions; try SingleLocationRegressor"
    ):
        SingleLocationClassifier().fit(X, Y)
    with pytest.raises(AttnscopeError, match="among the 2 classes seen in fit"):
        binary.locate(X, np.full(150, "sideways"))


# -- saving, diagnosis, variants ------------------------------------------------------------------------------------------


def test_saved_models_answer_alike(model, binary, tmp_path):
    for i, fitted in enumerate((model, binary)):
        fitted.save(tmp_path / f"{i}.npz")
        with np.load(tmp_path / f"{i}.npz", allow_pickle=False) as file:
            assert all(file[name].dtype != object for name in file.files)
        back = load_model(tmp_path / f"{i}.npz")
        assert type(back) is type(fitted) and back.get_params() == fitted.get_params()
        np.testing.assert_array_equal(back.predict(TEST.tokens), fitted.predict(TEST.tokens))
        np.testing.assert_array_equal(back.attention(TEST.tokens), fitted.attention(TEST.tokens))
    np.testing.assert_array_equal(load_model(tmp_path / "0.npz").predict_interval(X), model.predict_interval(X))
    with pytest.raises(NotFittedError, match="needs a fitted model"):
        SingleLocationRegressor().save(tmp_path / "2.npz")


def test_diagnosis(model, binary):
    good = model.diagnose(TEST.tokens, TEST.target)
    assert good.single_location and good.gain_low > 0 and good.attended < 1.3 and "looks like" in str(good)
    assert binary.diagnose(TEST.tokens, np.where(TEST.target > 0, "up", "down")).gain > 0
    rng = np.random.default_rng(6)
    tokens = rng.standard_normal((200, 5, 6))
    spread = SingleLocationRegressor(**QUICK).fit(tokens, tokens.mean(axis=1)[:, 0] + 0.01 * rng.standard_normal(200))
    test = rng.standard_normal((200, 5, 6))
    verdict = spread.diagnose(test, test.mean(axis=1)[:, 0])
    assert not verdict.single_location and "does not look like a single-location problem" in str(verdict)
    pinned = at.SingleLocation(dim=6, length=5, signal=5.0, noise=0.1, location_probs=[1, 0, 0, 0, 0]).sample(
        150, seed=1
    )
    shortcut = SingleLocationRegressor(**QUICK).fit(pinned.tokens, pinned.target).diagnose(pinned.tokens, pinned.target)
    assert "position shortcut" in str(shortcut)


@pytest.mark.parametrize(
    "parameters",
    [
        {"gate": "linear"},
        {"gate": "random-features"},
        {"loss": "attention", "pooling": "softmax"},
        {"pooling": "sigmoid", "loss": "auto"},
        {"robust": True},
        {"alpha": 1.0},
    ],
    ids=str,
)
def test_every_variant_solves_the_easy_case(parameters):
    model = SingleLocationRegressor(**{**QUICK, **parameters}).fit(X, Y)
    assert model.score(TEST.tokens, TEST.target) > 0.9
    assert np.mean(model.locate(TEST.tokens) == TEST.location) > 0.95


def test_two_deciding_tokens_escalate_to_the_sigmoid_gate():
    rng = np.random.default_rng(7)
    tokens, first = rng.standard_normal((600, 6, 5)), rng.integers(0, 6, 600)
    second, rows = (first + rng.integers(1, 6, 600)) % 6, np.arange(600)
    for where in (first, second):
        tokens[rows, where, 0] += 6
    y = tokens[rows, first, 1] + tokens[rows, second, 1]
    model = SingleLocationRegressor().fit(tokens[:300], y[:300])
    assert "sigmoid" in model.stages_
    assert model.score(tokens[300:], y[300:]) > 0.85  # one token alone explains half


def test_partial_fit_refuses_what_em_cannot_do(model):
    with pytest.raises(AttnscopeError, match=r"\(EM only\)"):
        SingleLocationRegressor(pooling="sigmoid").partial_fit(X, Y)
    with pytest.raises(NotFittedError, match="needs a fitted model"):
        SingleLocationRegressor().partial_fit(X, Y).predict(X)  # one pass learns the scale only
    streamed = SingleLocationRegressor().fit_batches([(X, Y)], passes=12)
    with pytest.raises(AttnscopeError, match="partial_fit, which holds no bags out"):
        streamed.predict_interval(X)
    with pytest.raises(AttnscopeError, match="no batch left"):
        SingleLocationRegressor().fit_batches(iter([(X, Y)]))
