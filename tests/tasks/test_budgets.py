"""Sampled risks that would take longer than seconds draw fewer samples, with an error that knows,
or refuse.

A comparison at 5 standard errors raises a false alarm with probability 6e-7; seeds are fixed, no
clock decides.
"""

import pytest

import attnscope as at
from attnscope.tasks.exchangeable import linear_map
from attnscope.tasks.planted import multi_location, sparse_tokens


def within(few, many):
    """Two sampled numbers agree, the one from fewer draws with the larger error."""
    assert abs(few.excess - many.excess) <= 5 * (few.error**2 + many.error**2) ** 0.5
    assert few.error > 1.5 * many.error


def test_fewer_contexts_agree_with_many(monkeypatch):
    task = at.LinearMap(10, 1, keys="sphere")
    many = task.bayes_risk(20)
    monkeypatch.setattr(linear_map, "RISK_MULTIPLICATIONS", 100 * 21 * 10 * 10.0)
    few = task.bayes_risk(20)
    assert few.method == "Monte Carlo over keys, 100 contexts"
    within(few, many)


def test_fewer_marked_draws_agree_with_many(monkeypatch):
    task = at.SparseTokenClassification(2, 12, 2.0, marked=3)
    many = task.bayes_error()
    monkeypatch.setattr(sparse_tokens, "ERROR_STEPS", 1e4 * 12 * 103 * 6)
    within(task.bayes_error(), many)


def test_fewer_sequences_agree_with_many(monkeypatch):
    task = at.MultiLocation(6, 8, 2, signal=2.0)
    many = task.bayes_risk()
    monkeypatch.setattr(multi_location, "RISK_TRIPLES", 1e4 * 8 * 9)
    within(task.bayes_risk(), many)


REFUSED = (
    (
        lambda: at.LinearMap(2000, 1, keys="sphere").bayes_risk(3000),
        "length of LinearMap.bayes_risk must be one that",
    ),
    (
        lambda: at.SparseTokenClassification(2, 10**5, 0.2, marked=5000).bayes_error(),
        "try max_test_error",
    ),
    (
        lambda: at.MultiLocation(20, 10**4, 3000).bayes_risk(),
        "must be at most 5e.05 where the risk is sampled",
    ),
    (
        lambda: at.SphereRegression(3, 0.5, (900,)),
        "degrees of SphereRegression must be such that their bases",
    ),
)


@pytest.mark.parametrize(("call", "sentence"), REFUSED)
def test_what_no_few_draws_would_serve_is_refused_at_once(call, sentence):
    with pytest.raises(at.AttnscopeError, match=sentence):
        call()
