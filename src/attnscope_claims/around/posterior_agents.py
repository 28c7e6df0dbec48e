"""Agents that act on the exact posterior: regret by forward sums, values by backward ones.

notation: T steps; D half the gap of two arms with rewards 1/2 + D and 1/2 - D; S = net evidence for
the first environment; r = (1 + 2D)/(1 - 2D); m steps of corridor; U how far a plan looks.

1. Two environments that swap the arms. Every reward, whichever arm gave it, moves the log odds by
   +-log r, up with probability 1/2 + D in the true environment: S is a binomial walk that no action
   changes, and regret(T) = sum_{t<T} 2D P(wrong arm after t). Greedy (Bayes optimal here) errs where
   S < 0, and half of the time at 0; posterior sampling with probability 1/(1 + r^S). At the worst
   gap D = x/(2 sqrt T) the regret is c sqrt T: c = max_x x int_0^1 Phi(-x sqrt u) du, or with
   E 1/(1 + e^{2x^2 u + 2x sqrt(u) Z}) in place of Phi.
2. Two Bernoulli arms with uniform priors. The state is (pulls of arm 1, successes of either arm);
   its law under a policy goes forward with the predictive probabilities, the optimal value backward.
   P(Beta(a, b) > Beta(c, d)) of posterior sampling grows by one count at a time:
   h(a+1, b, c, d) = h + g/a, h(a, b+1, c, d) = h - g/b, g = B(a+c, b+d)/(B(a, b) B(c, d)).
3. A corridor of m steps between the arms of 1, without reward or evidence. The agent plans U steps
   at the posterior mean and replans after each: it crosses iff (U - m) p_other > U p_here. Even a
   certain posterior crosses only if U > m (1 + 2D)/(4D).

Everything is exact up to rounding; derived for this project. The agent is the ideal one of the
theorem, not a language model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betaln, gammaln, ndtr

from attnscope.numerics.integrals.quadrature import legendre, normal_panels

__all__ = [
    "bernoulli_regret",
    "corridor_optimum",
    "corridor_oracle",
    "corridor_value",
    "greedy_choices",
    "greedy_stays",
    "lookahead_rule",
    "optimal_policy",
    "sampling_probabilities",
    "swapped_regret",
    "worst_gap",
]

Block = np.ndarray
Level = list[Block]  # by pulls of arm 1: (successes of arm 1, successes of arm 2)


# -- two environments ------------------------------------------------------------------------------


def swapped_regret(steps: int, gap: float, sampling: bool) -> float:
    """Regret after `steps`, rewards 1/2 +- gap."""
    total = 0.0
    odds = np.log((1 + 2 * gap) / (1 - 2 * gap))
    for t in range(steps):
        k = np.arange(t + 1)
        ways = gammaln(t + 1) - gammaln(k + 1) - gammaln(t - k + 1)
        p = np.exp(ways + k * np.log(0.5 + gap) + (t - k) * np.log(0.5 - gap))
        evidence = 2.0 * k - t
        wrong = 1 / (1 + np.exp(odds * evidence)) if sampling else _greedy_choice(evidence)
        total += float(p @ wrong)
    return 2 * gap * total


def _greedy_choice(evidence: np.ndarray) -> np.ndarray:
    return np.where(evidence < 0, 1.0, np.where(evidence == 0, 0.5, 0.0))


def worst_gap(sampling: bool, steps: int | None = None) -> tuple[float, float]:
    """(regret/sqrt(T) at the worst gap x/(2 sqrt T), x); steps None is the limit."""

    def height(x: float) -> float:
        if steps is not None:
            return swapped_regret(steps, x / (2 * steps**0.5), sampling) / steps**0.5
        return x * _mean_wrong(x, sampling)

    options = {"xatol": 1e-9}
    found = minimize_scalar(
        lambda x: -height(float(x)), bounds=(0.5, 2.5), method="bounded", options=options
    )
    return -float(found.fun), float(found.x)


def _mean_wrong(x: float, sampling: bool) -> float:
    """int_0^1 P(wrong at time u) du, with u = v^2: smooth at 0."""
    v, weight = legendre(40)
    if not sampling:
        return float(weight @ (2 * v * ndtr(-x * v)))
    z, w = normal_panels(())[0]
    wrong = 1 / (
        1 + np.exp(np.minimum(2 * x**2 * v[:, None] ** 2 + 2 * x * v[:, None] * z, 700))
    )
    return float(weight @ (2 * v * (wrong @ w)))


# -- two Bernoulli arms ----------------------------------------------------------------------------


def _means(t: int, pulls: int) -> tuple[Block, Block]:
    """Posterior means of both arms in the block of so many pulls of arm 1."""
    first = (np.arange(pulls + 1) + 1) / (pulls + 2)
    second = (np.arange(t - pulls + 1) + 1) / (t - pulls + 2)
    return first[:, None], second[None, :]


def greedy_choices(t: int) -> Level:
    """Probability of arm 1 in every state after t steps: the larger mean, half at equal ones."""
    blocks = []
    for n in range(t + 1):
        first, second = _means(t, n)
        equal = np.isclose(first, second, rtol=1e-12, atol=0)
        blocks.append(np.where(equal, 0.5, first > second))
    return blocks


def sampling_probabilities(steps: int) -> list[Level]:
    """P(arm 1 is the better | state) for t = 0 .. steps - 1."""
    levels: list[Level] = [[np.array([[0.5]])]]
    for t in range(1, steps):
        old = levels[-1]
        new: Level = [_more_of_second(old[0], t - 1)]
        for n in range(1, t + 1):
            block = old[n - 1]
            g = _overlap(n - 1, t - n)
            a = np.arange(1.0, n + 1)[:, None]
            b = n + 1 - a
            grown = np.empty((n + 1, t - n + 1))
            grown[:-1] = block - g / b
            grown[-1] = block[-1] + g[-1] / a[-1]
            new.append(grown)
        levels.append(new)
    return levels


def _more_of_second(block: Block, pulls: int) -> Block:
    """Arm 1 unpulled, arm 2 pulled once more."""
    g = _overlap(0, pulls)
    c = np.arange(1.0, pulls + 2)[None, :]
    d = pulls + 2 - c
    grown = np.empty((1, pulls + 2))
    grown[:, :-1] = block + g / d
    grown[:, -1] = block[:, -1] - g[:, -1] / c[:, -1]
    return grown


def _overlap(first: int, second: int) -> Block:
    """B(a + c, b + d)/(B(a, b) B(c, d)) over the successes of so many pulls of either arm."""
    a = np.arange(1.0, first + 2)[:, None]
    c = np.arange(1.0, second + 2)[None, :]
    b = first + 2 - a
    d = second + 2 - c
    return np.exp(betaln(a + c, b + d) - betaln(a, b) - betaln(c, d))


def bernoulli_regret(steps: int, acts: Callable[[int], Level]) -> np.ndarray:
    """Bayesian regret after 1 .. steps of a policy: `acts(t)` is the probability of arm 1 in every
    state. E max of two uniform numbers is 2/3.
    """
    level: Level = [np.ones((1, 1))]
    earned = np.empty(steps)
    for t in range(steps):
        new = [np.zeros((n + 1, t + 2 - n)) for n in range(t + 2)]
        reward = 0.0
        for n, (p, act) in enumerate(zip(level, acts(t))):
            first, second = _means(t, n)
            one = p * act
            two = p - one
            reward += float(np.sum(one * first) + np.sum(two * second))
            new[n + 1][1:] += one * first
            new[n + 1][:-1] += one * (1 - first)
            new[n][:, 1:] += two * second
            new[n][:, :-1] += two * (1 - second)
        level = new
        earned[t] = reward
    return np.arange(1, steps + 1) * 2 / 3 - np.cumsum(earned)


def optimal_policy(steps: int) -> tuple[float, list[Level]]:
    """(regret of the best policy for so many steps, its choices at every t)."""
    value = [np.zeros((n + 1, steps + 1 - n)) for n in range(steps + 1)]
    choices: list[Level] = []
    for t in range(steps - 1, -1, -1):
        level: Level = []
        chosen: Level = []
        for n in range(t + 1):
            first, second = _means(t, n)
            after = value[n + 1]
            other = value[n]
            one = first * (1 + after[1:]) + (1 - first) * after[:-1]
            two = second * (1 + other[:, 1:]) + (1 - second) * other[:, :-1]
            level.append(np.maximum(one, two))
            chosen.append(one >= two)
        value = level
        choices.append(chosen)
    return steps * 2 / 3 - float(value[0][0, 0]), choices[::-1]


def greedy_stays(steps: int) -> float:
    """P(a greedy agent pulls only its first arm in so many steps), uniform priors: it stays while
    at least half of the rewards are 1, and on a tie with probability 1/2.
    """
    law = np.ones(1)  # over the number of rewards
    for n in range(steps):
        won = np.arange(n + 1)
        stays = np.where(2 * won > n, 1.0, np.where(2 * won == n, 0.5, 0.0)) if n else 1.0
        kept = law * stays
        up = (won + 1) / (n + 2)
        law = np.append(kept * (1 - up), 0.0) + np.append(0.0, kept * up)
    return float(law.sum())


# -- corridor --------------------------------------------------------------------------------------


@cache
def _belief(steps: int, gap: float) -> np.ndarray:
    """P(the first arm pays, = P(S goes up)), for S = -steps - 1 .. steps + 1."""
    S = np.arange(-steps - 1, steps + 2)
    odds = np.log((1 + 2 * gap) / (1 - 2 * gap))
    good = 1 / (1 + np.exp(-odds * S))
    return good * (0.5 + gap) + (1 - good) * (0.5 - gap)


def corridor_oracle(steps: int, corridor: int, gap: float) -> float:
    """What an agent that knows the environment earns; it starts at the better arm half the time."""
    return (0.5 + gap) * (steps - corridor / 2)


def corridor_optimum(steps: int, corridor: int, gap: float) -> tuple[float, np.ndarray]:
    """(the Bayes-optimal value, backward; its rule: whether to cross at (t, arm, S))."""
    up = _belief(steps, gap)
    value = np.zeros((steps + 1, 2, len(up)))
    rule = np.zeros((steps, 2, len(up)), dtype=bool)
    for t in range(steps - 1, -1, -1):
        for arm, here in enumerate((up, 1 - up)):
            after = np.pad(value[t + 1, arm], 1)
            value[t, arm] = here + up * after[2:] + (1 - up) * after[:-2]
            if t + corridor <= steps:
                crossed = value[t + corridor, 1 - arm]
                rule[t, arm] = crossed > value[t, arm]
                value[t, arm] = np.maximum(value[t, arm], crossed)
    return float(value[0, 0, steps + 1]), rule


def lookahead_rule(steps: int, corridor: int, gap: float, ahead: int) -> np.ndarray:
    """Whether the agent that plans `ahead` steps (never beyond the end) crosses at (t, arm, S)."""
    up = _belief(steps, gap)
    plan = np.minimum(ahead, steps - np.arange(steps))[:, None, None]
    here = np.stack([up, 1 - up])
    return (plan - corridor) * (1 - here) > plan * here


def corridor_value(steps: int, corridor: int, gap: float, rule: np.ndarray) -> float:
    """What an agent with this rule earns, forward."""
    up = _belief(steps, gap)
    law = np.zeros((steps + corridor + 1, 2, len(up)))
    law[0, 0, steps + 1] = 1.0
    earned = 0.0
    for t in range(steps):
        for arm, here in enumerate((up, 1 - up)):
            p = law[t, arm]
            law[t + corridor, 1 - arm] += np.where(rule[t, arm], p, 0.0)
            stays = np.where(rule[t, arm], 0.0, p)
            earned += float(stays @ here)
            law[t + 1, arm, 1:] += (stays * up)[:-1]
            law[t + 1, arm, :-1] += (stays * (1 - up))[1:]
    return earned
