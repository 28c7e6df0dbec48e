"""Locations that are known: the E step takes them as seen, the likelihood is that of what was seen,
and what they cannot be is one sentence.
"""

import numpy as np
import pandas as pd
import pytest
from helpers.tolerances import EXACT, SOLVED

import attnscope as at
from attnscope.errors import AttnscopeError
from attnscope.estimators.fit.data import Data
from attnscope.estimators.fit.em import Em, TokenModel, em_step, responsibilities, run_em
from attnscope.estimators.fit.quick_em import posterior_responsibilities
from attnscope.estimators.fit.ridge import values_from
from attnscope.numerics.compiled.data_pass import GAUSSIAN

N, L, D = 60, 4, 3
TASK = at.SingleLocation(dim=D, length=L, signal=1.5, noise=0.3, seed=3)
DATA = TASK.sample(N, seed=1)
X, Y, J = DATA.tokens, DATA.target, DATA.location
EM = {
    "gate": "quadratic",
    "pooling": "softmax",
    "loss": "mixture",
    "n_starts": 2,
    "alpha": (np.inf, 0.1),
}
SOME = np.where(np.arange(N) % 2 == 0, J, -1)


def data(known):
    flat = X.reshape(-1, D)
    return Data(flat, np.arange(N + 1) * L, Y, np.ones(N), GAUSSIAN, 1, None, None, known)


def start():
    tokens = TokenModel(np.zeros(D), np.eye(D), np.full(D, 0.3), 0.8, np.inf)
    return Em(tokens, values_from(np.full((D, 1), 0.2), np.zeros(1), 0.5, 1.0))


# -- the E step ------------------------------------------------------------------------------------


def test_responsibilities_by_hand():
    em = start()
    r = responsibilities(em, data(SOME))[0].reshape(N, L)
    free = responsibilities(em, data(None))[0].reshape(N, L)
    np.testing.assert_array_equal(r[::2], np.eye(L)[J[::2]])
    np.testing.assert_array_equal(r[1::2], free[1::2])
    quick = posterior_responsibilities(np.zeros(N * L), em.values, data(SOME)).reshape(N, L)
    np.testing.assert_array_equal(quick[::2], np.eye(L)[J[::2]])


def test_the_likelihood_is_that_of_what_was_seen():
    """All positions, one after the other, known: their likelihoods add up to that of not knowing."""
    em = start()
    each = np.empty((N, L))
    for bag in range(N):
        one = data(None).take(np.array([bag]))
        for place in range(L):
            seen = one._replace(known=np.array([place]))
            each[bag, place] = responsibilities(em, seen)[1]
    free = responsibilities(em, data(None))[1]
    np.testing.assert_allclose(np.logaddexp.reduce(each, axis=1).sum(), free, rtol=EXACT)


def test_likelihood_never_falls_with_fixed_noise():
    """EM's own promise, with half of the locations known: the first steps, before the covariance's
    shrinkage and the evidence matter, climb.
    """
    em = start()
    found = []
    for _ in range(4):
        em, value = em_step(em, data(SOME), True)
        found.append(value)
    assert np.all(np.diff(found) > 0)


def test_all_known_is_regression_on_the_deciding_tokens():
    em = run_em(start(), data(J), True, 5)
    deciding = X[np.arange(N), J]
    free = np.delete(X.reshape(-1, D), np.arange(N) * L + J, axis=0)
    np.testing.assert_allclose(em.tokens.mean, free.mean(axis=0), rtol=SOLVED, atol=SOLVED)
    np.testing.assert_allclose(
        np.linalg.solve(em.tokens.whiten.T, em.tokens.key),
        deciding.mean(axis=0) - free.mean(axis=0),
        rtol=SOLVED,
        atol=SOLVED,
    )
    centred = deciding - deciding.mean(axis=0)
    slope = np.linalg.lstsq(centred, Y - Y.mean(), rcond=None)[0]
    # the evidence's ridge shrinks a little
    np.testing.assert_allclose(em.values.weights[:, 0], slope, atol=0.05)


# -- fit -------------------------------------------------------------------------------------------


def test_nothing_known_changes_nothing():
    plain = at.SingleLocationRegressor(**EM).fit(X, Y)
    same = at.SingleLocationRegressor(**EM).fit(X, Y, locations=np.full(N, -1))
    np.testing.assert_array_equal(same.predict(X), plain.predict(X))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_third_of_the_locations_says_which_of_two_kinds_of_token_decides(seed):
    """Two kinds of token as distinct from the rest, and labels that say nothing: EM finds one of
    them, the same whichever is meant; told of 20 bags in 60 it finds the one that is.
    """
    rng = np.random.default_rng([seed, 17])
    x = rng.standard_normal((60, 6, 4))
    places = np.argsort(rng.random((60, 6)), axis=1)[:, :2].T
    for axis, place in enumerate(places):
        x[np.arange(60), place, axis] += 5.0
    y = rng.standard_normal(60)
    for place in places:
        known = np.where(np.arange(60) < 20, place, -1)
        model = at.SingleLocationRegressor(**EM).fit(x, y, locations=known)
        assert np.mean(model.locate(x)[20:] == place[20:]) > 0.9
    alone = at.SingleLocationRegressor(**EM).fit(x, y).locate(x)
    assert min(np.mean(alone == place) for place in places) < 0.5


def test_classes_with_known_locations():
    classes = at.SingleLocationClassifier(**EM).fit(X, (Y > 0).astype(int), locations=J)
    assert classes.assumption_ == "single" and classes.stages_ == ["em"]
    assert np.mean(classes.locate(X) == J) > 0.6


def test_only_em_is_tried():
    model = at.SingleLocationRegressor(n_starts=2).fit(X, Y, locations=SOME)
    assert set(model.stages_) <= {"em", "mean"}


@pytest.mark.parametrize("form", ["list", "mask", "rows", "weights", "wide"])
def test_forms(form):
    expected = at.SingleLocationRegressor(**EM).fit(X, Y, locations=SOME)
    model = at.SingleLocationRegressor(**EM)
    if form == "list":
        model.fit(list(X), Y, locations=SOME.tolist())
    elif form == "mask":  # two places of padding before the tokens
        padded = np.concatenate([np.full((N, 2, D), 1e6), X], axis=1)
        mask = np.repeat([0, 1], [2, L]) * np.ones((N, 1), int)
        model.fit((padded, mask), Y, locations=np.where(SOME < 0, -1, SOME + 2))
    elif form == "rows":
        frame = pd.DataFrame(X.reshape(-1, D), columns=list("abc"))
        frame = frame.assign(bag=np.repeat(np.arange(N), L), at=np.repeat(SOME, L))
        model.fit(frame, Y, locations="at")
    elif form == "weights":  # a bag that takes no part, with a location that would mislead
        bags = [*X, 50 + X[0]]
        weight = np.append(np.ones(N), 0.0)
        model.fit(bags, np.append(Y, 1e3), weight, locations=np.append(SOME, 0))
    else:
        more = np.concatenate([X, np.zeros((N, L, 1))], axis=2)
        wide = at.SingleLocationRegressor(**EM, components=D).fit(more, Y, locations=SOME)
        assert wide.components_ == D
        found = np.mean(wide.locate(more) == expected.locate(X))
        assert found > 0.95
        return
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("interval", ["split", pytest.param("cv+", marks=pytest.mark.slow)])
def test_with_a_promise(interval):
    model = at.SingleLocationRegressor(**EM, interval=interval).fit(X, Y, locations=SOME)
    assert model.predict_interval(X, 0.8).shape == (N, 2)


PADDED = (np.concatenate([X, X[:, :1]], axis=1), np.tile([1, 1, 1, 1, 0], (N, 1)))


@pytest.mark.parametrize(
    ("options", "bags", "locations", "words"),
    [
        ({}, X, SOME[:5], "one for each of 60 bags"),
        ({}, X, SOME + 0.5, "whole numbers"),
        ({}, X, np.full(N, L), "4 in bag 0"),
        ({}, X, np.full(N, -2), "-2 in bag 0"),
        ({}, PADDED, np.full(N, 4), "4 in bag 0"),
        ({"pooling": "sigmoid", "loss": "auto"}, X, SOME, "pooling"),
        ({"loss": "attention"}, X, SOME, "loss"),
        ({"gate": "random-features"}, X, SOME, "gate"),
        ({"heads": 2}, X, SOME, "heads"),
    ],
)
def test_sentences(options, bags, locations, words):
    with pytest.raises(AttnscopeError, match=words):
        at.SingleLocationRegressor(**(EM | options)).fit(bags, Y, locations=locations)


def test_witnesses_have_no_location():
    model = at.SingleLocationClassifier(assumption="witness")
    with pytest.raises(AttnscopeError, match="assumption"):
        model.fit(X, Y > 0, locations=SOME)
