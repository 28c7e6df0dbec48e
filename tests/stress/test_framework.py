"""The judge of the stress tests: what it lets pass and what it does not."""

import numpy as np
import pytest

from attnscope.errors import AttnscopeError
from stress.attack import attack_one, summary
from stress.judged import Answer, Truth, at_most, ratio, same
from stress.subject import Subject


def _subject(call, **more):
    return Subject(
        "a subject", ("nothing",), lambda rng: {"x": float(rng.random())}, call, **more
    )


def test_ratio_is_the_largest_difference_in_errors():
    assert ratio(Answer([1.0, 2.0], [0.1, 0.1]), Truth([1.1, 2.3])) == pytest.approx(3.0)
    assert ratio(Answer(1.0, 0.1), Truth(1.3, 0.2)) == pytest.approx(1.0)
    assert ratio(Answer(1.0, 0.0), Truth(1.0)) == 0
    assert ratio(Answer(1.0, 0.0), Truth(1.0 + 1e-16)) == 0
    assert ratio(Answer(1.0, 0.0), Truth(1.1)) == np.inf
    assert ratio(Answer(np.nan, 1.0), Truth(1.0)) == np.inf
    assert ratio(Answer([1.0], 1.0), Truth(1.0)) == np.inf


@pytest.mark.parametrize(
    ("call", "truth", "word"),
    [
        (lambda s: Answer(s["x"], 1e-3), lambda s: Truth(s["x"] + 0.9e-3), ""),
        (
            lambda s: Answer(s["x"], 1e-3),
            lambda s: Truth(s["x"] + 1.1e-3),
            "truth: ratio 1.1",
        ),
        (lambda s: Answer(s["x"], 1e-3, sampled=True), lambda s: Truth(s["x"] + 4.9e-3), ""),
        (
            lambda s: Answer(s["x"], 1e-3, sampled=True),
            lambda s: Truth(s["x"] + 5.1e-3),
            "truth: ratio 5.1",
        ),
        (lambda s: Answer(np.nan, 1e-3), lambda s: None, "no number"),
        (lambda s: Answer(1.0, np.inf), lambda s: None, "no number"),
        (lambda s: Answer(1.0, -1e-3), lambda s: None, "negative error"),
        (lambda s: 1 / 0, lambda s: None, "ZeroDivisionError"),
    ],
)
def test_what_an_answer_may_be(call, truth, word):
    trouble = attack_one(_subject(call, truth=truth), 0, seed=1).trouble
    assert trouble.startswith(word) if word.startswith("truth") else word in trouble
    assert bool(trouble) == bool(word)


def test_a_reference_that_fails_is_trouble_and_not_the_end():
    subject = _subject(lambda s: Answer(1.0, 1.0), truth=lambda s: 1 / 0)
    assert "the reference failed: ZeroDivisionError" in attack_one(subject, 0, seed=1).trouble


def test_two_calls_must_agree_to_the_bit():
    rng = np.random.default_rng(0)
    assert (
        "two calls differ"
        in attack_one(_subject(lambda s: Answer(rng.random(), 1.0)), 0, seed=1).trouble
    )


def test_a_refusal_needs_a_declared_reason():
    def refuse(setting):
        raise AttnscopeError("a sentence.")

    assert "without a declared reason" in attack_one(_subject(refuse), 0, seed=1).trouble
    allowed = _subject(refuse, may_refuse=lambda setting: "too large")
    assert attack_one(allowed, 0, seed=1).trouble == ""
    assert summary([attack_one(allowed, 0, seed=1)])[0].refused == 1


def test_relations():
    assert at_most("a", 1.0, 2.0, 0.0).ratio == 0
    assert at_most("a", 2.0, 1.0, 0.5).ratio == 2
    assert same("a", 1.0, 1.0, 0.0).ratio == 0
    wrong = _subject(
        lambda s: Answer(2.0, 0.1),
        relations=lambda s, a: [at_most("bayes <= null", a.value, 1.0, 0.1)],
    )
    assert attack_one(wrong, 0, seed=1).trouble.startswith("bayes <= null: ratio 10")


def test_settings_depend_on_seed_name_and_number_only():
    subject = _subject(lambda s: Answer(s["x"], 0.0))
    first = attack_one(subject, 3, seed=7).setting
    assert attack_one(subject, 3, seed=7).setting == first
    assert attack_one(subject, 4, seed=7).setting != first
    assert attack_one(subject, 3, seed=8).setting != first
