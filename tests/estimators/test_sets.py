"""Intervals and sets: formulas by their definitions, and the sentences for what cannot be. Groups:
test_groups.py; replicates of the promises: test_promises.py.
"""

from math import prod

import numpy as np
import pytest
from helpers.tolerances import EXACT

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.estimators.bags.bags import read_bags
from attnscope.estimators.fit.intervals import (
    conformal_scores,
    excluded_labels,
    fewest_groups,
    group_weights,
    interval_scale,
    plus_guarantee,
    plus_interval,
)
from attnscope.estimators.sets import _min_fit_groups, calibration_size, plus_folds

# EM alone
QUICK = {"gate": "quadratic", "loss": "mixture", "alpha": (np.inf, 1.0), "n_starts": 2}
TASK = at.SingleLocation(dim=4, length=4, signal=4.0, noise=0.3, seed=1)
TRAIN = TASK.sample(60, seed=1)
TEST = TASK.sample(300, seed=2)
X = TRAIN.tokens
Y = TRAIN.target
GROUPS = np.arange(60) // 3


@pytest.fixture(scope="module")
def fitted():
    """A regressor and a classifier of three classes for each kind of interval."""
    words = np.array(["low", "high", "middle"])[np.digitize(Y, [-0.5, 0.5])]
    out = {}
    for kind in ("cross", "split", "cv+"):
        numbers = at.SingleLocationRegressor(interval=kind, **QUICK)
        classes = at.SingleLocationClassifier(interval=kind, **QUICK)
        out[kind] = (numbers.fit(X, Y, groups=GROUPS), classes.fit(X, words))
    return out


# -- formulas --------------------------------------------------------------------------------------


@pytest.mark.parametrize("coverage", [0.5, 0.55, 0.8, 0.9, 0.95, 0.99])
def test_the_fewest_groups_are_the_fewest(coverage):
    enough = [g for g in range(1, 200) if round(coverage * (g + 1), 9) <= g]
    assert fewest_groups(coverage) == enough[0]


def test_a_score_counts_for_its_share_of_the_group():
    rng = np.random.default_rng(5)
    groups = rng.integers(25, size=80)
    scores = rng.standard_normal(80)
    kept, weight = conformal_scores(scores, groups)
    number = len(np.unique(groups))
    for coverage in (0.5, 0.8, 0.9):
        means = [
            np.mean([np.mean(scores[groups == g] <= q) for g in np.unique(groups)])
            for q in kept
        ]
        first = np.argmax(np.array(means) * number >= coverage * (number + 1))
        assert interval_scale(kept, weight, coverage) == kept[first]


def test_cv_plus_is_the_pair_of_ranks_without_groups_and_its_definition_with():
    rng = np.random.default_rng(6)
    low = rng.standard_normal((3, 39))
    high = low + rng.random((3, 39))
    ends = plus_interval(low, high, np.ones(39), 0.9)
    # n + 1 = 40: the 4th smallest and the 36th smallest
    np.testing.assert_array_equal(ends[:, 0], np.sort(low)[:, 3])
    np.testing.assert_array_equal(ends[:, 1], np.sort(high)[:, 35])
    weight = group_weights(np.arange(39) // 2, 39)
    ends = plus_interval(low, high, weight, 0.9)
    for b in range(3):
        for y in np.r_[low[b], high[b]]:
            below = weight[low[b] > y].sum() >= 0.9 * 21 - EXACT
            above = weight[high[b] < y].sum() >= 0.9 * 21 - EXACT
            assert (ends[b, 0] <= y <= ends[b, 1]) == (not below and not above)


def test_classes_are_left_out_by_the_definition():
    rng = np.random.default_rng(7)
    scores = rng.random((4, 30, 3))
    own = rng.random(30)
    weight = group_weights(np.arange(30) // 3, 30)
    out = excluded_labels(scores, own, weight, 0.5)
    for b in range(4):
        for c in range(3):
            above = sum(w for s, o, w in zip(scores[b, :, c], own, weight) if s > o)
            assert out[b, c] == (above >= 0.5 * 11 - EXACT)
    assert out.any() and not out.all()


@pytest.mark.parametrize("seed", range(6))
def test_no_tournament_beats_the_promise(seed):
    """The counting part of the proof: of K + 1 folds of m groups, each bag compared with those of
    other folds, bags that exceed coverage (G + 1) others weigh 2a(G+1) + m - 2 at most.
    """
    rng = np.random.default_rng(seed)
    folds, m, coverage = [(10, 2, 0.9), (5, 4, 0.8), (12, 1, 0.7)][seed % 3]
    groups = np.repeat(np.arange((folds + 1) * m), 3 if seed < 3 else 1)
    fold = groups // m
    weight = group_weights(groups, len(groups))
    most = 0.0
    for _ in range(60):
        # a share of bags that nearly always win, and of wins by chance
        strength = rng.standard_normal(len(groups)) * rng.choice([0, 1, 10])
        strength[rng.random(len(groups)) < rng.random()] += 3
        noise = rng.standard_normal((len(groups), len(groups)))
        win = strength[:, None] - strength + noise - noise.T > 0
        win &= fold[:, None] != fold
        strange = win @ weight >= coverage * (folds * m + 1)
        most = max(most, weight[strange].sum())
    bound = 2 * (1 - coverage) * (folds * m + 1) + m - 2
    assert most <= bound + EXACT
    promise = plus_guarantee(folds * m, folds, coverage)
    assert 1 - promise <= bound / ((folds + 1) * m) + EXACT
    assert most >= bound / 4  # the trials come near enough to say something


def test_the_promise_of_cv_plus():
    for n in (10, 40, 80, 200, 1000, 10000):
        for coverage in (0.8, 0.9, 0.95):
            promise = plus_guarantee(n, 10, coverage)
            slack = min(1.8 / (n / 10 + 1), (1 - 10 / n) / 11)
            assert promise >= 2 * coverage - 1 - slack - EXACT
    assert plus_guarantee(30, 30, 0.9) >= 0.8  # a fold for each: 1 - 2a
    assert abs(plus_guarantee(10**6, 10, 0.9) - 0.8) < 1e-4


def test_how_many_are_kept_from_the_fit():
    assert [calibration_size(g) for g in (4, 18, 25, 38, 80, 400)] == [2, 9, 12, 19, 20, 100]
    assert [plus_folds(g) for g in (4, 10, 25, 80)] == [(4, 1), (10, 1), (10, 2), (10, 8)]


# -- the estimators --------------------------------------------------------------------------------


@pytest.mark.slow
def test_split_keeps_its_groups_from_the_fit(fitted):
    model = fitted["split"][0]
    assert len(model.conformal_scores_) == 30 and round(model.conformal_weights_.sum()) == 10
    assert len(model.cv_losses_) == 30


def test_cv_plus_measures_every_bag_by_a_model_that_has_not_seen_it(fitted):
    """The interval by its parts, and the models by fits of one's own."""
    model = fitted["cv+"][0]
    assert len(model.plus_models_) == 10 and len(model.plus_scores_) == 60
    assert all(len(part.cv_losses_) == 54 for part in model.plus_models_)
    parts = [part.predict_interval(TEST.tokens, 0.8) for part in model.plus_models_]
    middle = np.mean(parts, axis=2)
    for part, at_ in zip(model.plus_models_, middle):
        np.testing.assert_allclose(part.predict(TEST.tokens), at_, rtol=1e-9, atol=1e-9)
    assert not np.array_equal(middle[0], middle[1])
    ends = model.predict_interval(TEST.tokens)
    assert (ends[:, 0] < ends[:, 1]).all()
    for fold, part in enumerate(model.plus_models_):
        own = np.isin(np.abs(Y[:, None] - part.predict(X)[:, None])[:, 0], [0.0])
        assert not own.any()
        measured = np.sort(model.plus_scores_[model.plus_fold_ == fold])
        every = np.abs(Y - part.predict(X)) / part._middle_and_spread(read_bags(X, ""))[1]
        assert all(np.isclose(every, score, rtol=1e-9).any() for score in measured)


@pytest.mark.parametrize("kind", ["cross", "split", "cv+"])
def test_answers_are_kept_in_files(kind, fitted, tmp_path):
    for i, model in enumerate(fitted[kind]):
        model.calibrate_locations(TEST.tokens[:40], TEST.location[:40])
        model.save(tmp_path / f"{i}.npz")
        back = at.load_model(tmp_path / f"{i}.npz")
        name = "predict_set" if i else "predict_interval"
        np.testing.assert_array_equal(
            getattr(back, name)(TEST.tokens), getattr(model, name)(TEST.tokens)
        )
        np.testing.assert_array_equal(
            back.locate_set(TEST.tokens), model.locate_set(TEST.tokens)
        )
        assert back.promised_coverage() == model.promised_coverage()
        for own in ("location_scores_", "location_weights_"):
            delattr(model, own)


def test_sets_of_classes_hold_the_class_and_grow(fitted):
    for kind in ("cross", "split", "cv+"):
        model = fitted[kind][1]
        few = model.predict_set(TEST.tokens, 0.6)
        assert few.shape == (300, 3) and few.dtype == bool
        best = np.argmax(model.predict_proba(TEST.tokens), axis=1)
        assert few[np.arange(300), best].all()
        more = model.predict_set(TEST.tokens, 0.9)
        assert (more | ~few).all() and more.sum() > few.sum()
        words = np.array(["low", "high", "middle"])[np.digitize(TEST.target, [-0.5, 0.5])]
        hit = more[np.arange(300), np.searchsorted(model.classes_, words)].mean()
        assert hit > 0.75, kind


def test_a_class_that_a_fold_has_not_seen_has_no_share(fitted):
    model = fitted["cross"][1]
    held = read_bags(TEST.tokens, "")
    found = model._class_probabilities(held, np.array(["high", "none", "low"]))
    np.testing.assert_array_equal(found[:, 1], 0)
    np.testing.assert_array_equal(found[:, [0, 2]], model.predict_proba(TEST.tokens)[:, :2])


def test_what_was_promised_is_of_the_fit():
    """Not of parameters that were set afterwards, nor of an earlier fit."""
    model = at.SingleLocationRegressor(interval="cv+", **QUICK).fit(X[:12], Y[:12])
    model.set_params(interval="cross")
    assert model.promised_coverage() == plus_guarantee(10, 10, 0.9)
    model.fit(X, Y)
    assert model.promised_coverage() == 0 and model.predict_interval(X).shape == (60, 2)
    assert not [name for name in vars(model) if name.startswith("plus_")]


def test_promised_coverage(fitted):
    assert fitted["cross"][0].promised_coverage() == 0
    assert fitted["split"][0].promised_coverage() == 0.9
    assert fitted["cv+"][0].promised_coverage() == plus_guarantee(20, 10, 0.9)
    assert fitted["cv+"][1].promised_coverage(0.8) == plus_guarantee(60, 10, 0.8)


# -- tokens ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unsure():
    """A model of a key that is hard to tell, and bags it has not seen."""
    task = at.SingleLocation(dim=4, length=4, signal=1.5, noise=0.1, seed=1)
    train = task.sample(300, seed=1)
    return at.SingleLocationRegressor(**QUICK).fit(train.tokens, train.target), task.sample(
        300, seed=2
    )


def test_a_set_of_tokens_is_the_smallest_with_this_weight(unsure):
    model, test = unsure
    weak = test.tokens[:100]
    weight = model.attention(weak)
    sets = model.locate_set(weak, coverage=0.7)
    for own, inside in zip(weight, sets):
        best = np.sort(own)[::-1]
        size = 1 + int(np.sum(np.cumsum(best) < 0.7))
        assert inside.sum() == size and own[inside].sum() >= 0.7 - EXACT
    assert len(np.unique(sets.sum(axis=1))) > 1


def test_sets_of_tokens_have_the_form_of_the_bags(fitted):
    model = fitted["cross"][0]
    whole = model.locate_set(TEST.tokens[:20])
    listed = model.locate_set(list(TEST.tokens[:20]))
    np.testing.assert_array_equal(np.array(listed), whole)
    padded = np.concatenate([np.zeros((20, 1, 4)), TEST.tokens[:20]], axis=1)
    mask = np.ones((20, 5), bool)
    mask[:, 0] = False
    found = model.locate_set((padded, mask))
    np.testing.assert_array_equal(found, np.c_[np.zeros(20, bool), whole])
    where = TEST.location[:20]
    model.calibrate_locations((padded, mask), where + 1)
    first = model.location_scores_
    model.calibrate_locations(list(TEST.tokens[:20]), where)
    np.testing.assert_array_equal(model.location_scores_, first)
    model._forget_sets()


def test_known_locations_set_the_size(unsure):
    """At rank ceil((n+1) c) of the known bags the deciding token is the last one taken."""
    model, test = unsure
    weak = test.tokens
    own = model.locate_set(weak)
    model.calibrate_locations(weak[:59], test.location[:59])
    inside = model.locate_set(weak[:59], coverage=0.9)[np.arange(59), test.location[:59]]
    assert inside.sum() == 54
    assert not np.array_equal(model.locate_set(weak), own)
    new = model.locate_set(weak[59:], coverage=0.9)[np.arange(241), test.location[59:]]
    # Beta(54, 6) coverage and 241 bags: five standard deviations (1e-6) are .21
    assert new.mean() > 0.69
    with pytest.raises(AttnscopeError, match=r"at most 59/60 .* needs at least 99, got 0.99"):
        model.locate_set(weak, coverage=0.99)


def test_locations_of_the_bags_that_split_keeps_from_the_fit_set_the_size():
    model = at.SingleLocationRegressor(interval="split", **QUICK)
    places = np.where(np.arange(60) % 5 == 0, -1, TRAIN.location)
    model.fit(X, Y, locations=places)
    known = len(model.location_scores_)
    assert 10 < known <= 19 and len(model.conformal_scores_) == 19
    first = model.location_scores_
    # the same scores from the bags that the fit has not seen, found by their own scores
    middle, spread = model._middle_and_spread(read_bags(X, ""))
    away = np.isin(np.abs(Y - middle) / spread, model.conformal_scores_)
    away &= places >= 0
    model.calibrate_locations(X[away], TRAIN.location[away])
    np.testing.assert_allclose(model.location_scores_, first, rtol=1e-9, atol=EXACT)
    assert not hasattr(model.fit(X, Y), "location_scores_")


# -- sentences -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "groups", "words"),
    [
        ({}, np.zeros(5), r"groups of .*fit must be one group per bag, shape \(60,\)"),
        (
            {},
            [None] * 60,
            "groups of .* 60 missing of 60, the first for bag 0; give every bag a group",
        ),
        (
            {},
            np.r_[np.ones(59), np.nan],
            "1 missing of 60, the first for bag 59; give every bag a group",
        ),
        ({}, np.zeros(60), "at least two groups"),
        ({"interval": "split"}, np.arange(60) % 3, 'at least 4 groups for interval="split"'),
        ({"interval": "jackknife"}, None, "interval of .* one of 'cross', 'split', 'cv"),
    ],
)
def test_what_fit_refuses(options, groups, words):
    for kind in (at.SingleLocationRegressor, at.SingleLocationClassifier):
        with pytest.raises(AttnscopeError, match=words):
            kind(**options, **QUICK).fit(X, np.sign(Y), groups=groups)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("cross", "at most 20/21 with 20 held-out groups; .* at least 99 groups for it"),
        ("split", "at most 10/11 with 10 held-out groups; .* at least 396 groups for it"),
        ("cv+", "at most 20/21 with 20 held-out groups; .* at least 100 groups for it"),
    ],
)
def test_an_unreachable_coverage_names_the_smallest_number(kind, words, fitted):
    model = fitted[kind][0]
    for ask in (model.predict_interval, lambda x, c: model.promised_coverage(c)):
        with pytest.raises(AttnscopeError, match=words + ", got 0.99"):
            ask(TEST.tokens, 0.99)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_the_smallest_number_named_is_the_smallest(coverage):
    """By the numbers that each kind holds out of G groups."""
    out = {
        "cross": lambda g: g,
        "split": calibration_size,
        "cv+": lambda g: prod(plus_folds(g)),
    }
    for kind, held in out.items():
        reached = [g for g in range(4, 500) if held(g) >= round(coverage * (held(g) + 1), 9)]
        assert max(_min_fit_groups(kind, coverage), 4) == reached[0]


def test_other_sentences(fitted):
    plus = fitted["cv+"][0]
    with pytest.raises(AttnscopeError, match=r"at least 0\.5 with interval"):
        plus.predict_interval(X, 0.4)
    with pytest.raises(AttnscopeError, match=r"interval of .*partial_fit must be"):
        at.SingleLocationRegressor(interval="split").partial_fit(X, Y)
    cross = fitted["cross"][0]
    of = r"locations of SingleLocationRegressor.calibrate_locations must be"
    with pytest.raises(AttnscopeError, match=of + " 60 whole numbers"):
        cross.calibrate_locations(X, np.zeros(60))
    with pytest.raises(AttnscopeError, match=of + " tokens of their bags.* got 4 in bag 0"):
        cross.calibrate_locations(X, np.full(60, 4))
    with pytest.raises(AttnscopeError, match=r"predict_set of .* fitted by fit"):
        at.SingleLocationClassifier().fit_batches([(X, Y > 0)]).predict_set(X)
    assert not hasattr(cross, "location_scores_")


def test_no_number_of_bags_guarantees_everything():
    batch = at.SingleLocation(6, 4, seed=1).sample(40, seed=1)
    model = at.SingleLocationRegressor().fit(batch.tokens, batch.target)
    with pytest.raises(AttnscopeError, match="below 1, because no number of bags"):
        model.predict_interval(batch.tokens, 1)
