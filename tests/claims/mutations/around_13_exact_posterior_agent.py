"""What makes the sentences of around-13 false."""

import numpy as np
from helpers.mutation import moved, replaced

AGENTS = "attnscope_claims.around.posterior_agents"
KEEP = (
    "pull_arms",
    "act_on_odds",
    "walk_corridor",
    "_constant",
    "_exact_regret",
    "_figure",
)


def _larger(share):
    """Measured regrets larger by a share."""
    return lambda drawn: lambda *args: ((1 + share) * drawn(*args)[0], *drawn(*args)[1:])


def _tries_both(drawn):
    """Agents that try both arms in the end, whatever they see."""
    return lambda *args: (*drawn(*args)[:2], 0.0, drawn(*args)[3])


def _always_tries(stays):
    return lambda steps: 0.0


def _sublinear(regret):
    """Regret that grows as sqrt(t)."""
    return lambda name: np.sqrt(np.arange(1, 101))


def _half_corridor(threshold):
    """m (1 + 2D)/(2D) in place of m (1 + 2D)/(4D)."""
    return lambda gap: 2 * threshold(gap)


def _patient(value):
    """Plans of every length cross: 6 steps are as good as 20."""
    return lambda T, gap, plan: value(T, gap, max(plan, 20 if T == 800 else 6))


def _short(rule):
    """Plans never look farther than 20 steps."""
    return lambda T, corridor, gap, plan: rule(T, corridor, gap, min(plan, 20))


MUTATIONS = (
    *moved("constants", "GREEDY_CONSTANT", by=1e-5),
    *moved("constants", "SAMPLING_CONSTANT", by=1e-5),
    *replaced("swapped-greedy", "regret 5 % larger", "act_on_odds", _larger(0.05)),
    *replaced("swapped-sampling", "regret 5 % larger", "act_on_odds", _larger(0.05)),
    *moved("stuck", "STUCK_PROBABILITY"),
    *replaced(
        "stuck", "greedy agents try both arms", f"{AGENTS}:greedy_stays", _always_tries
    ),
    *replaced("stuck-drawn", "greedy agents try both arms", "pull_arms", _tries_both),
    *moved("linear", "LOST_A_STEP"),
    *replaced("linear", "regret grows as sqrt(T)", "_exact_regret", _sublinear),
    *replaced("arms-greedy", "regrets 20 % larger", "pull_arms", _larger(0.2)),
    *replaced("arms-sampling", "regrets 20 % larger", "pull_arms", _larger(0.2)),
    *moved("explores", "SAMPLING_FALL"),
    *replaced("threshold", "m (1 + 2D)/(2D)", "threshold", _half_corridor),
    *replaced("threshold", "short plans cross", "_planned_value", _patient),
    *moved("longest", "LONGEST_STUCK", by=0.1),
    *replaced("plan-6-of-800", "short plans cross", "_planned_value", _patient),
    *replaced(
        "as-bayes",
        "the best plan loses a millionth",
        "_over_bayes",
        lambda over: lambda *args: over(*args) + 1e-6,
    ),
    *moved("too-far", "FAR_PLAN_LOSS"),
    *replaced(
        "too-far", "planning farther costs nothing", f"{AGENTS}:lookahead_rule", _short
    ),
    *replaced(
        "far-drawn",
        "agents that plan far earn 2 % more",
        "walk_corridor",
        lambda walk: lambda *args: (1.02 * walk(*args)[0], walk(*args)[1]),
    ),
)

REBUILT = dict.fromkeys(
    (
        "optimal: backward value and forward regret",
        "corridor: backward value and forward sum",
    ),
    "left out: no sentence names it",
)
