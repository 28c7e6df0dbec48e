"""scores, values, decision_function and class_weight: each against the prediction that it is a part
of, put together again by hand.
"""

import numpy as np
import pytest
from helpers.tolerances import EXACT, SOLVED
from scipy.special import expit, softmax
from sklearn.metrics import roc_auc_score
from sklearn.utils.class_weight import compute_class_weight

import attnscope as at
from attnscope.errors import AttnscopeError

TASK = at.SingleLocation(dim=5, length=4, signal=5.0, noise=0.1, seed=3)
DATA = TASK.sample(90, seed=1)
X, Y = DATA.tokens, DATA.target
EM = {
    "gate": "quadratic",
    "pooling": "softmax",
    "loss": "mixture",
    "n_starts": 2,
    "alpha": (np.inf, 0.1),
}
CLASS = EM | {"alpha": (np.inf, 1.0)}
THREE = np.digitize(Y, np.quantile(Y, (0.33, 0.66)))


@pytest.fixture(scope="module")
def model():
    return at.SingleLocationRegressor(**EM).fit(X, Y)


@pytest.fixture(scope="module")
def binary():
    return at.SingleLocationClassifier(**CLASS).fit(X, np.where(Y > 0, "up", "down"))


@pytest.fixture(scope="module")
def witness():
    return at.SingleLocationClassifier(assumption="witness", n_starts=1).fit(X, Y > 0)


# -- scores and values -----------------------------------------------------------------------------


def test_numbers_are_attention_times_values(model):
    attention = softmax(model.scores(X), axis=1)
    np.testing.assert_allclose(attention, model.attention(X), atol=EXACT)
    together = (attention * model.values(X)).sum(axis=1)
    np.testing.assert_allclose(together, model.predict(X), rtol=SOLVED, atol=SOLVED)


def test_classes_are_attention_times_values(binary):
    attention = softmax(binary.scores(X), axis=1)
    together = (attention * binary.values(X)).sum(axis=1)
    np.testing.assert_allclose(together, binary.predict_proba(X)[:, 1], atol=SOLVED)
    three = at.SingleLocationClassifier(**CLASS).fit(X, THREE)
    values = three.values(X)
    assert values.shape == (90, 4, 3)
    together = (three.attention(X)[..., None] * values).sum(axis=1)
    np.testing.assert_allclose(together, three.predict_proba(X), atol=SOLVED)
    assert three.values(list(X))[3].shape == (4, 3)


def test_witnesses_multiply(witness):
    *_, b, _, wrong = witness.fitted_.values.bias
    none = expit(-b) * np.prod(1 - witness.values(X), axis=1)
    route = (1 - wrong) * none + wrong * (1 - none)
    np.testing.assert_allclose(route, witness.predict_proba(X)[:, 0], rtol=SOLVED)


def test_sigmoid_gates_add():
    kind = at.SingleLocationRegressor(pooling="sigmoid", alpha=1.0, n_starts=1, gate="linear")
    model = kind.fit(X[:40], Y[:40])
    weight = expit(model.scores(X))
    added = (weight * model.values(X)).sum(axis=1)
    bias = model.predict(X) - added
    np.testing.assert_allclose(bias, bias[0], rtol=SOLVED, atol=SOLVED)


def test_several_heads_add_to_the_mean_label():
    two = at.SingleLocationRegressor(heads=2, n_starts=2).fit(X, Y)
    parts = [(two.attention(X, h) * two.values(X, h)).sum(axis=1) for h in range(2)]
    together = two.scaling_.label_mean + sum(parts)
    np.testing.assert_allclose(together, two.predict(X), rtol=SOLVED, atol=SOLVED)
    for ask in (two.scores, two.values):
        with pytest.raises(AttnscopeError, match="0 to 1"):
            ask(X)


def test_forms(model):
    padded = np.concatenate([X, np.full((90, 2, 5), 1e6)], axis=1)
    mask = np.repeat([1, 0], [4, 2]) * np.ones((90, 1), int)
    scores = model.scores((padded, mask))
    assert np.isneginf(scores[:, 4:]).all()
    np.testing.assert_allclose(softmax(scores, axis=1)[:, :4], model.attention(X), atol=EXACT)
    assert not model.values((padded, mask))[:, 4:].any()
    flat = model.values((X.reshape(-1, 5), np.repeat(np.arange(90), 4)))
    np.testing.assert_allclose(flat, model.values(X).ravel(), rtol=EXACT)
    with pytest.raises(AttnscopeError, match="5 features"):
        model.scores(X[..., :3])
    with pytest.raises(AttnscopeError, match="needs a fitted model"):
        at.SingleLocationRegressor().values(X)


# -- decision_function -----------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["binary", "witness"])
def test_log_odds_of_two_classes(which, request):
    found = request.getfixturevalue(which)
    odds = found.decision_function(X)
    p = found.predict_proba(X)
    assert odds.shape == (90,) and np.isfinite(odds).all()
    inside = (p > 1e-12).all(axis=1)
    assert inside.any()
    np.testing.assert_allclose(
        odds[inside], np.log(p[inside, 1] / p[inside, 0]), rtol=SOLVED, atol=SOLVED
    )
    np.testing.assert_array_equal(found.classes_[(odds > 0).astype(int)], found.predict(X))
    assert roc_auc_score(Y > 0, odds) > 0.9


def test_log_odds_of_more_classes():
    three = at.SingleLocationClassifier(**CLASS).fit(X, THREE)
    logs = three.decision_function(X)
    np.testing.assert_allclose(np.exp(logs), three.predict_proba(X), atol=EXACT)
    np.testing.assert_array_equal(three.classes_[logs.argmax(axis=1)], three.predict(X))


# -- class_weight ----------------------------------------------------------------------------------

RARE = np.quantile(Y, 0.8) < Y


@pytest.mark.parametrize("given", ["balanced", {False: 0.5, True: 3.0}, {True: 2.0}])
def test_class_weights_are_bag_weights(given, tmp_path):
    if given == "balanced":
        factors = compute_class_weight("balanced", classes=np.array([False, True]), y=RARE)
    else:
        factors = [given.get(False, 1.0), given[True]]
    weight = np.where(RARE, factors[1], factors[0])
    found = at.SingleLocationClassifier(**CLASS, class_weight=given).fit(X, RARE)
    expected = at.SingleLocationClassifier(**CLASS).fit(X, RARE, sample_weight=weight)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=SOLVED)
    found.save(tmp_path / "model.npz")
    loaded = at.load_model(tmp_path / "model.npz")
    again = loaded.fit(X, RARE)
    np.testing.assert_allclose(again.predict_proba(X), found.predict_proba(X), atol=SOLVED)


def test_balanced_counts_weights():
    weight = np.where(np.arange(90) < 45, 1.0, 0.0)
    found = at.SingleLocationClassifier(**CLASS, class_weight="balanced")
    found.fit(X, RARE, sample_weight=weight)
    alone = at.SingleLocationClassifier(**CLASS, class_weight="balanced")
    alone.fit(X[:45], RARE[:45])
    np.testing.assert_allclose(found.predict_proba(X), alone.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("equal", "balanced"),
        (3, "mapping"),
        ({True: -1.0}, ">= 0"),
        ({True: np.nan}, ">= 0"),
        ({"up": 2.0}, "classes among"),
        ({True: 0.0}, "at least two classes"),
    ],
)
def test_bad_class_weights(given, words):
    with pytest.raises(AttnscopeError, match=words):
        at.SingleLocationClassifier(**CLASS, class_weight=given).fit(X, RARE)


def test_class_weights_elsewhere():
    with pytest.raises(AttnscopeError, match="None for numbers"):
        at.SingleLocationRegressor(**EM, class_weight="balanced").fit(X, Y)
    with pytest.raises(AttnscopeError, match="class_weight"):
        at.SingleLocationClassifier(class_weight="balanced").partial_fit(X, RARE)
