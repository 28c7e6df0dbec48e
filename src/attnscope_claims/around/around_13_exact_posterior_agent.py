"""An agent with the exact posterior: sqrt(T) regret, its constant, and how far to plan.

Three small worlds (posterior_agents.py): two environments that swap two arms, two Bernoulli arms
with uniform priors, and the swapped arms with a corridor between them. Predicted: sums over all
states. Measured: agents that draw environments and rewards and act; limits by quadrature; dynamic
programming backward against the same rule forward.

False alarm: 5 standard errors over runs, 6e-7 for each of 16 entries. The worst-case constant at T
steps has a remainder in powers of 1/T: of T = 100 and 400 the first is removed, and 0.01/100^2 is
left in a pilot.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import exact_count, sampled, stated, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark, Points
from attnscope_claims.around import posterior_agents as agents
from attnscope_claims.around.acting_agents import (
    act_on_odds,
    by_mean,
    by_sampling,
    by_table,
    pull_arms,
    walk_corridor,
)
from attnscope_claims.drawing import figure, legend, level, panel, sampled_points

GAP = 0.09
STEPS = 100
TIMES = (25, 50, 100)
OPTIMAL_STEPS = 50  # steps of the simulated optimal agent
CORRIDOR = 3
WALKS = ((800, 0.05 * 2**0.5, (3, 6, 20)), (200, 0.2 * 2**0.5, (3, 6)))  # T, gap, plans
SIMULATED_WALK = (200, 0.08)  # T and gap of the simulated walks
CONSTANT_TOLERANCE = (
    5e-6  # of the worst-case constant: five times what a pilot left at T = 100 and 400
)
# What the statement says: regret over sqrt(T) in the worst case, greedy and posterior sampling; the
# probability that a greedy agent never tries the second of two unknown arms, and what it loses a step
# in the end; the exponent of T with which posterior sampling's loss a step falls from 50 to 100 steps;
# the longest plan that never crosses, of T = 800; and what a plan of all 200 steps loses to Bayes.
GREEDY_CONSTANT, SAMPLING_CONSTANT = 0.264894, 0.354366
STUCK_PROBABILITY = 0.274
LOST_A_STEP = 0.018
SAMPLING_FALL = -0.79
LONGEST_STUCK = 12
SEVEN_DIGITS = 1e-7  # of the regret of the best plan, relative to that of Bayes
FAR_PLAN_LOSS = 3.23
URN_STEPS = (
    2000  # of the exact probability to stay: what is left of the limit is some 0.3/2000
)
NEAR_THRESHOLD = tuple(range(10, 16))
PLANS = np.array([3, 5, 7, 9, 10, 11, 12, 13, 14, 16, 20, 30])
NAMES = ("posterior sampling", "greedy", "optimal")


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 713])
    runs = context.pick(20_000, 400_000)
    exact = {name: _exact_regret(name) for name in NAMES[:2]}
    least, choices = agents.optimal_policy(OPTIMAL_STEPS)
    seen = {
        "posterior sampling": pull_arms(by_sampling, STEPS, runs, rng),
        "greedy": pull_arms(by_mean, STEPS, runs, rng),
        "optimal": pull_arms(by_table(choices), OPTIMAL_STEPS, runs, rng),
    }
    at = np.array(TIMES) - 1
    stays, stays_error = seen["greedy"][2:]
    comparisons = (
        *(_constant(sampling) for sampling in (False, True)),
        stated(
            "constants",
            "worst case over sqrt(T), as stated",
            (GREEDY_CONSTANT, SAMPLING_CONSTANT),
            [agents.worst_gap(sampling)[0] for sampling in (False, True)],
            1e-6,
        ),
        *(_compare_swapped_arms(sampling, 4 * runs, rng) for sampling in (False, True)),
        *(
            sampled(
                f"two arms, {name}",
                exact[name][at],
                seen[name][0][at],
                seen[name][1][at],
                key=key,
            )
            for key, name in zip(("arms-sampling", "arms-greedy"), NAMES[:2])
        ),
        *_unknown_arms(exact, stays, stays_error),
        sampled(
            f"two arms, optimal for {OPTIMAL_STEPS} steps",
            least,
            seen["optimal"][0][-1],
            seen["optimal"][1][-1],
        ),
        *_corridors(runs, rng),
    )
    notes = (
        "A greedy agent's exponent of T is on its way to 1, since it can stay at the worse arm; "
        "that of posterior sampling is on its way to 1/2."
    )
    return Evidence(comparisons, _figure(exact, seen), notes)


def _unknown_arms(
    exact: dict[str, np.ndarray], stays: float, error: float
) -> tuple[Comparison, ...]:
    """A greedy agent can stay at its first arm for ever; posterior sampling goes on exploring."""
    loss = {name: np.diff(exact[name], prepend=0.0)[[49, 99]] for name in NAMES[:2]}
    greedy, drawn = loss["greedy"], loss["posterior sampling"]
    return (
        worst(
            "greedy never tries the second arm, as stated",
            STUCK_PROBABILITY,
            agents.greedy_stays(URN_STEPS),
            1e-3,
            "half a printed digit and 5e-4 for 2000 steps",
            key="stuck",
        ),
        sampled(
            "greedy never tries the second arm in 100 steps",
            agents.greedy_stays(STEPS),
            stays,
            error,
            key="stuck-drawn",
        ),
        worst(
            "greedy: loss a step in the end, as stated",
            LOST_A_STEP,
            2 * greedy[1] - greedy[0],
            1e-3,
            "half a printed digit and O(1/T^2) after 1/T is removed at T = 50 and 100",
            key="linear",
        ),
        stated(
            "explores",
            "posterior sampling: exponent of its loss a step, T = 50 to 100, as stated",
            SAMPLING_FALL,
            np.log(drawn[1] / drawn[0]) / np.log(2),
            0.01,
        ),
    )


def _constant(sampling: bool) -> Comparison:
    name = "posterior sampling" if sampling else "greedy"
    near, far = (agents.worst_gap(sampling, T)[0] for T in (100, 400))
    return worst(
        f"worst case over sqrt(T), {name}",
        agents.worst_gap(sampling)[0],
        (4 * far - near) / 3,
        CONSTANT_TOLERANCE,
        "the remainder in 1/T^2 after 1/T is removed: 0.01/100^2 in a pilot, five times that",
        key="limit-sampling" if sampling else "limit-greedy",
        routes=("integral of the limit", "sums at T = 100 and 400"),
    )


def _compare_swapped_arms(sampling: bool, runs: int, rng: np.random.Generator) -> Comparison:
    """Two environments, the agent's own log odds."""
    name = "posterior sampling" if sampling else "greedy"
    return sampled(
        f"swapped arms, {name}",
        agents.swapped_regret(STEPS, GAP, sampling),
        *act_on_odds(STEPS, GAP, sampling, runs, rng),
        key="swapped-sampling" if sampling else "swapped-greedy",
    )


# -- two Bernoulli arms ----------------------------------------------------------------------------


def _exact_regret(name: str) -> np.ndarray:
    """Bayesian regret after 1 .. STEPS, by sums over all states."""
    if name == "greedy":
        return agents.bernoulli_regret(STEPS, agents.greedy_choices)
    levels = agents.sampling_probabilities(STEPS)
    return agents.bernoulli_regret(STEPS, lambda t: levels[t])


# -- corridor --------------------------------------------------------------------------------------


def threshold(gap: float) -> float:
    """The plan that a certain agent needs to cross."""
    return CORRIDOR * (1 + 2 * gap) / (4 * gap)


def _corridors(runs: int, rng: np.random.Generator) -> tuple[Comparison, ...]:
    T, gap = SIMULATED_WALK
    rules = _bayes(T, gap)[1], agents.lookahead_rule(T, CORRIDOR, gap, T)
    earned = [agents.corridor_value(T, CORRIDOR, gap, rule) for rule in rules]
    names = (("Bayes", "bayes-drawn"), (f"plan {T}", "far-drawn"))
    return (
        *(_compare_plan(T, gap, plan) for T, gap, plans in WALKS for plan in plans),
        *_around_threshold(),
        *(
            sampled(
                f"corridor, {name}, sampled",
                value,
                *walk_corridor(T, gap, CORRIDOR, rule, runs, rng),
                key=key,
            )
            for (name, key), value, rule in zip(names, earned, rules)
        ),
        stated(
            "too-far",
            f"corridor, plan {T}: lost to Bayes, as stated",
            FAR_PLAN_LOSS,
            earned[0] - earned[1],
            0.01,
        ),
    )


def _compare_plan(T: int, gap: float, plan: int) -> Comparison:
    below = threshold(gap) >= plan
    return worst(
        f"corridor, T = {T}, plan {plan}: {'linear' if below else 'as Bayes'}",
        _stuck_regret(T, gap) if below else _bayes_regret(T, gap),
        _plan_regret(T, gap, plan),
        1e-6,
        "linear: roundoff; plans of 20 and 6 lose less than 1e-7 to Bayes (a pilot), ten times that",
        key=f"plan-{plan}-of-{T}",
        routes=("closed form below the threshold, Bayes above it", "forward sums"),
    )


def _around_threshold() -> tuple[Comparison, ...]:
    """Which of the plans around the threshold has linear regret, T = 800; and the best plans."""
    T, gap, _ = WALKS[0]
    stuck = [
        plan
        for plan in NEAR_THRESHOLD
        if abs(_plan_regret(T, gap, plan) - _stuck_regret(T, gap)) < 1e-6
    ]
    linear = max(stuck, default=0)
    known = float(np.floor(threshold(gap)))
    what = "longest plan with linear regret, T = 800"
    return (
        exact_count(f"{what}: m (1 + 2D)/(4D)", known, linear, key="threshold"),
        exact_count(f"{what}, as stated", LONGEST_STUCK, linear, key="longest"),
        worst(
            "regret of the best plan over that of Bayes, less 1",
            0.0,
            [_over_bayes(T, gap, plans[-1]) for T, gap, plans in WALKS],
            SEVEN_DIGITS,
            "seven digits, as stated; forward and backward sums are exact to 1e-12",
            key="as-bayes",
            scale=1.0,
        ),
    )


def _stuck_regret(T: int, gap: float) -> float:
    """Half of the runs stay at the worse arm for ever."""
    return gap * T - CORRIDOR * (0.5 + gap) / 2


def _bayes_regret(T: int, gap: float) -> float:
    return agents.corridor_oracle(T, CORRIDOR, gap) - _bayes(T, gap)[0]


def _plan_regret(T: int, gap: float, plan: int) -> float:
    return agents.corridor_oracle(T, CORRIDOR, gap) - _planned_value(T, gap, plan)


def _over_bayes(T: int, gap: float, plan: int) -> float:
    """Relative excess of the regret of a plan over that of the Bayes-optimal agent."""
    return _plan_regret(T, gap, plan) / _bayes_regret(T, gap) - 1


@cache
def _bayes(T: int, gap: float) -> tuple[float, np.ndarray]:
    """The Bayes-optimal value and rule."""
    return agents.corridor_optimum(T, CORRIDOR, gap)


@cache
def _planned_value(T: int, gap: float, plan: int) -> float:
    """What an agent earns that replans every step with a plan of so many steps."""
    rule = agents.lookahead_rule(T, CORRIDOR, gap, plan)
    return agents.corridor_value(T, CORRIDOR, gap, rule)


# -- figure ----------------------------------------------------------------------------------------


def _figure(
    exact: dict[str, np.ndarray],
    seen: dict[str, tuple[np.ndarray, np.ndarray, float, float]],
) -> Figure:
    few = np.unique(np.geomspace(2, STEPS, 12).astype(int))
    arms: list[Mark] = [legend("sampled")]
    for i, name in enumerate(NAMES[:2]):
        pairs = np.stack(seen[name][:2], axis=1)[few - 1]
        arms.append(Line(np.arange(1, STEPS + 1), exact[name], name, i))
        arms.append(sampled_points(few, pairs, "", i))
    shown = [2, 4, 8, 16, *TIMES]
    arms.append(Line(shown, [agents.optimal_policy(n)[0] for n in shown], NAMES[2], 2))
    T, gap, _ = WALKS[0]
    regrets = [_plan_regret(T, gap, int(U)) / T**0.5 for U in PLANS]
    floor = _bayes_regret(T, gap) / T**0.5

    return figure(
        "Regret of agents with the exact posterior",
        panel("two Bernoulli arms", "steps", "Bayesian regret", *arms, log="xy"),
        panel(
            f"corridor of {CORRIDOR}, T = {T}",
            "steps planned",
            "regret / sqrt(T)",
            Line([threshold(gap)] * 2, [floor, regrets[0]], "threshold", 3, dashed=True),
            level(PLANS, floor, "Bayes", 4),
            Points(PLANS, regrets, "plans", 5),
        ),
    )


CLAIM = Claim(
    id="around-13-exact-posterior-agent",
    title="An agent with the exact posterior: sqrt(T), how far to plan",
    statement=(
        "[An agent that holds the exact posterior over two environments has a worst-case regret of "
        f"{GREEDY_CONSTANT:g} sqrt(T)](constants, limit-greedy, swapped-greedy), [or "
        f"{SAMPLING_CONSTANT:g} sqrt(T) if it samples from the posterior](constants, "
        "limit-sampling, swapped-sampling).",
        "[With two unknown arms, an agent that acts on the posterior mean never tries the second "
        f"arm with probability {STUCK_PROBABILITY:g}](stuck, stuck-drawn).",
        f"[Its regret turns linear: in the end it loses {LOST_A_STEP:g} a step](linear, "
        "arms-greedy).",
        "[Posterior sampling goes on exploring: its loss a step falls as "
        f"T^({SAMPLING_FALL:g}) from 50 to 100 steps](explores, arms-sampling).",
        "Where the arms lie m steps apart, [an agent that plans U steps and replans after each "
        f"crosses only if U > m (1 + 2D)/(4D), so not with {LONGEST_STUCK} steps](threshold, "
        "longest).",
        "[Below this threshold the regret is linear](plan-3-of-800, plan-6-of-800, plan-3-of-200).",
        "[A plan of 20 of 800 steps, or of 6 of 200, has the regret of the Bayes-optimal agent to "
        "seven digits](as-bayes, plan-20-of-800, plan-6-of-200).",
        f"[A plan of all 200 steps crosses too often and loses {FAR_PLAN_LOSS:g} to it](too-far, "
        "far-drawn).",
    ),
    headline="constants",
    provenance=Provenance(
        "sharpened",
        ("agents/regret", "agents/planning"),
        "the worlds, the constants, the threshold of the plan",
    ),
    hypotheses=(
        "rewards of 0 and 1; the exact posterior in place of a language model; two environments "
        "with gaps 2D, or uniform priors"
    ),
    routes=("sums over all states", "agents that act on drawn rewards"),
    check=check,
    snippet="""\
from attnscope_claims.around import posterior_agents as agents
print('constants', agents.worst_gap(False)[0], agents.worst_gap(True)[0])
levels = agents.sampling_probabilities(50)
print('sampling', agents.bernoulli_regret(50, lambda t: levels[t])[-1])
print('greedy', agents.bernoulli_regret(50, agents.greedy_choices)[-1])
print('optimal', agents.optimal_policy(50)[0])
""",
)
