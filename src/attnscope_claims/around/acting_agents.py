"""Agents that draw environments and rewards and act: the measured side of around-13.

Every function simulates `runs` independent agents at once and returns means with standard errors.
Agents hold the exact posterior; the worlds are those of posterior_agents.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from attnscope.claims.compare import mean_and_error
from attnscope_claims.around.posterior_agents import Level

__all__ = ["act_on_odds", "by_mean", "by_sampling", "by_table", "pull_arms", "walk_corridor"]

# (t, rewards of both arms, pulls of both arms, generator) -> whether each agent pulls the first arm
Choice = Callable[[int, np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def by_sampling(
    t: int, won: np.ndarray, pulled: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    drawn = rng.beta(won + 1, pulled - won + 1)
    return drawn[0] > drawn[1]


def by_mean(
    t: int, won: np.ndarray, pulled: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    cross = (won[0] + 1) * (pulled[1] + 2) - (won[1] + 1) * (pulled[0] + 2)
    return np.where(cross == 0, rng.random(won.shape[1]) < 0.5, cross > 0)


def by_table(choices: list[Level]) -> Choice:
    def choose(
        t: int, won: np.ndarray, pulled: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        table = np.zeros((t + 1, t + 1, t + 1), dtype=bool)
        for n, block in enumerate(choices[t]):
            table[n, : block.shape[0], : block.shape[1]] = block
        return table[pulled[0], won[0], won[1]]

    return choose


def pull_arms(
    choose: Choice, steps: int, runs: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Mean regret after 1 .. steps with its standard error, and the share of agents that pulled one
    arm only, with its standard error.
    """
    theta = rng.random((2, runs))
    won = np.zeros((2, runs), dtype=np.int64)
    pulled = np.zeros((2, runs), dtype=np.int64)
    lost = np.zeros(runs)
    mean = np.empty(steps)
    error = np.empty(steps)
    for t in range(steps):
        arm = np.where(choose(t, won, pulled, rng), 0, 1)
        each = np.arange(runs)
        paid = rng.random(runs) < theta[arm, each]
        pulled[arm, each] += 1
        won[arm, each] += paid
        lost += theta.max(axis=0) - theta[arm, each]
        mean[t], error[t] = mean_and_error(lost)
    return mean, error, *mean_and_error(pulled.min(axis=0) == 0)


def act_on_odds(
    steps: int, gap: float, sampling: bool, runs: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean regret after `steps` in two environments that swap the arms, and its standard error."""
    odds = np.log((1 + 2 * gap) / (1 - 2 * gap))
    first_better = rng.random(runs) < 0.5
    log_odds = np.zeros(runs)  # of "arm 1 is the better"
    lost = np.zeros(runs)
    for _ in range(steps):
        level = 1 / (1 + np.exp(-log_odds)) if sampling else (np.sign(log_odds) + 1) / 2
        one = rng.random(runs) < level
        right = one == first_better
        paid = rng.random(runs) < np.where(right, 0.5 + gap, 0.5 - gap)
        log_odds = np.round(log_odds / odds + np.where(paid == one, 1, -1)) * odds
        lost += np.where(right, 0.0, 2 * gap)
    return mean_and_error(lost)


def walk_corridor(
    T: int, gap: float, corridor: int, rule: np.ndarray, runs: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean reward of agents with this rule (cross at (t, arm, S) or pull), and its standard error."""
    first_better = rng.random(runs) < 0.5
    arm = np.zeros(runs, dtype=np.int64)
    free = np.zeros(runs, dtype=np.int64)  # when the walk of each is over
    S = np.zeros(runs, dtype=np.int64)
    earned = np.zeros(runs)
    for t in range(T):
        here = free <= t
        goes = here & rule[t, arm, S + T + 1]
        free[goes] = t + corridor
        arm[goes] = 1 - arm[goes]
        pulls = here & ~goes
        good = (arm == 0) == first_better
        paid = rng.random(runs) < np.where(good, 0.5 + gap, 0.5 - gap)
        earned += pulls & paid
        S += np.where(pulls, np.where(paid == (arm == 0), 1, -1), 0)
    return mean_and_error(earned)
