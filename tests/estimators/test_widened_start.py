"""A model found in a few directions as a model of more: its score, its values and its last stage.

Second routes: scores in the few directions; values by scikit-learn's ridge on the same weighted
tokens; directions of directions by composing their projections. Seeds were fixed before looking.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tolerances import EXACT, SOLVED
from sklearn.linear_model import Ridge

import attnscope as at
from attnscope.estimators.fit.best_start import em_track
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.held_out import Options, make_folds
from attnscope.estimators.fit.mixture import (
    bag_losses,
    responsibilities,
    token_scores,
    with_free_score,
)
from attnscope.estimators.fit.quick_em import MIN_RIDGE_RESPONSIBILITY
from attnscope.estimators.fit.subspace import nested_subspace, project_data, subspace_of
from attnscope.estimators.fit.widened_start import is_widened, widened_track
from attnscope.numerics.compiled.data_pass import GAUSSIAN

N = 60
LENGTH = 6
D = 12
K = 4


def planted(seed=0):
    """The key lies in the widest directions, the values in all of them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, LENGTH, D)) / np.sqrt(np.arange(1, D + 1))
    where = rng.integers(0, LENGTH, N)
    x[np.arange(N), where, 0] += 5
    y = x[np.arange(N), where] @ np.sqrt(np.arange(1, D + 1))
    y = (y - y.mean()) / y.std()
    offsets = np.arange(0, N * LENGTH + 1, LENGTH)
    tokens = x.reshape(-1, D)
    return Data(tokens, offsets, y, np.ones(N), GAUSSIAN, 1, np.zeros(D))


@pytest.fixture(scope="module")
def found():
    """Whole bags, their folds, the few directions, EM's track in them and the widened track."""
    data = planted()
    space = subspace_of(data.tokens, K, 0)
    inside = project_data(data, space)
    options = Options(n_starts=3, stop_without_token=True)
    folds = make_folds(inside, 0)
    narrow, _ = em_track(inside, folds, options)
    parts = [fold._replace(data=data) for fold in folds]
    return data, parts, space, narrow, widened_track(narrow, parts, options, space)


def test_the_score_is_the_same_and_the_values_are_a_ridge_on_whole_tokens(found):
    _, parts, space, narrow, wide = found
    for before, after, fold in zip(narrow.models, wide.models, parts):
        train = fold.train
        inside = project_data(train, space)
        scores = token_scores(before, inside.tokens)
        np.testing.assert_allclose(token_scores(after, train.tokens), scores, atol=SOLVED)
        r = responsibilities(before, inside)
        kept = r > MIN_RIDGE_RESPONSIBILITY
        values = after.values
        peer = Ridge(values.precision * values.variance)
        peer.fit(train.tokens[kept], train.per_token(train.labels)[kept], r[kept])
        np.testing.assert_allclose(values.weights[:, 0], peer.coef_, atol=SOLVED)
        np.testing.assert_allclose(values.bias, peer.intercept_, atol=SOLVED)


def test_known_tokens_are_believed(found):
    """Told another token than the score's in every other bag, the values are those of these."""
    data, parts, space, narrow, _ = found
    known = np.where(np.arange(N) % 2, -1, 2)
    known_folds = [fold._replace(data=data._replace(known=known)) for fold in parts]
    wide = widened_track(
        narrow, known_folds, Options(stop_without_token=True, alpha_value=1.0), space
    )
    train = known_folds[0].train
    inside = project_data(train, space)
    r = responsibilities(narrow.models[0], inside).reshape(-1, LENGTH)
    r[train.known == 2] = np.eye(LENGTH)[2]
    r = r.ravel()
    kept = r > MIN_RIDGE_RESPONSIBILITY
    peer = Ridge(1.0).fit(
        train.tokens[kept], train.per_token(train.labels)[kept], sample_weight=r[kept]
    )
    np.testing.assert_allclose(
        wide.models[0].values.weights[:, 0], peer.coef_, rtol=0, atol=SOLVED
    )


def test_values_in_all_directions_explain_more(found):
    """The labels' values grow with the direction: what four of twelve see is the lesser part."""
    _, parts, _, narrow, wide = found
    assert wide.losses.mean() < 0.5 * narrow.losses.mean()
    held = np.concatenate(
        [bag_losses(model, fold.held) for model, fold in zip(wide.models, parts)]
    )
    order = np.concatenate([fold.out for fold in parts])
    np.testing.assert_allclose(wide.losses[order], held, atol=EXACT)


def test_on_all_bags_it_is_found_in_the_few_directions_again(found):
    data, _, space, narrow, wide = found
    ((name, stage),) = wide.stages
    last = stage(wide.models[0], data)
    assert name == "em"
    inside = project_data(data, space)
    narrow_last = narrow.models[0]
    for _, step in narrow.stages:
        narrow_last = step(narrow_last, inside)
    np.testing.assert_allclose(
        token_scores(last, data.tokens), token_scores(narrow_last, inside.tokens), atol=SOLVED
    )
    assert last.values.weights.shape == (D, 1)


def test_it_is_known_by_its_token_model(found):
    data, _, _, narrow, wide = found
    assert is_widened(wide.models[0]) and not is_widened(narrow.models[0])
    assert not is_widened(with_free_score(wide.models[0], data, True))


@pytest.mark.parametrize("scaled", [False, True])
def test_directions_among_directions(scaled):
    x = planted(1).tokens
    inner, outer = subspace_of(x, 3, 0), subspace_of(x, 7, 1)
    if scaled:
        inner, outer = inner.scaled(), outer.scaled()
    both = nested_subspace(inner, outer)
    np.testing.assert_allclose(both.basis.T @ both.back, np.eye(3), rtol=0, atol=SOLVED)
    np.testing.assert_allclose(
        (x @ outer.basis) @ both.basis, x @ inner.basis, rtol=0, atol=SOLVED
    )


def test_a_fit_is_widened_and_kept(tmp_path):
    """80 noisy features around the digits, whose readout no token model fits: sixteen directions
    find which image decides, all of them what it says (NMSE .51 while EM began anew there)."""
    drawn = at.digit_bags(700, "max", seed=3, readout_seed=1)
    rng = np.random.default_rng(3)
    noise = np.std(drawn.tokens) * rng.standard_normal((700, drawn.tokens.shape[1], 64))
    x = np.concatenate([drawn.tokens, noise], axis=2)
    y = drawn.target
    model = at.SingleLocationRegressor(random_state=0).fit(x[:400], y[:400])
    error = np.mean((model.predict(x[400:]) - y[400:]) ** 2) / np.var(y[400:])
    assert model.components_ is None
    assert error < 0.1
    model.save(tmp_path / "m.npz")
    np.testing.assert_array_equal(
        at.load_model(tmp_path / "m.npz").predict(x), model.predict(x)
    )
