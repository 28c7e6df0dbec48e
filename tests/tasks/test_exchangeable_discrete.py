"""Topics and positions: exact posteriors and errors against enumeration of sequences and Monte Carlo.

Monte-Carlo comparisons allow 5 standard errors (6e-7 each) at fixed seeds: with those of
test_exchangeable.py about 40 of them, so below 3e-5 if seeds were fresh.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.tolerances import (
    EXACT,
    FEW_ROUNDINGS,
)
from scipy import stats

from attnscope.errors import AttnscopeError
from attnscope.tasks.exchangeable.positions import (
    OrderTask,
    attach_positions,
    encode_positions,
)
from attnscope.tasks.exchangeable.topics import MOST_COUNTS, Topics, count_vectors

PRIOR = [0.5, 0.3, 0.2]


EMISSIONS = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]


class TestTopics:
    task = Topics(PRIOR, EMISSIONS, labels=[0.0, 1.0, 3.0], noise=0.2)

    def test_posterior_is_bayes_rule(self):
        x = np.array([0, 2, 2, 1])
        joint = [p * np.prod([b[s] for s in x]) for p, b in zip(PRIOR, EMISSIONS)]
        np.testing.assert_allclose(
            self.task.posterior(x), np.array(joint) / sum(joint), rtol=FEW_ROUNDINGS
        )
        assert self.task.log_probability(x) == pytest.approx(
            np.log(sum(joint)), rel=FEW_ROUNDINGS
        )

    @pytest.mark.parametrize("L", [0, 1, 4, 6])
    def test_risk_is_that_of_all_sequences(self, L):
        x = np.array(list(itertools.product(range(3), repeat=L)), dtype=int).reshape(3**L, L)
        p, post = np.exp(self.task.log_probability(x)), self.task.posterior(x)
        r = self.task.labels
        assert self.task.bayes_risk(L).excess == pytest.approx(
            p @ (post @ r**2 - (post @ r) ** 2), rel=EXACT
        )
        assert self.task.topic_error(L).value == pytest.approx(
            p @ (1 - np.sum(post**2, axis=1)), rel=EXACT
        )
        tokens = Topics(PRIOR, EMISSIONS)
        assert tokens.bayes_risk(L).value == pytest.approx(
            p @ (1 - np.sum(tokens.predictive(x) ** 2, axis=1)), rel=EXACT
        )

    def test_small_risks_keep_relative_accuracy(self):
        """Two topics, two symbols, mirror images:
        sum over k of comb(L, k) p1 p2/(p1 + p2) with exact integers.
        """
        from fractions import Fraction
        from math import comb, log

        L = 600
        b = Fraction(3, 4)
        terms = [
            (b**k * (1 - b) ** (L - k), b ** (L - k) * (1 - b) ** k, comb(L, k))
            for k in range(L + 1)
        ]
        exact = sum(n * p * q / (p + q) for p, q, n in terms)  # 2 * (1/2)(1/2)/(1/2)
        out = Topics([0.5, 0.5], [[0.75, 0.25], [0.25, 0.75]]).topic_error(L)
        # scaled exactly, then rounded once
        expected = log(float(exact * 2**128)) - 128 * log(2)
        assert expected < -80 and out.log_excess == pytest.approx(
            expected, abs=out.error / out.excess
        )

    @pytest.mark.parametrize(("L", "V"), [(0, 3), (5, 1), (4, 2), (6, 4), (40, 5)])
    def test_count_vectors_are_all_of_them_once(self, L, V):
        from math import comb

        c = np.concatenate(list(count_vectors(L, V, "a test")))
        assert len(c) == comb(L + V - 1, V - 1) == len(np.unique(c, axis=0))
        assert (c.sum(axis=1) == L).all() and (c >= 0).all()

    def test_beyond_the_limit_a_sentence(self):
        with pytest.raises(
            AttnscopeError,
            match=f"at most {MOST_COUNTS} count vectors .* try a shorter length",
        ):
            Topics(np.ones(2) / 2, np.full((2, 30), 1 / 30)).bayes_risk(50)

    def test_impossible_symbols(self):
        task = Topics([0.5, 0.5], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
        assert (task.posterior(np.array([1, 0])) == [1, 0]).all()
        assert np.isfinite(task.bayes_risk(3).value) and task.topic_error(0).value == 0.5
        with pytest.raises(AttnscopeError, match="probability 0"):
            task.posterior(np.array([0, 2]))

    def test_refusals(self):
        with pytest.raises(
            AttnscopeError, match="row 1 of emissions of Topics must be probabilities"
        ):
            Topics([0.5, 0.5], [[0.5, 0.5], [0.5, 0.6]])
        with pytest.raises(AttnscopeError, match="entries 0 to 2"):
            self.task.posterior(np.array([0, 3]))
        with pytest.raises(AttnscopeError, match="noise of Topics"):
            Topics(PRIOR, EMISSIONS, noise=0.1)
        with pytest.raises(AttnscopeError, match="labels of Topics"):
            Topics(PRIOR, EMISSIONS, labels=[1.0, 2.0])


class TestPositions:
    def test_order_is_lost_without_positions_and_kept_with(self):
        task = OrderTask()
        b = task.sample(2000, 9, seed=1)
        shuffled = np.random.default_rng(0).permutation(9)
        assert (
            task.bayes_predict(b.content[:, shuffled], b.positions[:, shuffled]) == b.latent
        ).all()
        assert (task.posterior(b.content) == 0.5).all()

    def test_both_labels_have_the_same_contents(self):
        """Places of the pair are uniform for either label: chi-square over 10 unordered pairs, 9
        degrees of freedom, 1e-6 quantile 45.
        """
        b = OrderTask().sample(20_000, 5, seed=3)
        for order in (-1, 1):
            where = np.argsort(
                -b.content[b.latent == order][..., :2].sum(-1), axis=1, kind="stable"
            )[:, :2]
            counts = np.unique(where, axis=0, return_counts=True)[1]
            assert len(counts) == 10 and stats.chisquare(counts).statistic < 45

    def test_encodings_tell_positions_apart(self):
        p = np.arange(50)
        for encoding in ("one-hot", "sinusoidal"):
            code = encode_positions(p, 50, encoding)
            assert code.shape == (50, 50) and np.linalg.matrix_rank(code, tol=1e-8) > 8
            gaps = np.linalg.norm(code[:, None] - code, axis=-1) + 10 * np.eye(50)
            assert gaps.min() > 0.1
        pairs = attach_positions(np.zeros((2, 5, 3)))
        assert pairs.shape == (2, 5, 8) and (pairs[0, :, 3:] == np.eye(5)).all()

    def test_refusals(self):
        with pytest.raises(
            AttnscopeError, match="width of encode_positions must be greater than"
        ):
            encode_positions(np.arange(4), 3)
        with pytest.raises(AttnscopeError, match="one for each of the 5 tokens"):
            attach_positions(np.zeros((5, 2)), np.arange(4))
