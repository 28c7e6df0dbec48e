"""TopicMixture: data, closed forms against enumeration and draws, optima, bad input.

Sampled comparisons allow 5 standard errors (6e-7 each) at seeds fixed before looking.
"""

from itertools import product

import numpy as np
import pytest
from helpers.tolerances import EXACT, FEW_ROUNDINGS, FORMULA, INTEGRAL, SOLVED
from scipy.optimize import minimize

import attnscope as at
from attnscope.tasks.exchangeable import topic_mixture

TASK = at.TopicMixture(topics=4, words=5, concentration=0.3)


def test_documents_have_the_law_of_the_model():
    n = 40_000
    batch = TASK.sample(n, 3, seed=11)
    topics = batch.tokens // 5
    one = (topics[:, 0] == topics[:, 1]).mean()
    # two words are of one topic with probability (1 + A/T)/(1 + A)
    expected = (1 + 0.3) / (1 + 1.2)
    assert abs(one - expected) < 5 * np.sqrt(expected * (1 - expected) / n)
    spread = batch.latent.var(axis=0)
    assert np.abs(spread - 0.25 * 0.75 / 2.2).max() < 5 * 0.25 / np.sqrt(n)
    assert batch.target.sum() == n and batch.target.shape == (n, 20)
    share = np.bincount(batch.tokens.ravel(), minlength=20) / (3 * n)
    assert np.abs(share - 0.05).max() < 5 * np.sqrt(
        0.05 * 1.6 / n
    )  # words of a document cluster


def test_many_topics_are_searched_as_few_are_compared(monkeypatch):
    drawn = TASK.sample(200, 9, seed=4).tokens
    monkeypatch.setattr(topic_mixture, "COMPARED_TOPICS", 0)
    assert np.array_equal(TASK.sample(200, 9, seed=4).tokens, drawn)


def test_small_concentrations_do_not_underflow():
    theta = at.TopicMixture(3, 2, 1e-9).sample(50, 2, seed=1).latent
    assert np.isfinite(theta).all() and (theta.max(axis=1) > 0.999).all()
    even = at.TopicMixture(3, 2, 1e12).sample(50, 2, seed=1).latent
    assert np.abs(even - 1 / 3).max() < 1e-5


@pytest.mark.parametrize("alpha", [0.2, 3.0, 1e6])
def test_probabilities_of_all_documents_sum_to_one_and_give_the_predictions(alpha):
    task = at.TopicMixture(2, 2, alpha)
    documents = np.array(list(product(range(4), repeat=4)))
    p = np.exp(task.log_probability(documents))
    assert p.sum() == pytest.approx(1, abs=FORMULA)
    said = task.bayes_predict(documents[:, :3])[np.arange(len(p)), documents[:, 3]]
    before = np.exp(task.log_probability(documents[:, :3]))
    assert np.abs(p / before - said).max() < FORMULA
    # the Bayes risk from its definition, over all documents and held-out words
    error = np.eye(4)[documents[:, 3]] - task.bayes_predict(documents[:, :3])
    risk = np.sum(p * np.sum(error**2, axis=1))
    found = task.bayes_risk(3)
    assert found.value == pytest.approx(risk, abs=FORMULA)
    assert found.excess == pytest.approx(found.value - task.noise**2, abs=FORMULA)


def test_the_printed_risks_and_optima():
    """The six digits of the note."""
    risks = [TASK.bayes_risk(n).value for n in (0, 1, 5, 20, 100)]
    assert np.round(risks, 6).tolist() == [0.95, 0.919008, 0.895015, 0.885678, 0.882627]
    short = TASK.masked_optimum(20)
    assert np.round(short[:3], 6).tolist() == [0.118203, 0.20112, 0.002468]
    long = TASK.masked_optimum(200, ridge=1e-3)
    assert np.round(long[:3], 6).tolist() == [0.020506, 0.213645, 0.001118]
    printed = {
        0.2: (0.1057, 0.6646, 0.412089, 0.422727),
        0.35: (0.4394, 1.1402, 0.378194, 0.416335),
        0.5: (0.7900, 1.6175, 0.328552, 0.409943),
        0.8: (1.8033, 2.8676, 0.177203, 0.397159),
    }
    for c, (same_word, same_topic, risk, uniform) in printed.items():
        best = TASK.attention_optimum(20, c)
        assert (round(best.same_word, 4), round(best.same_topic, 4)) == (
            same_word,
            same_topic,
        )
        assert (round(best.risk.value, 6), round(best.uniform.value, 6)) == (risk, uniform)


def test_the_leak_of_kept_words():
    """a = p_c/(k + q + (p_c + p_r - k - q)/N + r N V)."""
    k = 1 - 0.15 + 0.15 * 0.1
    q = 0.15 * 0.1
    for n, ridge in ((1, 0.0), (20, 0.0), (200, 1e-3), (10**6, 1e-3)):
        by_hand = 0.1 / (k + q + (0.2 - k - q) / n + ridge * n * 20)
        assert TASK.masked_optimum(n, ridge=ridge).same_word == pytest.approx(
            by_hand, rel=EXACT
        )


def test_nothing_shown_is_nothing_learnt():
    found = TASK.masked_optimum(1, mask=1.0, keep=0.0, random=0.0)
    assert found[:3] == (0.0, 0.0, 0.0) and found.risk.value == pytest.approx(1, abs=EXACT)


def test_the_optimum_of_attention_by_a_search_without_derivatives():
    task = at.TopicMixture(3, 2, 0.8)
    best = task.attention_optimum(9, 0.4)
    options = {"xatol": 1e-9, "fatol": 1e-16}
    found = minimize(
        lambda x: task.attention_risk(9, 0.4, *x).value, (0.3, 0.3), method="Nelder-Mead", options=options
    )  # fmt: skip
    assert np.abs(found.x - best[:2]).max() < 1e-6  # half the digits of the risk
    assert best.risk.value <= found.fun + FEW_ROUNDINGS
    assert best.bayes.value < best.risk.value < best.uniform.value


def test_long_documents_learn_both_scores_alike():
    task = at.TopicMixture(4, 5, 1.0)
    gaps = [abs(task.attention_optimum(n, 0.5).same_topic - np.log(5)) for n in (100, 200)]
    assert gaps[1] < 0.6 * gaps[0] < 0.03


def test_tokens_have_any_leading_axes_and_may_be_none():
    words = TASK.sample(6, 4, seed=2).tokens.reshape(2, 3, 4)
    assert TASK.posterior(words).shape == (2, 3, 4)
    assert TASK.bayes_predict(words).shape == (2, 3, 20)
    assert TASK.log_probability(words).shape == (2, 3)
    none = np.zeros((2, 0), dtype=int)
    assert TASK.bayes_predict(none) == pytest.approx(np.full((2, 20), 0.05), abs=SOLVED)
    assert TASK.log_probability(none) == pytest.approx([0.0, 0.0], abs=INTEGRAL)


CASES = {
    "topics": (lambda: at.TopicMixture(0), "topics of TopicMixture must be an integer >= 1"),
    "words": (lambda: at.TopicMixture(4, 2.0), "words of TopicMixture must be an integer"),
    "too many": (lambda: at.TopicMixture(10**4, 10**4), "at most 10000000 words in all"),
    "concentration": (
        lambda: at.TopicMixture(4, 5, 0.0),
        "concentration of TopicMixture must be a finite number > 0",
    ),
    "tokens": (lambda: TASK.posterior([20]), r"TopicMixture.posterior must be .* 0 to 19"),
    "length": (lambda: TASK.bayes_risk(-1), "length of TopicMixture.bayes_risk must be"),
    "n": (lambda: TASK.sample(0, 3), "n of TopicMixture.sample must be an integer >= 1"),
    "mask": (lambda: TASK.masked_optimum(5, mask=1.5), "mask of .* and <= 1, got 1.5"),
    "shares": (
        lambda: TASK.masked_optimum(5, keep=0.6, random=0.6),
        "keep [+] random of TopicMixture.masked_optimum must be at most 1, got 1.2",
    ),
    "ridge": (lambda: TASK.masked_optimum(5, ridge=-1), "ridge of .* must be"),
    "scores": (lambda: TASK.attention_risk(5, 0.5, np.nan, 0), "same_word of .* must be"),
    "positions": (lambda: TASK.attention_risk(1001, 0.5, 0, 0), "length of .* <= 1000"),
    "two positions": (lambda: TASK.attention_optimum(2, 0.5), "an integer >= 3"),
    "sure": (lambda: TASK.attention_optimum(20, 1.0), "must be below 1, .*run off; try"),
    "one topic": (
        lambda: at.TopicMixture(1, 5).attention_optimum(20, 0.5),
        "must be one with at least two topics of at least two words",
    ),
    "values": (lambda: at.TopicMixture(100, 100).posterior_attention(), "at most 4000 words"),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_one_sentence(name):
    call, words = CASES[name]
    with pytest.raises(at.AttnscopeError, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)
