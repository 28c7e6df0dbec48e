"""Grids: the task is SingleLocation with coordinates; row-column attention against its definition
on vectors and the joint softmax.

Stochastic tests have fixed seeds and allow 5 standard errors (6e-7 each).
"""

import numpy as np
import pytest
from helpers.settings import one_sentence
from helpers.tolerances import EXACT, FEW_ROUNDINGS, INTEGRAL, LONG_SUM
from scipy.special import erf, softmax

import attnscope as at
from attnscope.claims.compare import mean_and_error

TASK = at.GridLocation(rows=3, columns=4, dim=6, gamma=1.0, signal=2.0, seed=1)
ORACLE = at.Overlaps.oracle()


def pooled(tokens, k, v, lam):
    """Row attention, then column attention on the pooled tokens, written with vectors."""
    out = []
    for grid in tokens:  # (M, N, d)
        rows = np.array([softmax(lam * row @ k) @ row for row in grid])
        out.append(softmax(lam * rows @ k) @ rows @ v)
    return np.array(out)


def test_the_grid_is_a_single_location_task():
    flat = at.SingleLocation(6, 12, gamma=1.0, signal=2.0, seed=1)
    ours = TASK.sample(50, seed=3)
    theirs = flat.sample(50, seed=3)
    np.testing.assert_array_equal(ours.tokens, theirs.tokens)
    np.testing.assert_array_equal(
        TASK.bayes_predict(ours.tokens), flat.bayes_predict(ours.tokens)
    )
    assert TASK.bayes_risk().value == flat.bayes_risk().value
    assert (
        at.risk(TASK, at.Softmax(2.0), ORACLE).value
        == at.risk(flat, at.Softmax(2.0), ORACLE).value
    )
    row, column = TASK.cell(ours.location)
    np.testing.assert_array_equal(
        TASK.grid(ours.tokens)[np.arange(50), row, column],
        ours.tokens[np.arange(50), ours.location],
    )


def test_a_grid_can_be_trained_on():
    run = at.train(
        TASK,
        at.Erf(0.2),
        start="manifold",
        runs=2,
        steps=20,
        step_size=0.01,
        log_every=10,
        seed=0,
        progress=False,
    )
    assert run.risk.shape == (2, 3)


def test_row_and_column_posteriors_are_the_marginals():
    x = TASK.sample(20, seed=0).tokens
    cells = TASK.posterior(x).reshape(20, 3, 4)
    np.testing.assert_allclose(TASK.row_posterior(x), cells.sum(axis=2), rtol=FEW_ROUNDINGS)
    np.testing.assert_allclose(
        TASK.column_posterior(x), cells.sum(axis=1), rtol=FEW_ROUNDINGS
    )
    probs = np.arange(12.0).reshape(3, 4) / 66
    task = at.GridLocation(3, 4, 6, location_probs=probs)
    np.testing.assert_array_equal(task.location_probs, probs.ravel() / probs.sum())
    assert task.row_posterior(x)[:, 0].shape == (20,)


@pytest.mark.parametrize(("rows", "columns"), [(3, 4), (5, 2), (1, 6), (6, 1)])
def test_row_and_column_errors_equal_sampled_ones(rows, columns):
    task = at.GridLocation(rows, columns, dim=4, gamma=0.8, signal=1.5, seed=2)
    batch = task.sample(20_000, seed=4)
    row, column = task.cell(batch.location)
    n = np.arange(20_000)
    for posterior, true, exact in (
        (task.row_posterior(batch.tokens), row, task.row_error()),
        (task.column_posterior(batch.tokens), column, task.column_error()),
    ):
        mean, error = mean_and_error(1 - posterior[n, true])
        assert abs(mean - exact.value) <= 5 * error + 1e-13


def test_row_column_is_two_attention_steps():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((7, 12, 6))
    k = rng.standard_normal(6)
    v = rng.standard_normal(6)
    ours = at.predict(at.RowColumn(at.Softmax(0.8), 3, 4), k, v, x)
    np.testing.assert_allclose(ours, pooled(x.reshape(7, 3, 4, 6), k, v, 0.8), rtol=EXACT)
    u = (x @ k).reshape(7, 3, 4)
    a = erf(0.3 * u)
    b = erf(0.3 * np.sum(a * u, axis=2))
    expected = np.einsum("ni,nij,nij->n", b, a, (x @ v).reshape(7, 3, 4))
    np.testing.assert_allclose(
        at.predict(at.RowColumn(at.Erf(0.3), 3, 4), k, v, x), expected, rtol=LONG_SUM
    )


def test_entropy_makes_it_the_joint_softmax_and_the_posterior():
    batch = TASK.sample(300, seed=5)
    joint = at.attention_weights(at.Softmax(2.0), TASK.key, batch.tokens)
    with_entropy = at.attention_weights(
        at.RowColumn(at.Softmax(2.0), 3, 4, entropy=True), TASK.key, batch.tokens
    )
    np.testing.assert_allclose(with_entropy, joint, rtol=LONG_SUM)
    np.testing.assert_allclose(with_entropy, TASK.posterior(batch.tokens), rtol=LONG_SUM)
    plain = at.attention_weights(at.RowColumn(at.Softmax(2.0), 3, 4), TASK.key, batch.tokens)
    np.testing.assert_allclose(plain.sum(axis=1), 1, rtol=EXACT)
    ratio = (joint / plain).reshape(300, 3, 4)
    a = joint.reshape(300, 3, 4) / joint.reshape(300, 3, 4).sum(axis=2, keepdims=True)
    entropy = -np.sum(a * np.log(a), axis=2)
    b = plain.reshape(300, 3, 4).sum(axis=2)
    expected = np.exp(entropy) / np.sum(b * np.exp(entropy), axis=1, keepdims=True)
    np.testing.assert_allclose(
        ratio, np.broadcast_to(expected[..., None], ratio.shape), rtol=INTEGRAL
    )
    assert 0.25 < ratio.min() < 0.9 and 1.1 < ratio.max() < 4


def test_equal_entropies_make_the_two_softmaxes_equal():
    """Rows that are permutations of each other up to a shift, or rows of one cell,
    have equal entropies.
    """
    rng = np.random.default_rng(1)
    row = rng.standard_normal(4)
    scores = np.concatenate([rng.permutation(row) + shift for shift in (0.0, 0.7, -1.2)])[
        None
    ]
    softly = at.Softmax(1.0)
    np.testing.assert_allclose(
        at.RowColumn(softly, 3, 4).weights(scores), softly.weights(scores), rtol=EXACT
    )
    np.testing.assert_allclose(
        at.RowColumn(softly, 12, 1).weights(scores), softly.weights(scores), rtol=EXACT
    )
    np.testing.assert_allclose(
        at.RowColumn(softly, 1, 12).weights(scores), softly.weights(scores), rtol=EXACT
    )


def test_row_column_loses_to_the_joint_softmax():
    """gamma = 1: values are independent of scores, so the regret is E|weights - posterior|^2,
    without the noise of the values.
    """
    predictor = at.RowColumn(at.Softmax(2.0), 3, 4)
    batch = TASK.sample(20_000, seed=6)
    gap = np.sum(
        (
            at.attention_weights(predictor, TASK.key, batch.tokens)
            - TASK.posterior(batch.tokens)
        )
        ** 2,
        axis=1,
    )
    regret, its_error = mean_and_error(gap)
    sampled = at.risk(TASK, predictor, ORACLE, method="monte-carlo", samples=200_000, seed=1)
    assert abs(sampled.value - TASK.bayes_risk().value - regret) < 5 * np.hypot(
        sampled.error, its_error
    )
    loss, error = mean_and_error(
        (batch.target - at.predict(predictor, TASK.key, TASK.value, batch.tokens)) ** 2
    )
    assert abs(loss - sampled.value) < 5 * np.hypot(error, sampled.error)
    assert regret > 20 * its_error


def test_masked_cells_and_empty_rows_get_no_weight():
    scores = np.random.default_rng(2).standard_normal((5, 12))
    mask = np.ones((5, 12), dtype=bool)
    mask[:, 4:8] = False  # the middle row is empty
    mask[:, 1] = False
    for step in (at.Softmax(1.5), at.Erf(0.4)):
        ours = at.RowColumn(step, 3, 4).weights(scores, mask)
        assert np.all(ours[~mask] == 0) and np.isfinite(ours).all()
        rows = [[0, 2, 3], [8, 9, 10, 11]]
        a = [step.weights(scores[:, r]) for r in rows]
        b = step.weights(
            np.stack([np.sum(x * scores[:, r], axis=1) for x, r in zip(a, rows)], axis=1)
        )
        for i, r in enumerate(rows):
            np.testing.assert_allclose(ours[:, r], b[:, i : i + 1] * a[i], rtol=EXACT)


CASES = {
    "rows": (
        lambda: at.GridLocation(0, 4, 6),
        "rows of GridLocation must be an integer >= 1, got 0",
    ),
    "columns": (
        lambda: at.GridLocation(3, 2.0, 6),
        "columns of GridLocation must be an integer >= 1",
    ),
    "dim": (lambda: at.GridLocation(3, 4, 1), "dim of .*Location must be an integer >= 2"),
    "probs": (
        lambda: at.GridLocation(3, 4, 6, location_probs=np.ones((4, 3)) / 12),
        r"location_probs of GridLocation .*\(3, 4\)",
    ),
    "cell": (
        lambda: TASK.cell(np.array([12])),
        "location of GridLocation.cell must be integers from 0 to 11",
    ),
    "grid": (
        lambda: TASK.grid(np.zeros((2, 11, 6))),
        "tokens of GridLocation.grid must be a real array",
    ),
    "row error": (
        lambda: at.GridLocation(2, 2, 4, location_probs=[0.4, 0.2, 0.2, 0.2]).row_error(),
        "location_probs of GridLocation.row_error must be None",
    ),
    "step": (
        lambda: at.RowColumn("softmax", 3, 4),
        "step of RowColumn must be a predictor such as Softmax",
    ),
    "nested": (
        lambda: at.RowColumn(at.RowColumn(at.Softmax(1.0), 3, 4), 3, 4),
        "step of RowColumn must be a predictor",
    ),
    "entropy": (
        lambda: at.RowColumn(at.Erf(1.0), 3, 4, entropy=True),
        "entropy of RowColumn must be True or False, and False",
    ),
    "predictor rows": (
        lambda: at.RowColumn(at.Softmax(1.0), 0, 4),
        "rows of RowColumn must be an integer >= 1",
    ),
    "size": (
        lambda: at.predict(
            at.RowColumn(at.Softmax(1.0), 3, 3), TASK.key, TASK.value, np.zeros((2, 12, 6))
        ),
        "tokens of RowColumn must be a grid of 3 x 3 = 9 tokens, got 12 tokens",
    ),
    "exact": (
        lambda: at.risk(TASK, at.RowColumn(at.Softmax(1.0), 3, 4), ORACLE, "exact"),
        "must be one with an exact risk on GridLocation",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_one_sentence(name):
    call, message = CASES[name]
    one_sentence(call, message)
