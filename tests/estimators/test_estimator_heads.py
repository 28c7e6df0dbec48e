"""The regressor with several heads: each direction finds its token,
and every answer is that of a sum.
"""

import numpy as np
import pytest
from helpers.tolerances import EXACT

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.estimators.model_file.read import load_model
from attnscope.estimators.regressor import SingleLocationRegressor


@pytest.fixture(scope="module")
def two_heads():
    task = at.MultiDirection(dim=10, length=8, directions=2, noise=0.1, signal=5.0, seed=1)
    train = task.sample(300, seed=1)
    test = task.sample(500, seed=2)
    return task, train, test, SingleLocationRegressor(heads=2).fit(train.tokens, train.target)


def at_(batch, direction):
    """The tokens that carry this direction (n, d)."""
    return batch.tokens[np.arange(len(batch.target)), batch.location[:, direction]]


def test_two_heads_fit_two_directions(two_heads):
    """Each head finds one of the two tokens, and backfitting ends at least squares on both tokens
    jointly; one head alone explains half.
    """
    task, train, test, model = two_heads
    bayes = np.mean((task.bayes_predict(test.tokens) - test.target) ** 2)
    error = np.mean((model.predict(test.tokens) - test.target) ** 2)
    assert error < 1.2 * bayes  # seeds 0-5: 1.06 to 1.11
    alone = SingleLocationRegressor(alpha=(np.inf, 0.1)).fit(train.tokens, train.target)
    assert error < 0.1 * np.mean((alone.predict(test.tokens) - test.target) ** 2)
    assert np.mean(model.cv_losses_) < 0.1 * np.mean(alone.cv_losses_)
    designs = [
        np.column_stack([at_(b, 0), at_(b, 1), np.ones(len(b.target))]) for b in (train, test)
    ]
    joint = designs[1] @ np.linalg.lstsq(designs[0], train.target, rcond=None)[0]
    assert (
        np.sqrt(np.mean((model.predict(test.tokens) - joint) ** 2)) < 0.005
    )  # the noise is .1; seeds 0-3: .0006 to .0018
    low, high = model.predict_interval(test.tokens).T
    # standard error .013
    assert 0.85 <= np.mean((low <= test.target) & (test.target <= high)) <= 0.95


def test_what_several_heads_answer(two_heads, tmp_path):
    _, _, test, model = two_heads
    where = model.locate(test.tokens)
    assert where.shape == (500, 2)
    first = model.locate(test.tokens, head=0)
    np.testing.assert_array_equal(first, where[:, 0])
    order = [0, 1] if np.mean(first == test.location[:, 0]) > 0.5 else [1, 0]
    assert np.mean(where[:, order] == test.location) > 0.97
    assert np.mean(model.locate(test.tokens, test.target)[:, order] == test.location) > 0.97
    each = [model.attention(test.tokens, head=h) for h in (0, 1)]
    np.testing.assert_allclose(
        model.attention(test.tokens), np.mean(each, axis=0), rtol=EXACT
    )
    np.testing.assert_allclose(each[1].sum(axis=1), 1, rtol=EXACT)
    assert model.diagnose(test.tokens, test.target).single_location
    model.save(tmp_path / "two.npz")
    back = load_model(tmp_path / "two.npz")
    np.testing.assert_array_equal(
        back.predict_interval(test.tokens), model.predict_interval(test.tokens)
    )
    np.testing.assert_array_equal(back.locate(test.tokens), where)


def test_bags_of_one_token_have_no_two_heads():
    x = np.random.default_rng(0).standard_normal((12, 1, 10))
    with pytest.raises(AttnscopeError, match="must be 1 where every bag has one token"):
        SingleLocationRegressor(heads=2).fit(x, x[:, 0, 0])
