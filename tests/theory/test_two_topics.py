"""two_topic_error, asymptotic_topic_error and Topics.topic_error against sums in 60 digits.

The reference adds 2 p_i p_j/(p_i + p_j) over all count vectors with mpmath; nothing of the library
is used in it. Settings are drawn over priors down to 0 and 1e-300 and laws with zeros and 1e-300.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import mpmath as mp
import numpy as np
import pytest
from helpers.tolerances import ROOT_EPS
from scipy.optimize import minimize_scalar

from attnscope import (
    Topics,
    asymptotic_topic_error,
    chernoff,
    posterior_atoms,
    representation,
    two_topic_error,
)
from attnscope.errors import AttnscopeError
from attnscope.theory.exchangeable.two_topics import wrong_mass


def counts(symbols: int, length: int) -> Iterator[tuple[int, ...]]:
    if symbols == 1:
        yield (length,)
        return
    for first in range(length + 1):
        for rest in counts(symbols - 1, length - first):
            yield (first, *rest)


def summed(task: Topics, length: int) -> mp.mpf:
    """sum_c multinomial (1 - sum_z p_z^2/p^2) p, of any number of topics."""
    with mp.workdps(60):
        prior = [mp.mpf(float(x)) for x in task.prior]
        laws = [[mp.mpf(float(x)) for x in row] for row in task.emissions]
        total = mp.mpf(0)
        for c in counts(task.vocabulary, length):
            ways = math.factorial(length)
            for k in c:
                ways //= math.factorial(k)
            p = [pi * mp.fprod(b**k for b, k in zip(law, c)) for pi, law in zip(prior, laws)]
            whole = mp.fsum(p)
            if whole > 0:
                pairs = [x * y for i, x in enumerate(p) for j, y in enumerate(p) if i != j]
                total += ways * mp.fsum(pairs) / whole
        return total


def within(estimate, truth) -> bool:
    with mp.workdps(60):
        return abs(mp.mpf(estimate.value) - truth) <= mp.mpf(estimate.error)


def law(rng: np.random.Generator, symbols: int) -> np.ndarray:
    p = rng.dirichlet(np.ones(symbols))
    kind = rng.integers(4)
    if kind == 1:
        p = p * 10 ** rng.uniform(-20, 0, symbols)
    if kind == 2:
        p[rng.integers(symbols)] = 0
    if kind == 3:
        p = p * 10 ** rng.uniform(-300, 0, symbols)
    return p / p.sum()


def drawn(seed: int) -> tuple[Topics, int]:
    rng = np.random.default_rng([3, seed])
    symbols = int(rng.choice([2, 2, 3, 4]))
    length = int(rng.choice([1, 2, 3, 10, 40] if symbols == 2 else [1, 2, 5, 8]))
    laws = [law(rng, symbols), law(rng, symbols)]
    if seed % 5 == 0:
        laws[1] = laws[0] * (1 + 10 ** rng.uniform(-12, -1) * rng.standard_normal(symbols))
        laws[1] = np.abs(laws[1]) / np.abs(laws[1]).sum()
    if seed % 7 == 0:
        laws[1] = laws[0]
    rare = [0.0, 10 ** rng.uniform(-300, 0), 10 ** rng.uniform(-20, 0), rng.random(), 0.5][
        seed % 5
    ]
    prior = [1 - rare / 2, rare / 2]
    return Topics(prior if seed % 2 else prior[::-1], laws), length


@pytest.mark.parametrize("seed", range(60))
def test_two_topics_against_sixty_digits(seed):
    task, length = drawn(seed)
    truth = summed(task, length)
    one = two_topic_error(task, length)
    two = task.topic_error(length)
    assert within(one, truth) and within(two, truth)
    assert one.error <= 1e-8 * one.value + 1e-323 and two.error <= 1e-10 * two.value + 1e-323


@pytest.mark.parametrize("rare", [1e-12, 1e-20, 1e-300])
def test_a_rare_topic(rare):
    """Where it was found: all of the integral was rounding, 3.4e-18 for 2.0e-20."""
    task = Topics([1 - rare, rare], [[0.7, 0.3], [0.4, 0.6]])
    out = two_topic_error(task, 10)
    assert within(out, summed(task, 10)) and out.error <= 1e-12 * out.value


def test_what_no_sequence_leaves_open():
    assert two_topic_error(Topics([0.3, 0.7], [[1.0, 0.0], [0.0, 1.0]]), 3).value == 0
    assert two_topic_error(Topics([1.0, 0.0], [[0.7, 0.3], [0.4, 0.6]]), 3).value == 0


@pytest.mark.parametrize("length", [10**6, 10**9, 10**12])
def test_long_sequences(length):
    """Topics at distance e with L e^2 = 4: close to the limit of two normal laws, any L.

    log-likelihood ratios are then N(+-v/2, v), v = 4 L e^2, and the mass 2 E[1/(1 + e^Lambda)]/2.
    """
    e = (1 / length) ** 0.5
    out = two_topic_error(
        Topics([0.5, 0.5], [[0.5 + e, 0.5 - e], [0.5 - e, 0.5 + e]]), length
    )
    v = mp.mpf(16)  # L (log(p/q))^2 with log((1 + 2e)/(1 - 2e)) = 4e
    density = lambda u: (
        mp.exp(-((u - v / 2) ** 2) / (2 * v)) / mp.sqrt(2 * mp.pi * v) / (1 + mp.exp(u))
    )
    limit = mp.quad(density, [-60, -20, 0, 10, 20, 60])
    assert abs(out.value - limit) <= out.error + 100 / length * limit  # the next order in 1/L
    assert out.error <= (1e-12 + 4e-15 * length) * out.value


def test_lattice_returns_are_not_lost():
    """Two symbols far apart: the characteristic function returns to 1, and every return counts."""
    task = Topics([0.5, 0.5], [[0.999, 0.001], [0.001, 0.999]])
    for length in (101, 102):
        prior = (0.5, 0.5)
        found = wrong_mass(prior, task.emissions[0], task.emissions[1], length, "test")
        truth = summed(task, length)
        assert abs(found.log - mp.log(truth)) <= found.error < 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_asymptotic_error_is_a_bound(seed):
    rng = np.random.default_rng([5, seed])
    topics = 2 + seed % 3
    task = Topics(rng.dirichlet(np.ones(topics)), rng.dirichlet(np.ones(3), topics))
    for length in (1, 4, 15):
        assert within(asymptotic_topic_error(task, length), summed(task, length))


def test_topics_that_do_not_occur_do_not_count():
    laws = [[0.7, 0.3], [0.2, 0.8], [0.69, 0.31]]
    assert chernoff(Topics([0.5, 0.5, 0.0], laws)).pair == (0, 1)
    with pytest.raises(AttnscopeError, match="two topics that occur"):
        chernoff(Topics([1.0, 0.0], laws[:2]))


def test_rate_of_topics_that_nearly_agree():
    """C = e^2/2 + O(e^4) for (1/2 +- e): digits of M - 1, not of M."""
    for e in (1e-3, 1e-5, 1e-7):
        rate = chernoff(Topics([0.5, 0.5], [[0.5 + e, 0.5 - e], [0.5 - e, 0.5 + e]])).rate
        with mp.workdps(50):
            p = mp.mpf(float(0.5 + e)), mp.mpf(float(0.5 - e))
            truth = -mp.log(2 * mp.sqrt(p[0] * p[1]))
        assert rate == pytest.approx(float(truth), rel=ROOT_EPS + 1e-15 / e)


def test_a_length_that_float64_cannot_follow_is_refused():
    with pytest.raises(
        AttnscopeError, match="length of two_topic_error must be short enough"
    ):
        two_topic_error(Topics([0.5, 0.5], [[1 - 1e-20, 1e-20], [1e-20, 1 - 1e-20]]), 10**15)


def test_numbers_too_large_to_write_are_refused_at_once():
    task = Topics([0.5, 0.5], np.full((2, 1000), 1e-3))
    for call in (task.topic_error, task.bayes_risk, lambda L: posterior_atoms(task, L)):
        with pytest.raises(AttnscopeError, match=r"got 10\^\d+ of them"):
            call(10**12)
    with pytest.raises(AttnscopeError, match=r"got 1000\^1000000000000"):
        representation(task, 10**12)


def test_a_least_point_next_to_a_pole_whose_residue_is_not_the_answer():
    """The line is lowest at s = .906, near the pole at 1, but its residue is e^(10^9) times the
    answer (refused before; stress tests, seed 741). Second route: (1/L) log error tends to the least
    log M(s), up to (log L)/L.
    """
    laws = np.array([[0.2711, 0.3893, 0.3396], [0.0519, 0.0, 0.9481]])
    both = laws[:, [0, 2]]
    log_m = lambda s: np.log(np.sum(both[0] ** s * both[1] ** (1 - s)))
    least = minimize_scalar(log_m, bounds=(0, 1), method="bounded", options={"xatol": 1e-12})
    assert least.x > 0.9
    length = 10**11
    found = two_topic_error(Topics([0.48, 0.52], laws), length)
    assert found.log_excess / length == pytest.approx(least.fun, abs=1e-9)
