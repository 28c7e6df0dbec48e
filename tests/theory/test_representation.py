"""Representation numbers against their definitions: risks by loops over cells, information by joint
tables, merges by enumeration.

Deterministic: seeds only choose the topics.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.tolerances import (
    EXACT,
    FEW_ROUNDINGS,
    FIVE_DIGITS,
    FORMULA,
    INTEGRAL,
    LAST_DIGIT,
    LONG_SUM,
    SIX_DIGITS,
)

from attnscope.errors import AttnscopeError
from attnscope.tasks.exchangeable.topics import Topics
from attnscope.theory.exchangeable.chernoff import (
    asymptotic_topic_error,
    chernoff,
    two_topic_error,
)
from attnscope.theory.exchangeable.representation import (
    all_sequences,
    cells,
    merge_costs,
    posterior_atoms,
    representation,
)


def topics(seed: int, K: int = 3, V: int = 4) -> Topics:
    rng = np.random.default_rng(seed)
    return Topics(rng.dirichlet(np.full(K, 3.0)), rng.dirichlet(np.ones(V), size=K))


def by_hand(task: Topics, length: int, label, means) -> tuple[float, float, float]:
    """(risk of the best predictor from the label, H, I) with plain dictionaries."""
    joint: dict[object, np.ndarray] = {}
    for x in itertools.product(range(task.vocabulary), repeat=length):
        p = task.prior * np.prod(task.emissions[:, list(x)], axis=1)
        joint[label(x)] = joint.get(label(x), 0) + p
    risk = sum(t @ (means - t @ means / t.sum()) ** 2 for t in joint.values())
    entropy = -sum(t.sum() * np.log(t.sum()) for t in joint.values())
    information = sum(np.sum(t * np.log(t / t.sum() / task.prior)) for t in joint.values())
    return float(risk), float(entropy), float(information)


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("tokens", lambda x: x),
        ("counts", lambda x: tuple(sorted(x))),
        ("prefix", lambda x: x[:-1]),
        (lambda tokens: tokens[:, 0] == 2, lambda x: x[0] == 2),
        (lambda tokens: tokens[:, :2], lambda x: x[:2]),
    ],
)
def test_numbers_are_those_of_the_definitions(name, label):
    task = topics(0)
    means = np.array([0.0, 1.0, 4.0])
    risk, entropy, information = by_hand(task, 4, label, means)
    best, _, _ = by_hand(task, 4, lambda x: x, means)
    out = representation(task, 4, name, labels=means)
    assert out.regret == pytest.approx(risk - best, abs=FORMULA)
    assert out.entropy == pytest.approx(entropy, rel=FORMULA)
    assert out.information == pytest.approx(information, rel=EXACT)


@pytest.mark.parametrize("seed", range(5))
def test_posterior_is_sufficient_and_coarser_maps_are_not(seed):
    task = topics(seed)
    assert representation(task, 5, "posterior").regret < 1e-20
    assert representation(task, 5, "counts").regret < 1e-20
    for name in ("map", "rounded", "prefix"):
        assert representation(task, 5, name).regret > 1e-6


def test_information_and_regret_by_the_empty_sequence():
    out = representation(topics(0), 0, "tokens")
    assert (out.cells, out.entropy, out.regret) == (1, 0.0, pytest.approx(0.0, abs=1e-30))
    assert out.information == pytest.approx(0, abs=LAST_DIGIT)


def test_sequences_sum_to_one_and_skip_the_impossible():
    everything = all_sequences(topics(1), 6)
    assert len(everything.tokens) == 4**6 and everything.probability.sum() == pytest.approx(
        1, rel=FORMULA
    )
    forbidding = Topics([0.5, 0.5], [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
    some = all_sequences(forbidding, 2)
    assert len(some.tokens) == 7 and some.probability.sum() == pytest.approx(1, rel=FORMULA)
    assert posterior_atoms(forbidding, 2).mass.sum() == pytest.approx(1, rel=FORMULA)


def test_cells_survive_rounding_and_keep_distinct_points_apart():
    x = np.random.default_rng(0).dirichlet(np.ones(3), size=50)
    noisy = np.concatenate([x, x + 1e-14, x - 1e-14])
    labels = cells(noisy)
    assert (
        len(np.unique(labels)) == 50
        and (labels[:50] == labels[50:100]).all()
        and (labels[:50] == labels[100:]).all()
    )


def test_atoms_by_counts_are_the_cells_of_all_sequences():
    task = topics(2)
    atoms = posterior_atoms(task, 5)
    everything = all_sequences(task, 5)
    groups = cells(everything.posterior)
    assert len(atoms.mass) == groups.max() + 1
    np.testing.assert_allclose(
        np.sort(atoms.mass), np.sort(np.bincount(groups, everything.probability)), rtol=EXACT
    )


def test_merge_costs_are_regrets_of_merged_representations():
    task = topics(3, V=3)
    atoms = posterior_atoms(task, 3)
    costs = merge_costs(atoms)
    everything = all_sequences(task, 3)
    which = np.argmin(np.abs(everything.posterior[:, None] - atoms.posterior).sum(-1), axis=1)
    for i, j in itertools.combinations(range(len(atoms.mass)), 2):
        merged = representation(task, 3, lambda _, i=i, j=j: np.where(which == j, i, which))
        assert (
            costs[i, j] == pytest.approx(merged.regret, rel=INTEGRAL, abs=1e-16)
            and costs[i, j] > 0
        )


class TestChernoff:
    def test_rate_is_the_minimum_over_tilts(self):
        task = topics(4, K=2)
        a, b = task.emissions
        s = np.linspace(0, 1, 200_001)[:, None]
        values = np.log(np.sum(a**s * b ** (1 - s), axis=1))
        out = chernoff(task)
        assert out.rate == pytest.approx(
            -values.min(), rel=INTEGRAL
        ) and out.tilt == pytest.approx(s[np.argmin(values), 0], abs=FIVE_DIGITS)

    def test_the_hardest_pair_decides(self):
        task = Topics(np.ones(3) / 3, [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.7, 0.2]])
        assert chernoff(task).pair == (1, 2)

    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_asymptote_is_approached_like_one_over_length(self, seed):
        task = topics(seed, K=2, V=3)
        ratios = [
            task.topic_error(L).excess / asymptotic_topic_error(task, L).excess
            for L in (200, 400)
        ]
        gaps = [abs(r - 1) for r in ratios]
        assert gaps[1] < 0.6 * gaps[0] + 1e-9 and gaps[1] < 0.1

    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.parametrize("V", [2, 3, 4])
    def test_fourier_integral_is_the_sum_over_counts(self, seed, V):
        task = topics(seed, K=2, V=V)
        for L in (1, 2, 10, 60):
            one = two_topic_error(task, L)
            two = task.topic_error(L)
            assert one.log_excess == pytest.approx(
                two.log_excess, abs=EXACT + one.error / one.excess + two.error / two.excess
            )

    def test_asymptote_far_out(self):
        task = topics(1, K=2)
        gaps = [
            abs(
                two_topic_error(task, L).log_excess
                - asymptotic_topic_error(task, L).log_excess
            )
            for L in (10**4, 10**5, 10**6)
        ]
        assert gaps[0] < 1e-2 and gaps[1] < 0.11 * gaps[0] and gaps[2] < 0.11 * gaps[1] + 1e-9

    def test_refusals(self):
        with pytest.raises(AttnscopeError, match="two topics, got 3"):
            two_topic_error(topics(0), 3)
        with pytest.raises(AttnscopeError, match="topics 0 and 1 differ"):
            chernoff(Topics([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]]))
        with pytest.raises(AttnscopeError, match="two topics"):
            chernoff(Topics([1.0], [[0.5, 0.5]]))


def test_refusals():
    with pytest.raises(AttnscopeError, match=r"length of all_sequences .* got 4\^12"):
        all_sequences(topics(0), 12)
    with pytest.raises(AttnscopeError, match="statistic of representation must be one of"):
        representation(topics(0), 2, "median")
    with pytest.raises(AttnscopeError, match="labels of representation"):
        representation(topics(0), 2, "counts", labels=[1.0, 2.0])


class TestUnderflow:
    """Sequences of probability below 1e-308 have posteriors: the softmax of their logits."""

    rare = Topics([0.5, 0.5], [[0.6, 0.399, 0.001], [0.4, 0.59899, 0.00101]])

    def test_posterior_atoms_are_posteriors(self):
        atoms = posterior_atoms(self.rare, 200)
        assert np.isfinite(atoms.posterior).all() and (atoms.mass == 0).any()
        assert atoms.posterior.sum(axis=1) == pytest.approx(
            np.ones(len(atoms.mass)), rel=EXACT
        )
        assert atoms.mass.sum() == pytest.approx(1, rel=LONG_SUM)
        # rarest of all: 200 times the last symbol, log odds 200 log(.001/.00101)
        odds = np.exp(200 * np.log(0.001 / 0.00101))
        assert np.abs(atoms.posterior[:, 0] - odds / (1 + odds)).min() < 1e-11

    def test_merge_costs_are_numbers(self):
        atoms = posterior_atoms(self.rare, 60)
        few = type(atoms)(
            np.concatenate([atoms.mass[::9], [0.0, 0.0]]),
            np.concatenate([atoms.posterior[::9], np.eye(2)]),
        )
        costs = merge_costs(few)
        assert np.isfinite(costs).all() and (costs >= 0).all() and costs[-1, -2] == 0

    def test_merge_costs_of_tiny_masses(self):
        """p_i p_j underflows long before p_i p_j/(p_i + p_j)."""
        atoms = type(posterior_atoms(self.rare, 1))(np.array([1e-200, 3e-200]), np.eye(2))
        assert merge_costs(atoms)[0, 1] == pytest.approx(2 * 0.75e-200, rel=FEW_ROUNDINGS)

    def test_representation_of_sequences_that_underflow(self):
        task = Topics([0.5, 0.5], [[1 - 1e-60, 1e-60], [1 - 3e-60, 3e-60]])
        for statistic in ("tokens", "counts", "posterior", "map", "rounded", "prefix"):
            out = representation(task, 8, statistic)
            assert np.isfinite([out.entropy, out.information, out.regret]).all()
            assert out.information >= 0 and out.regret >= 0

    def test_little_information_has_digits(self):
        """I(z; T) = 2 e^2 + O(e^4) for one token of (1/2 +- e)."""
        for e in (1e-4, 1e-6, 1e-7):
            task = Topics([0.5, 0.5], [[0.5 + e, 0.5 - e], [0.5 - e, 0.5 + e]])
            assert representation(task, 1, "tokens").information == pytest.approx(
                2 * e**2, rel=SIX_DIGITS + 1e-15 / e
            )
