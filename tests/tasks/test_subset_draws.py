"""MultiLocation where a number of informative tokens is rare: against independent inclusion,
two-token sums and 40 digits.

notation: z = (value - truth)/error. A test of N settings at |z| <= 5 raises a false alarm with
probability about 6e-7 N if errors are standard errors; N <= 60 in each test here, seeds are fixed.
"""

import math

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from stress.references.planted_risks import two_tokens

import attnscope as at
from attnscope.tasks.planted import subset_draws

Z = 5.0


@pytest.mark.parametrize(
    ("dim", "length", "q", "gamma", "signal"),
    [
        (24, 1, 8.46e-6, 15.25, 0.114),
        (63, 2, 0.0338, 0.11, 0.0),
        (15, 2, 6.1e-6, 0.0053, 0.0174),
        (40, 2, 3.5e-6, 5.5, 16.2),
        (2209, 5, 0.0049, 0.886, 0.817),
        (2, 3, 1e-6, 1.0, 9.0),
        (2, 4, 1e-9, 1.0, 3.0),
        (2, 4, 1 - 1e-7, 1.0, 6.0),
    ],
)
def test_a_rare_token_given_by_probabilities_is_independent_inclusion(
    dim, length, q, gamma, signal
):
    """0.1.0 and the draws by sizes alone: too small by any factor,
    or with an error 100 times too small.
    """
    counts = stats.binom.pmf(np.arange(length + 1), length, q)
    counts = counts / counts.sum()
    exact = at.MultiLocation(dim, length, q, "sum", gamma=gamma, signal=signal).bayes_risk()
    task = at.MultiLocation(dim, length, counts, "sum", gamma=gamma, signal=signal)
    for seed in range(5):
        out = task.bayes_risk(samples=4000, seed=seed)
        assert abs(out.excess - exact.excess) <= Z * out.error, (out, exact)
        assert out.error <= 0.3 * exact.excess  # an answer, not only a bound


def test_rare_risks_keep_two_per_cent():
    """Default samples, a risk of 2e-7 that rests on one token in 1e-5 sequences."""
    counts = [1 - 1e-5, 1e-5, 0.0]
    task = at.MultiLocation(2, 2, counts, "sum", gamma=1.0, signal=6.0)
    truth, _ = two_tokens(6.0, task.count_probs, *task.weight_moments())
    out = task.bayes_risk()
    assert abs(out.excess - truth) <= Z * out.error
    assert out.error <= 0.02 * truth


@pytest.mark.parametrize("weights", ["equal", "sum", "dirichlet"])
def test_two_tokens_with_any_numbers_equal_the_sum_over_a_lattice(weights):
    """Sizes as rare as 1e-12, in any order of rarity, weights that vary with the number."""
    rng = np.random.default_rng(5)
    for i in range(20):
        counts = 10.0 ** -rng.choice([0.0, 0.3, 3.0, 6.0, 12.0], 3)
        counts = counts / counts.sum()
        signal = float(rng.uniform(0.0, 8.0))
        task = at.MultiLocation(3, 2, counts, weights, 0.7, gamma=1.0, signal=signal)
        truth, error = two_tokens(signal, task.count_probs, *task.weight_moments())
        out = task.bayes_risk(samples=2000, seed=i)
        assert abs(out.excess - truth) <= Z * out.error + error, (counts, signal)


@pytest.mark.parametrize("sizes", [(1, 3), (0, 2, 5), (2,), (0, 1, 2, 3, 4, 5, 6)])
@pytest.mark.parametrize("gamma", [0.8, 1.5])
def test_weights_have_mean_one(sizes, gamma):
    """Weighted by true over sampling density, E sum_{l in S} w_l^2 = m gam^2 in every stratum,
    whatever moves there are.
    """
    probs = np.isin(np.arange(7), sizes) * np.logspace(0, -6, 7)
    probs = probs / probs.sum()
    weight = 1 / np.maximum(np.arange(7.0), 1)
    task = subset_draws.SubsetTask(5, 6, gamma, 2.0, probs, weight)
    rng = np.random.default_rng(0)
    moves = subset_draws._moves_by_size(task)
    for m in task.sizes:
        drawn = np.full(20_000, m)
        inside = np.arange(6) < drawn[:, None]
        y = subset_draws._token_exponents(moves, drawn, inside, rng)
        assert ((y != inside).sum(1) > 0).any()
        log_ratios, w2 = subset_draws._draw_tokens(task, y, rng)
        values = (w2 * inside).sum(1) / np.exp(
            subset_draws._log_mixture(task, moves, drawn, log_ratios, inside)
        )
        assert abs(values.mean() - m * gamma**2) <= Z * values.std() / math.sqrt(len(values))


def test_no_informative_token_is_no_risk():
    out = at.MultiLocation(3, 2, [1.0, 0.0, 0.0], "sum", gamma=0.5, signal=2.0).bayes_risk()
    assert (out.excess, out.error) == (0.0, 0.0)


def test_the_linear_risk_where_almost_all_tokens_are_informative():
    """1 - E m/L was a difference of numbers close to 1: an error 80 times too small."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        length = int(rng.integers(1, 6))
        rare = 10.0 ** rng.uniform(-16, -1)
        gamma = 10.0 ** rng.uniform(-4, 1)
        counts = np.zeros(length + 1)
        counts[length] = 1 - rare
        counts[int(rng.integers(length))] = rare
        task = at.MultiLocation(2, length, counts, "sum", gamma=gamma, signal=1.0)
        out = task.linear_risk()
        with mp.workdps(40):
            p = [mp.mpf(float(x)) for x in counts]
            total = mp.fsum(p)
            inside = mp.fsum(x * m for m, x in enumerate(p)) / total
            g2 = mp.mpf(gamma) ** 2
            spread = length - inside + inside * g2
            truth = float(g2 * inside - (g2 * inside) ** 2 / spread)
        assert abs(out.excess - truth) <= out.error
