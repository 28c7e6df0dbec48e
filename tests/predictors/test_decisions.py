"""Deciding by attention: by hand, by listing every action, in many contexts at once; bad input."""

import math

import numpy as np
import pytest
from helpers.tolerances import EXACT

import attnscope as at

RNG = np.random.default_rng(12)
K = RNG.standard_normal((7, 3))
Y = RNG.standard_normal(7)
Q = RNG.standard_normal((5, 3))


def by_hand(q, k, y, short, over, h):
    """The first minimiser among all outcomes, by the definition."""
    w = np.exp(k @ q / h)
    w /= w.sum()
    costs = [
        np.sum(w * (short * np.maximum(y - a, 0) + over * np.maximum(a - y, 0))) for a in y
    ]
    return y[np.argmin(costs)], min(costs)


@pytest.mark.parametrize("price", [(9.0, 1.0), (1.0, 1.0), (0.01, 3.0)])
def test_quantile_is_the_best_outcome(price):
    found = at.attention_decision(Q, K, Y, price, bandwidth=0.7)
    for i, q in enumerate(Q):
        action, cost = by_hand(q, K, Y, *price, 0.7)
        assert found.action[i] == action
        assert found.cost[i] == pytest.approx(cost, rel=EXACT)


def test_contexts_of_their_own_and_listed_actions():
    keys = RNG.standard_normal((4, 7, 3))
    outcomes = RNG.standard_normal((4, 7))
    found = at.attention_decision(Q[:4], keys, outcomes, (3.0, 1.0), bandwidth=0.5)
    for i in range(4):
        one = at.attention_decision(Q[i], keys[i], outcomes[i], (3.0, 1.0), bandwidth=0.5)
        assert found.action[i] == one.action and found.cost[i] == one.cost
        actions = np.sort(outcomes[i])
        listed = at.attention_decision(
            Q[i], keys[i], outcomes[i], (3.0, 1.0), actions, bandwidth=0.5
        )
        assert listed.action == one.action
        assert listed.cost == pytest.approx(one.cost, rel=EXACT)


def test_equal_weights_that_reach_tau_reach_it():
    """ceil(tau n) at integers: 0.9 * 10 tokens are 9, for any n of tens."""
    for n in (10, 20, 50, 100, 1000):
        y = np.arange(n, dtype=float)
        found = at.attention_decision(np.zeros(1), np.zeros((n, 1)), y, (9.0, 1.0))
        assert found.action == 9 * n / 10 - 1


def test_actions_may_be_vectors():
    actions = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]])
    cost = lambda a, y: (a[:, :1] - y) ** 2 + a[:, 1:]
    found = at.attention_decision(Q, K, np.full(7, 2.0), cost, actions)
    np.testing.assert_array_equal(found.action, np.tile([2.0, 0.0], (5, 1)))
    np.testing.assert_allclose(found.cost, 0.0, atol=EXACT)


CASES = {
    "costs": (lambda: at.attention_decision(Q, K, Y, 9.0), "two costs per unit > 0"),
    "free": (
        lambda: at.attention_decision(Q, K, Y, (0.0, 1.0)),
        r"cost \(short\) of attention_decision must be a finite number > 0",
    ),
    "no actions": (
        lambda: at.attention_decision(Q, K, Y, lambda a, y: a[:, None] - y),
        "actions of attention_decision must be an array",
    ),
    "shape of costs": (
        lambda: at.attention_decision(Q, K, Y, lambda a, y: a, np.arange(3.0)),
        r"cost of attention_decision .* got shape \(3,\)",
    ),
    "broken cost": (
        lambda: at.attention_decision(Q, K, Y, lambda a, y: 1 / 0, np.arange(3.0)),
        "got ZeroDivisionError",
    ),
    "nan cost": (
        lambda: at.attention_decision(
            Q, K, Y, lambda a, y: a[:, None] * y * math.nan, np.arange(3.0)
        ),
        "NaN, infinity or more than 1e50",
    ),
    "no tokens": (
        lambda: at.attention_decision(Q, K[:0], Y[:0], (1.0, 1.0)),
        "outcomes of attention_decision must be at least one",
    ),
    "lengths": (
        lambda: at.attention_decision(Q, K, Y[:3], (1.0, 1.0)),
        "one for each of the 7 keys",
    ),
    "bandwidth": (
        lambda: at.attention_decision(Q, K, Y, (1.0, 1.0), bandwidth=0.0),
        "bandwidth of attention_decision must be a finite number > 0",
    ),
    "outcomes": (
        lambda: at.attention_decision(Q, K, [math.nan] * 7, (1.0, 1.0)),
        "outcomes of attention_decision must be finite",
    ),
    "length": (
        lambda: at.decision_regret(201, 9.0, 1.0),
        "length of decision_regret must be an integer >= 1 and <= 200, got 201",
    ),
    "short": (
        lambda: at.decision_regret(5, 0.0, 1.0),
        "short of decision_regret must be a finite number > 0",
    ),
    "shifts": (
        lambda: at.decision_regret(5, 1.0, 1.0, shifts=[]),
        "shifts of decision_regret",
    ),
    "sharp": (
        lambda: at.decision_regret(5, 1.0, 1.0, (0.0, 1.0), 21.0),
        "inverse_bandwidth of decision_regret must be a finite number >= 0 and <= 20",
    ),
    "classes": (
        lambda: at.decision_regret(5, 1.0, 1.0, (0.0, 1.0), probabilities=[0.5, 0.4]),
        "probabilities that sum to 1, got sum 0.9",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_one_sentence(name):
    call, sentence = CASES[name]
    with pytest.raises(at.AttnscopeError, match=sentence):
        call()
