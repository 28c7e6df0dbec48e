"""Shares of plain baselines with few bags of classes: the weights by a grid, the mean of token
probabilities and the kernel of whole bags against scikit-learn, trees by walking them, what a model
with shares answers, and who keeps everything.
"""

import numpy as np
import pytest
from helpers.tolerances import FORMULA, FOUR_DIGITS
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.folds import make_folds
from attnscope.estimators.fit.forest import TREE_COUNT, fit_forest
from attnscope.estimators.fit.held_out import is_nearly_explained
from attnscope.estimators.fit.instances import fit_instances
from attnscope.estimators.fit.mixture import output_losses
from attnscope.estimators.fit.stacking import (
    BASELINES,
    PRIOR_BAG_COUNT,
    discount_selection,
    stacking_weights,
)
from attnscope.estimators.fit.summaries import fit_summaries
from attnscope.numerics.compiled.data_pass import BERNOULLI, CATEGORICAL

RNG = np.random.default_rng(31)


def labelled(n, seed):
    rng = np.random.default_rng([31, seed])
    y = np.arange(n) % 2.0
    return Data(np.zeros((n, 1)), np.arange(n + 1), y, np.ones(n), BERNOULLI, 1), rng


def guesses(y, rng, clear):
    """Probabilities of both classes whose log odds are right by `clear` on average."""
    p = 1 / (1 + np.exp(-(clear * (2 * y - 1) + rng.standard_normal(len(y)))))
    return np.column_stack([1 - p, p])


def test_shares_are_the_best_of_a_grid():
    data, rng = labelled(60, 0)
    outputs = [guesses(data.labels, rng, clear) for clear in (0.6, 0.8, 0.7)]
    w = stacking_weights(data, outputs)
    assert w.sum() == pytest.approx(1) and (w > 0).all()
    rows = np.arange(60)
    right = np.column_stack([o[rows, data.labels.astype(int)] for o in outputs])
    _is_best(w, right)
    # a chosen token is told from the best other by a standard error of their difference
    w = _beside(data, outputs[0], outputs[1:])
    best = 1 + np.argmax(np.log(right[:, 1:]).sum(axis=0))
    error = np.std(np.log(right[:, 0] / right[:, best]), ddof=1) / np.sqrt(60)
    _is_best(w, right * [np.exp(-1.5 * error), 1, 1])


def _beside(data, token, baselines):
    return stacking_weights(data, [discount_selection(data, token, baselines), *baselines])


def _is_best(w, right):
    def value(w):
        return -np.log(right @ w).sum() - PRIOR_BAG_COUNT / 3 * np.log(w).sum()

    step = 0.02
    for a in np.arange(step, 1, step):
        for b in np.arange(step, 1 - a, step):
            assert value(w) <= value(np.array([a, b, 1 - a - b])) + 1e-6


def test_a_chosen_token_must_be_ahead_by_what_a_choice_feigns():
    """As good as the other it has less; clearly better, nearly all; the more bags the less of it is
    doubted.
    """
    found = {}
    for n in (50, 1000):
        data, rng = labelled(n, 3)
        one, other = (guesses(data.labels, rng, 1.0) for _ in range(2))
        found[n] = _beside(data, one, [other])[0] / stacking_weights(data, [one, other])[0]
        assert _beside(data, guesses(data.labels, rng, 3.0), [other])[0] > 0.9
    assert found[50] < 0.7 and found[50] < found[1000] < 1


def test_useless_models_get_nothing():
    data, rng = labelled(200, 1)
    good = guesses(data.labels, rng, 1.5)
    idle = guesses(data.labels, rng, 0.0)
    np.testing.assert_array_equal(_beside(data, good, [idle, idle]), [1, 0, 0])
    assert _beside(data, idle, [good, idle])[1] > 0.9
    assert not is_nearly_explained(data, np.full(200, 0.1)) and is_nearly_explained(
        data, np.full(200, 0.06)
    )


def test_the_mean_of_token_probabilities_is_that_of_logistic_regression():
    """Another library's fit, to the steps that ours is given."""
    lengths = RNG.integers(2, 6, 80)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = RNG.standard_normal((offsets[-1], 3))
    y = (np.add.reduceat(tokens[:, 0], offsets[:-1]) > 0).astype(float)
    data = Data(tokens, offsets, y, np.ones(80), BERNOULLI, 1)
    ridge = 3.0
    found = fit_instances(data, make_folds(data, 0), ridge)
    model = LogisticRegression(C=1 / ridge, tol=1e-8, max_iter=1000)
    model.fit(tokens, np.repeat(y, lengths), sample_weight=np.repeat(1 / lengths, lengths))
    each = model.predict_proba(tokens)[:, 1]
    route = np.add.reduceat(each, offsets[:-1]) / lengths
    ours = found.fitted.answers(tokens, offsets).output
    np.testing.assert_allclose(ours[:, 1], route, atol=10 * FOUR_DIGITS)
    np.testing.assert_allclose(ours.sum(axis=1), 1)
    chosen = fit_instances(data, make_folds(data, 0), None)
    assert chosen.losses.mean() <= found.losses.mean() + FOUR_DIGITS


@pytest.mark.parametrize("classes", [2, 3])
def test_whole_bags_are_read_by_a_kernel(classes):
    """Summaries by their definition; another library's logistic regression in another root of the
    kernel, for a fold that of its own bags alone.
    """
    rng = np.random.default_rng([35, classes])
    lengths = rng.integers(2, 6, 60)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = rng.standard_normal((offsets[-1], 3))
    tokens[7] = (9.0, -30.0, 2.0)  # as far as 4
    bags = np.split(np.clip(tokens, -4, 4), offsets[1:-1])
    s = np.array([np.r_[bag.mean(axis=0), bag.max(axis=0), bag.min(axis=0)] for bag in bags])
    cuts = np.quantile(s[:, 3], np.arange(1, classes) / classes)
    y = np.digitize(s[:, 3] + 0.3 * rng.standard_normal(60), cuts)
    kind = (BERNOULLI, 1) if classes == 2 else (CATEGORICAL, classes)
    data = Data(tokens, offsets, y.astype(float), rng.uniform(0.5, 2.0, 60), *kind)
    folds = make_folds(data, 0)
    ridge = 0.3
    model, held_out = fit_summaries(data, folds, (ridge,))
    z = (s - s.mean(axis=0)) / s.std(axis=0)
    apart = ((z[:, None] - z[None]) ** 2).sum(axis=-1)
    median = np.median(apart[np.triu_indices(60, 1)])
    kernel = np.mean([np.exp(-apart / (width * median)) for width in (0.25, 1, 4)], axis=0)

    def route(seen, asked):
        size, axes = np.linalg.eigh(kernel[np.ix_(seen, seen)])
        axes = axes / np.sqrt(np.maximum(size, 1e-10))
        logistic = LogisticRegression(C=1 / ridge, tol=1e-8, max_iter=1000)
        logistic.fit(kernel[np.ix_(seen, seen)] @ axes, y[seen], data.weight[seen])
        return logistic.predict_proba(kernel[np.ix_(asked, seen)] @ axes)

    every = np.arange(60)
    ours = model.answers(tokens, offsets).output
    np.testing.assert_allclose(ours, route(every, every), atol=10 * FOUR_DIGITS)
    for fold in folds:
        there = route(fold.rest, fold.out)
        np.testing.assert_allclose(held_out[fold.out], there, atol=10 * FOUR_DIGITS)
    far = model.answers(np.full((2, 3), 1e9), np.array([0, 2])).output
    np.testing.assert_allclose(
        far, model.answers(np.full((2, 3), 1e6), np.array([0, 2])).output
    )
    chosen, output = fit_summaries(data, folds)
    assert output_losses(output, data).mean() < output_losses(held_out, data).mean()
    assert len(chosen.centres) == 60


def _walked(forest, row):
    """Mean over the trees of the leaf that `row` falls into, one node after the other."""
    leaves = []
    for node in forest.root:
        while forest.child[node, 0] != node:
            node = forest.child[
                node, int(np.float32(row[forest.feature[node]]) > forest.cut[node])
            ]
        leaves.append(forest.chance[node])
    return np.mean(leaves, axis=0, dtype=float)


@pytest.mark.parametrize("classes", [2, 3])
def test_whole_bags_are_read_by_trees(classes):
    """Leaves by walking; that each fold's trees are scikit-learn's, grown on its own bags alone;
    and one more tree that knows the classes' shares.
    """
    rng = np.random.default_rng([36, classes])
    lengths = rng.integers(1, 6, 50)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = rng.standard_normal((offsets[-1], 3))
    bags = np.split(tokens, offsets[1:-1])
    s = np.array([np.r_[bag.mean(axis=0), bag.max(axis=0), bag.min(axis=0)] for bag in bags])
    y = np.digitize(s[:, 3], np.quantile(s[:, 3], np.arange(1, classes) / classes))
    y[:1] = classes - 1
    kind = (BERNOULLI, 1) if classes == 2 else (CATEGORICAL, classes)
    data = Data(tokens, offsets, y.astype(float), rng.uniform(0.5, 2.0, 50), *kind)
    folds = make_folds(data, 0)
    pool, held_out = fit_forest(data, folds, 5, 1)
    base = np.bincount(y, data.weight) / data.weight.sum()
    found = pool.answers(tokens, offsets).output
    walked = np.array([_walked(pool.forest, row) for row in s])
    np.testing.assert_allclose(
        found, (TREE_COUNT * walked + base) / (TREE_COUNT + 1), atol=1e-6
    )
    assert len(pool.forest.root) == TREE_COUNT * len(folds)
    assert (held_out > 0).all() and output_losses(held_out, data).mean() < 0.9 * np.log(
        classes
    )
    for number, fold in enumerate(folds):
        other = ExtraTreesClassifier(
            TREE_COUNT,
            max_features=3,  # a third of nine
            random_state=int(np.random.SeedSequence([5, 6, number]).generate_state(1)[0]),
        )
        other.fit(s[fold.rest].astype(np.float32), y[fold.rest], data.weight[fold.rest])
        route = (TREE_COUNT * other.predict_proba(s[fold.out]) + base) / (TREE_COUNT + 1)
        np.testing.assert_allclose(held_out[fold.out], route, atol=1e-6)
    far = np.array([[1e50, -1e50, 1e39]])  # beyond single precision
    assert np.isfinite(pool.answers(far, np.array([0, 1])).output).all()


def test_a_class_may_be_held_out_as_a_whole():
    """One bag of the third class: where it is held out, no tree of that fold knows it."""
    data, _ = labelled(30, 2)
    rng = np.random.default_rng(37)
    y = data.labels.copy()
    y[0] = 2
    data = data._replace(
        tokens=rng.standard_normal((30, 2)), labels=y, family=CATEGORICAL, outputs=3
    )
    _, output = fit_forest(data, make_folds(data, 0), 0, 1)
    np.testing.assert_allclose(output.sum(axis=1), 1)
    assert output[0, 2] == pytest.approx(1 / 30 / (TREE_COUNT + 1), rel=FOUR_DIGITS)


def spoken_by_all(n, seed):
    """Every token of a bag leans to its class, on one axis of six."""
    rng = np.random.default_rng([32, seed])
    y = np.arange(n) % 2
    bags = [rng.standard_normal((rng.integers(3, 9), 6)) for _ in y]
    for bag, label in zip(bags, y):
        bag[:, 0] += 0.8 * (2 * label - 1)
    return bags, np.where(y, "yes", "no")


def test_a_model_with_shares_answers_like_any_other(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "attnscope.estimators.fit.stacking.PRIOR_BAG_COUNT", 20.0
    )  # so that all have one
    bags, y = spoken_by_all(60, 0)
    test, truth = spoken_by_all(400, 1)
    model = at.SingleLocationClassifier(gate="linear", n_starts=2).fit(bags, y)
    stacking_weights = [getattr(model, f"{name}_share_") for name in BASELINES]
    total = sum(stacking_weights)
    assert min(stacking_weights) > 0.02 and 0.3 < total <= 1
    assert set(BASELINES) <= set(model.stages_)
    p = model.predict_proba(test)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert np.mean(model.predict(test) == truth) > 0.85
    parts = [
        pool.answers(
            *next(model._standardised_pieces(model._read_bags(test, "predict")))
        ).output
        for pool in (getattr(model, f"{name}_pool_") for name in BASELINES)
    ]
    alone = at.load_model(_saved(model, tmp_path))
    for name in BASELINES:
        setattr(alone, f"{name}_share_", 0.0)
    route = (1 - total) * alone.predict_proba(test)
    route += sum(share * part for share, part in zip(stacking_weights, parts))
    np.testing.assert_allclose(p, route, atol=1e-12)
    np.testing.assert_array_equal(alone.locate(test), model.locate(test))
    for weight, bag in zip(model.attention(test), test):
        assert abs(weight.sum() - 1) < FOUR_DIGITS and weight.min() >= total / len(bag) - 1e-9
    back = at.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(back.predict_proba(test), p)
    assert "comes from all tokens equally" in str(back.diagnose(bags, y))


def test_probabilities_sum_to_one_where_leaves_are_mixed():
    """All tokens alike: no tree can split, and a leaf holds both classes. 22 bags of 8 and 14."""
    offsets = np.arange(23)
    labels = np.repeat([0.0, 1.0], [8, 14])
    data = Data(np.ones((22, 2)), offsets, labels, np.ones(22), BERNOULLI, 1)
    pool, held_out = fit_forest(data, make_folds(data, 0), 5, 1)
    for found in (held_out, pool.answers(data.tokens, offsets).output):
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=0, atol=FORMULA)


@pytest.mark.parametrize(
    ("member", "value", "words"),
    [
        ("child", lambda a: a[:, :1], "two nodes"),
        ("child", lambda a: a + 10**6, "whole numbers from 0"),
        ("feature", lambda a: a - 5, "whole numbers from 0 to 17"),
        ("root", lambda a: a.astype(float), "whole numbers from 0"),
        ("chance", lambda a: 2 * a, "sum to one"),
        ("base", lambda a: -a, "sum to one"),
        ("cut", lambda a: a[:-1], "an array"),
    ],
)
def test_altered_trees_are_refused(tmp_path, member, value, words, with_trees):
    arrays = dict(with_trees)
    arrays[f"forest_pool.{member}"] = value(arrays[f"forest_pool.{member}"])
    np.savez(tmp_path / "altered.npz", **arrays)
    with pytest.raises(AttnscopeError, match=words):
        at.load_model(tmp_path / "altered.npz")


@pytest.fixture(scope="module")
def with_trees(tmp_path_factory):
    """Members of a model file in which trees have a share."""
    bags, y = spoken_by_all(60, 4)
    model = at.SingleLocationClassifier(gate="linear", n_starts=1).fit(bags, y)
    assert model.forest_share_ > 0
    with np.load(_saved(model, tmp_path_factory.mktemp("trees"))) as file:
        return dict(file)


def _saved(model, folder):
    model.save(folder / "model.npz")
    return folder / "model.npz"


def test_who_keeps_everything():
    """A token that leaves nothing to explain, a witness, and a model that was told what to be."""
    batch = at.SingleLocation(dim=6, length=4, signal=6.0, noise=0.0).sample(150, seed=2)
    up = np.where(batch.target * 3 + 0.5 * np.sign(batch.target) > 0, "up", "down")
    sure = at.SingleLocationClassifier(gate="quadratic", n_starts=2).fit(batch.tokens, up)
    bags, y = spoken_by_all(60, 3)
    quick = {"gate": "linear", "n_starts": 2}
    told = at.SingleLocationClassifier(loss="mixture", **quick).fit(bags, y)
    witness = at.SingleLocationClassifier(assumption="witness", **quick).fit(bags, y)
    for model in (told, witness):
        assert model._mean_share == 0
        assert not any(
            getattr(model, f"{name}_pool_") for name in BASELINES if name != "mean"
        )
    assert sure._mean_share < 0.1
