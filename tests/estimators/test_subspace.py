"""The widest directions: by singular values, by sums, in more features than tokens; and a model of
them as a model of whole tokens, whose answers are compared in both coordinates.
"""

from __future__ import annotations

import numpy as np
import pytest
from helpers.tolerances import EXACT, INTEGRAL, SOLVED, THREE_DIGITS

from attnscope.estimators.fit import subspace
from attnscope.estimators.fit.attention import as_sigmoid, random_waves
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.em import Em, TokenModel
from attnscope.estimators.fit.mixture import (
    bag_answers,
    from_em,
    responsibilities,
    with_free_score,
)
from attnscope.estimators.fit.ridge import row_ridge
from attnscope.estimators.fit.subspace import (
    lift_model,
    project_data,
    subspace_from_moments,
    subspace_of,
)


def tokens(n, d, seed=0):
    """Variances 1, 1/2, .., 1/d along rotated axes."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return (rng.standard_normal((n, d)) / np.sqrt(np.arange(1, d + 1))) @ turn


def projector(space):
    return space.basis @ space.back.T


@pytest.mark.parametrize("shape", [(200, 30), (25, 60), (40, 40)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_directions_are_the_singular_vectors(shape, weighted):
    x = tokens(*shape)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(x)) if weighted else None
    rows = x if weight is None else x * np.sqrt(weight)[:, None]
    total = len(x) if weight is None else weight.sum()
    space = subspace_of(x, 7, 0, weight)
    _, s, vt = np.linalg.svd(rows, full_matrices=False)
    np.testing.assert_allclose(space.variance, s[:7] ** 2 / total, rtol=SOLVED)
    np.testing.assert_allclose(projector(space), vt[:7].T @ vt[:7], rtol=0, atol=INTEGRAL)
    np.testing.assert_allclose(space.basis.T @ space.back, np.eye(7), rtol=0, atol=EXACT)
    t = rows @ space.basis
    np.testing.assert_allclose(t.T @ t / total, np.diag(space.variance), rtol=0, atol=SOLVED)
    by_sums = subspace_from_moments(rows.T @ rows / total, 7)
    np.testing.assert_allclose(projector(by_sums), projector(space), rtol=0, atol=INTEGRAL)
    np.testing.assert_array_equal(space.first(3).basis, space.basis[:, :3])


def test_a_sketch_holds_as_much_variance(monkeypatch):
    """Randomised: the variance held by ten directions is within 1e-3 of the most there is, and
    their coordinates are uncorrelated and of the stated variances whatever the span."""
    x = tokens(600, 80)
    best = subspace_of(x, 10, 0).variance.sum()
    monkeypatch.setattr(subspace, "MAX_EXACT_ROWS", 10)
    space = subspace_of(x, 10, 0)
    assert (1 - THREE_DIGITS) * best < space.variance.sum() <= best * (1 + EXACT)
    t = x @ space.basis
    np.testing.assert_allclose(t.T @ t / len(x), np.diag(space.variance), rtol=0, atol=SOLVED)


def test_distances_and_ridges_are_those_of_whole_tokens():
    """Slopes in the directions have the size they have in whole tokens; scaled, the coordinates
    have unit variance."""
    x = tokens(200, 30)
    space = subspace_of(x, 7, 0)
    np.testing.assert_allclose(space.basis.T @ space.basis, np.eye(7), rtol=0, atol=EXACT)
    t = x @ space.scaled().basis
    np.testing.assert_allclose(t.T @ t / len(x), np.eye(7), rtol=0, atol=SOLVED)


def test_no_more_directions_than_there_are():
    x = tokens(50, 4) @ np.random.default_rng(3).standard_normal((4, 20))
    assert subspace_of(x, 10, 0).basis.shape == (20, 4)
    assert subspace_of(np.zeros((5, 3)), 2, 0).basis.shape == (3, 1)
    assert subspace_of(x[:3], 10, 0).basis.shape == (20, 3)


def a_fit(data, dof):
    rng = np.random.default_rng(4)
    k = data.tokens.shape[1]
    whiten = np.eye(k) + 0.1 * rng.standard_normal((k, k))
    model = TokenModel(rng.standard_normal(k), whiten, rng.standard_normal(k), 0.6, dof)
    values = row_ridge(data.tokens[::4], data.labels, np.ones(data.size), None)
    return from_em(Em(model, values), data.family)


@pytest.mark.parametrize("dof", [np.inf, 5.0])
@pytest.mark.parametrize("kind", ["em", "free", "waves", "sigmoid"])
def test_a_lifted_model_has_the_same_answers(dof, kind):
    rng = np.random.default_rng(5)
    x = tokens(120, 25, seed=6)
    whole = Data(
        x, np.arange(0, 121, 4), rng.standard_normal(30), np.ones(30), 0, 1, np.ones(25)
    )
    space = subspace_of(x, 6, 0)
    inside = project_data(whole, space)
    np.testing.assert_allclose(inside.origin, np.ones(25) @ space.basis, rtol=EXACT)
    model = a_fit(inside, dof)
    if kind != "em":
        model = with_free_score(model, inside, True)
    if kind == "waves":
        model = random_waves(model, inside, 0)
        model = model._replace(gate=rng.standard_normal(len(model.gate)))
    if kind == "sigmoid":
        model = as_sigmoid(model, inside)
    up = lift_model(model, space)
    for a, b in zip(
        bag_answers(model, inside.tokens, inside.offsets),
        bag_answers(up, whole.tokens, whole.offsets),
        strict=True,
    ):
        np.testing.assert_allclose(b, a, rtol=SOLVED, atol=SOLVED)
    np.testing.assert_allclose(
        responsibilities(up, whole), responsibilities(model, inside), rtol=0, atol=SOLVED
    )
