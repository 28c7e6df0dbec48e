"""groups= in folds, errors, fit and diagnose; tokens that stand in more than one bag."""

import warnings

import numpy as np
import pytest
from helpers.tolerances import EXACT

import attnscope as at
from attnscope.corpora.digits import digit_bags
from attnscope.estimators.bags.bags import read_bags
from attnscope.estimators.bags.groups import shared_rows
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.folds import gain_and_error, make_folds
from attnscope.numerics.compiled.data_pass import GAUSSIAN

# EM alone
QUICK = {"gate": "quadratic", "loss": "mixture", "alpha": (np.inf, 1.0), "n_starts": 2}
TASK = at.SingleLocation(dim=4, length=4, signal=4.0, noise=0.3, seed=1)
TRAIN = TASK.sample(60, seed=1)
TEST = TASK.sample(300, seed=2)
X = TRAIN.tokens
Y = TRAIN.target
GROUPS = np.arange(60) // 3


def bags_of(groups, labels):
    n = len(groups)
    return Data(
        np.zeros((n, 1)), np.arange(n + 1), labels, np.ones(n), GAUSSIAN, 1, None, groups
    )


@pytest.mark.parametrize("seed", range(5))
def test_no_fold_splits_a_group(seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(rng.integers(2, 40), size=100)
    folds = make_folds(bags_of(groups, rng.standard_normal(100)), seed)
    assert len(folds) == min(5, len(np.unique(groups)))
    assert sorted(np.concatenate([fold.out for fold in folds])) == list(range(100))
    for fold in folds:
        assert not set(groups[fold.out]) & set(groups[fold.rest])
    if len(folds) == 5:  # as even as the groups allow: nobody is two largest groups ahead
        sizes = [len(fold.out) for fold in folds]
        assert max(sizes) - min(sizes) <= 2 * np.bincount(groups).max()


def test_groups_of_one_bag_are_no_groups():
    plain = at.SingleLocationRegressor(**QUICK).fit(X, Y)
    named = at.SingleLocationRegressor(**QUICK).fit(X, Y, groups=[f"p{i}" for i in range(60)])
    np.testing.assert_array_equal(named.predict(X), plain.predict(X))
    np.testing.assert_array_equal(named.predict_interval(X), plain.predict_interval(X))


@pytest.mark.parametrize("kind", ["cross", "split"])
def test_groups_may_be_a_column(kind):
    import pandas as pd

    table = pd.DataFrame(X.reshape(240, 4), columns=list("abcd"))
    table["bag"] = np.repeat(np.arange(60), 4)
    table["y"] = np.repeat(Y, 4)
    table["patient"] = np.repeat(GROUPS, 4)
    model = at.SingleLocationRegressor(interval=kind, **QUICK)
    by_name = model.fit(table, "y", groups="patient").predict_interval(table)
    assert list(model.feature_names_in_) == list("abcd")
    whole = at.SingleLocationRegressor(interval=kind, **QUICK).fit(X, Y, groups=GROUPS)
    np.testing.assert_array_equal(by_name, whole.predict_interval(X))


def test_a_bag_of_weight_zero_is_in_no_group():
    weight = np.r_[np.ones(60), 0, 0]
    more = np.concatenate([X, X[:2]])
    model = at.SingleLocationRegressor(interval="split", **QUICK)
    with_ = model.fit(more, np.r_[Y, 9, 9], weight, np.r_[GROUPS, 70, 70]).predict(X)
    np.testing.assert_array_equal(with_, model.fit(X, Y, groups=GROUPS).predict(X))


def test_the_error_of_a_mean_is_that_of_independent_groups():
    """Every bag three times in one group says as much as every bag once."""
    gain = np.random.default_rng(3).standard_normal(40)
    once = gain_and_error(gain, np.ones(40))
    thrice = gain_and_error(np.repeat(gain, 3), np.ones(120), np.repeat(np.arange(40), 3))
    np.testing.assert_allclose(thrice, once, rtol=EXACT)
    lone = gain_and_error(gain, np.ones(40), np.arange(40))
    np.testing.assert_allclose(lone, once, rtol=EXACT)


def test_diagnose_takes_groups():
    model = at.SingleLocationRegressor(**QUICK).fit(X, Y)
    test = np.repeat(TEST.tokens[:50], 3, axis=0)
    labels = np.repeat(TEST.target[:50], 3)
    once = model.diagnose(TEST.tokens[:50], TEST.target[:50])
    thrice = model.diagnose(test, labels, groups=np.repeat(np.arange(50), 3))
    np.testing.assert_allclose(thrice.gain_low, once.gain_low, rtol=1e-9)
    assert model.diagnose(test, labels).gain_low > once.gain_low


# -- tokens that stand in more than one bag --------------------------------------------------------


def shares(bags):
    return shared_rows(read_bags(bags, "test"))


def test_shared_tokens_are_counted():
    rng = np.random.default_rng(0)
    bags = rng.standard_normal((40, 3, 5))
    assert shares(bags) is None
    bags[7, 2] = bags[3, 0]
    bags[9, 1] = bags[3, 0]
    bags[30] = bags[31]
    found = shares(bags)
    assert (found.tokens, found.bags) == (9, 5)
    assert found.pair in {(3, 7), (30, 31)}
    # minus zero is zero; a token twice in one bag is no other bag's
    bags = rng.standard_normal((40, 3, 5))
    bags[2, 0, 1] = -0.0
    bags[5, 0] = bags[2, 0]
    bags[5, 0, 1] = 0.0
    bags[6, 0] = bags[6, 1]
    assert shares(bags).tokens == 2


def test_padding_and_furniture_are_not_counted():
    rng = np.random.default_rng(1)
    bags = rng.standard_normal((60, 4, 5))
    bags[:, 3] = 0.0
    bags[:3, 2] = -1.0  # padding by one number, in few bags
    bags[::4, 1] = rng.standard_normal(5)  # "the"
    assert shares(bags) is None


def test_one_sentence_for_shared_images_and_none_for_words():
    bags = digit_bags(80, seed=3)
    model = at.SingleLocationRegressor(n_starts=1, **{k: QUICK[k] for k in ("loss", "alpha")})
    with pytest.warns(UserWarning, match="tokens stand in more than one bag .* try groups="):
        model.fit(bags.tokens, bags.target)
    rng = np.random.default_rng(2)
    words = rng.standard_normal((60, 5))[rng.integers(60, size=(80, 8))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(bags.tokens, bags.target, groups=np.arange(80))
        model.fit(words, words[:, 0, 0])
