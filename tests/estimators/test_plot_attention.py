"""The figure of one bag: its numbers are the model's, it misleads nobody, and what cannot be drawn
is one sentence.
"""

import numpy as np
import pytest
from helpers.tolerances import EXACT

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.estimators.plot_attention import (
    MAX_COLUMN_TOKENS,
    MIN_DRAWN_ATTENTION,
    MIN_VALUE_ATTENTION,
)
from attnscope.figures.check import problems

TASK = at.SingleLocation(dim=5, length=6, signal=3.0, noise=0.3, seed=3)
DATA = TASK.sample(90, seed=1)
X, Y = DATA.tokens, DATA.target
EM = {"pooling": "softmax", "loss": "mixture", "n_starts": 2, "alpha": (np.inf, 1.0)}
WORDS = ["the", "film", "was", "long", "but", "good"]


@pytest.fixture(scope="module")
def model():
    return at.SingleLocationRegressor(**EM).fit(X, Y)


@pytest.fixture(scope="module")
def classes():
    return at.SingleLocationClassifier(**EM).fit(X, np.where(Y > 0, "up", "down"))


@pytest.fixture(scope="module")
def shared(model):
    """A bag in which more than one token has its share of the attention."""
    return X[int(np.argmin(np.abs(model.attention(X).max(axis=1) - 0.6)))]


def test_numbers_of_the_figure_are_the_models(model, shared):
    figure = at.plot_attention(model, shared, labels=WORDS)
    first, second = figure.panels
    assert first.y_names == tuple(reversed(WORDS)) and problems(figure) == []
    weight = model.attention(shared)[0]
    (stems,) = first.marks
    np.testing.assert_allclose(stems.x[1::3], weight, rtol=EXACT)
    np.testing.assert_array_equal(stems.y[1::3], np.arange(6)[::-1])
    says, line = second.marks
    kept = weight >= MIN_VALUE_ATTENTION
    assert 1 < kept.sum() < 6
    np.testing.assert_allclose(says.x, model.values(shared)[0][kept], rtol=EXACT)
    assert line.x[0] == pytest.approx(model.predict(shared)[0], rel=EXACT)
    assert figure.title == f"predicted label = {model.predict(shared)[0]:.3g}"


def test_a_long_bag_shows_its_most_attended_tokens(classes, shared):
    rest = np.random.default_rng(0).standard_normal((200, 5))
    figure = at.plot_attention(classes, np.concatenate([rest, shared]))
    weight = classes.attention(np.concatenate([rest, shared]))[0]
    top = np.argsort(-weight)[:MAX_COLUMN_TOKENS]
    assert figure.panels[0].y_names == tuple(str(i) for i in top[::-1])
    assert (
        f"{MAX_COLUMN_TOKENS} of 206 tokens" in figure.panels[0].title
        and problems(figure) == []
    )
    assert figure.title.startswith("predicted P(up) = ")


@pytest.mark.slow
def test_tiles_on_a_grid(classes, shared, tmp_path):
    coords = 256 * np.array([[0, 0], [1, 0], [2, 0], [0, 1], [2, 1], [1, 2]]) + 100
    figure = at.plot_attention(classes, shared, coords=coords)
    heat, most = figure.panels[0].marks
    weight = classes.attention(shared)[0]
    assert heat.z.shape == (3, 3) and heat.log_z
    column, row = (coords - 100).T // 256
    np.testing.assert_allclose(
        heat.z[row, column], np.maximum(weight, MIN_DRAWN_ATTENTION), rtol=EXACT
    )
    assert np.isnan(heat.z).sum() == 3  # where there is no tile
    top = int(np.argmax(weight))
    assert (most.x[0], most.y[0]) == (column[top], row[top])
    assert figure.panels[0].y_range[0] > figure.panels[0].y_range[1]  # downwards
    value = figure.panels[1].marks[0].z[row, column]
    np.testing.assert_array_equal(np.isnan(value), weight < MIN_VALUE_ATTENTION)
    assert problems(figure) == []
    figure.save(tmp_path / "map.svg")
    assert (tmp_path / "map.svg").read_text().startswith("<?xml")


def test_more_classes_witnesses_and_heads(shared):
    three = np.digitize(Y, np.quantile(Y, (0.33, 0.66)))
    found = at.SingleLocationClassifier(**EM).fit(X, three)
    p = found.predict_proba(shared)[0]
    figure = at.plot_attention(found, shared)
    assert figure.title == f"predicted P({p.argmax()}) = {p.max():.3g}"
    witness = at.SingleLocationClassifier(assumption="witness", n_starts=1).fit(X, Y > 0)
    assert at.plot_attention(witness, shared).title == "P(witness of True)"
    two = at.SingleLocationRegressor(heads=2, n_starts=1).fit(X, Y)
    assert at.plot_attention(two, shared, head=1).title == "part of the label, head 1"
    with pytest.raises(AttnscopeError, match="several heads"):
        at.plot_attention(two, shared)


def test_the_mean_tokens_share_is_said(model, shared, monkeypatch):
    monkeypatch.setattr(model, "mean_share_", 0.25)
    assert at.plot_attention(model, shared).title.endswith(
        "25 % of it from all tokens equally"
    )


GRID = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"bag": X}, "one bag"),
        ({"labels": WORDS[:3]}, "each of 6 tokens"),
        ({"labels": "abcdef"}, "one word"),
        ({"coords": GRID[:3]}, "coords"),
        ({"coords": GRID + np.sqrt(np.arange(12)).reshape(6, 2)}, "regular grid"),
        ({"coords": 0 * GRID}, "two tokens at one place"),
        ({"coords": GRID * np.array([1, 1e9]) + np.eye(6, 2)}, "coords"),
        ({"coords": GRID, "labels": WORDS}, "both"),
        ({"model": 3}, "a fitted SingleLocation model"),
        ({"model": at.SingleLocationRegressor()}, "fitted model"),
        ({"bag": X[0, :, :3]}, "5 features"),
    ],
)
def test_sentences(model, shared, arguments, words):
    with pytest.raises(AttnscopeError, match=words):
        at.plot_attention(**({"model": model, "bag": shared} | arguments))
