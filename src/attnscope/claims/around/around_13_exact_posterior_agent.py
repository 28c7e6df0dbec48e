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

from collections.abc import Callable

import numpy as np

from attnscope.claims.around import posterior_agents as agents
from attnscope.claims.claim import Claim, Comparison, Context, Evidence, Table
from attnscope.claims.compare import BAND, mean_and_error, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark, Panel, Points

GAP = 0.09
STEPS = 100
TIMES = (25, 50, 100)
SHORT = 50  # steps of the simulated optimal agent
CORRIDOR = 3
WALKS = ((800, 0.05 * 2**0.5, (3, 6, 20)), (200, 0.2 * 2**0.5, (3, 6)))  # T, gap, plans
DRAWN = (200, 0.08)  # T and gap of the simulated walks
LEFT = 5e-6  # of the worst-case constant: five times what a pilot left at T = 100 and 400
EQUAL = 1e-9  # roundoff of sums over 1e5 states and hundreds of steps
SUMS = "roundoff of sums over 1e5 states and hundreds of steps"
PLANS = np.array([3, 5, 7, 9, 10, 11, 12, 13, 14, 16, 20, 30])
NAMES = ("posterior sampling", "greedy", "optimal")


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 713])
    runs = context.pick(20_000, 400_000)
    levels = agents.sampling_probabilities(STEPS)
    exact = {
        "posterior sampling": agents.bernoulli_regret(STEPS, lambda t: levels[t]),
        "greedy": agents.bernoulli_regret(STEPS, agents.greedy_choices),
    }
    best = {T: agents.optimal_policy(T) for T in TIMES}
    seen = {
        "posterior sampling": _arms(_by_sampling, STEPS, runs, rng),
        "greedy": _arms(_by_mean, STEPS, runs, rng),
        "optimal": _arms(_by_table(best[SHORT][1]), SHORT, runs, rng),
    }
    at = np.array(TIMES) - 1
    comparisons = (
        *(_constant(sampling) for sampling in (False, True)),
        *(_swapped(sampling, 4 * runs, rng) for sampling in (False, True)),
        *(
            sampled(
                f"two arms, {name}", exact[name][at], seen[name][0][at], seen[name][1][at]
            )
            for name in NAMES[:2]
        ),
        sampled(
            f"two arms, optimal for {SHORT} steps",
            best[SHORT][0],
            seen["optimal"][0][-1],
            seen["optimal"][1][-1],
        ),
        worst(
            "optimal: backward value and forward regret",
            [best[T][0] for T in TIMES],
            [_forward(T, best[T][1]) for T in TIMES],
            EQUAL,
            SUMS,
        ),
        *_corridors(runs, rng),
    )
    rows = tuple(
        (f"T = {T}", exact[NAMES[0]][T - 1], exact[NAMES[1]][T - 1], best[T][0])
        for T in TIMES
    )
    table = Table("Bayesian regret, two Bernoulli arms", ("steps", *NAMES), rows, digits=7)
    rate = [np.log(exact[n][99] / exact[n][49]) / np.log(2) for n in NAMES[:2]]
    limits = [agents.worst_gap(sampling)[0] for sampling in (False, True)]
    notes = (
        f"Worst case of two swapped arms: {limits[0]:.6f} sqrt(T) greedy, {limits[1]:.6f} sqrt(T) "
        f"posterior sampling. Exponent from 50 to 100 steps of two arms: {rate[0]:.2f} posterior "
        f"sampling, {rate[1]:.2f} greedy, which is on its way to 1: it can stay at the worse arm."
    )
    return Evidence(comparisons, _figure(exact, best, seen), notes, tables=(table,))


def _constant(sampling: bool) -> Comparison:
    name = "posterior sampling" if sampling else "greedy"
    near, far = (agents.worst_gap(sampling, T)[0] for T in (100, 400))
    return Comparison(
        f"worst case over sqrt(T), {name}",
        agents.worst_gap(sampling)[0],
        (4 * far - near) / 3,
        LEFT,
        why="the remainder in 1/T^2 after 1/T is removed: 0.01/100^2 in a pilot, five times that",
        routes=("integral of the limit", "sums at T = 100 and 400"),
    )


def _swapped(sampling: bool, runs: int, rng: np.random.Generator) -> Comparison:
    """Two environments, the agent's own log odds."""
    name = "posterior sampling" if sampling else "greedy"
    odds = np.log((1 + 2 * GAP) / (1 - 2 * GAP))
    first_better = rng.random(runs) < 0.5
    log_odds = np.zeros(runs)  # of "arm 1 is the better"
    lost = np.zeros(runs)
    for _ in range(STEPS):
        level = 1 / (1 + np.exp(-log_odds)) if sampling else (np.sign(log_odds) + 1) / 2
        one = rng.random(runs) < level
        right = one == first_better
        paid = rng.random(runs) < np.where(right, 0.5 + GAP, 0.5 - GAP)
        log_odds = np.round(log_odds / odds + np.where(paid == one, 1, -1)) * odds
        lost += np.where(right, 0.0, 2 * GAP)
    mean, error = mean_and_error(lost)
    predicted = agents.swapped_regret(STEPS, GAP, sampling)
    return sampled(f"swapped arms, {name}", predicted, mean, error)


# -- two Bernoulli arms ----------------------------------------------------------------------------

Choice = Callable[[int, np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def _by_sampling(
    t: int, won: np.ndarray, pulled: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    drawn = rng.beta(won + 1, pulled - won + 1)
    return drawn[0] > drawn[1]


def _by_mean(
    t: int, won: np.ndarray, pulled: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    cross = (won[0] + 1) * (pulled[1] + 2) - (won[1] + 1) * (pulled[0] + 2)
    return np.where(cross == 0, rng.random(won.shape[1]) < 0.5, cross > 0)


def _by_table(choices: list[agents.Level]) -> Choice:
    def choose(
        t: int, won: np.ndarray, pulled: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        table = np.zeros((t + 1, t + 1, t + 1), dtype=bool)
        for n, block in enumerate(choices[t]):
            table[n, : block.shape[0], : block.shape[1]] = block
        return table[pulled[0], won[0], won[1]]

    return choose


def _arms(
    choose: Choice, steps: int, runs: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Mean regret after 1 .. steps, and its standard error."""
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
    return mean, error


def _forward(steps: int, choices: list[agents.Level]) -> float:
    return float(agents.bernoulli_regret(steps, lambda t: choices[t])[-1])


# -- corridor --------------------------------------------------------------------------------------


def threshold(gap: float) -> float:
    """The plan that a certain agent needs to cross."""
    return CORRIDOR * (1 + 2 * gap) / (4 * gap)


def _corridors(runs: int, rng: np.random.Generator) -> tuple[Comparison, ...]:
    found: list[Comparison] = []
    for T, gap, plans in WALKS:
        stays = (
            gap * T - CORRIDOR * (0.5 + gap) / 2
        )  # half of the time at the worse arm for ever
        oracle = agents.corridor_oracle(T, CORRIDOR, gap)
        best, _ = agents.corridor_optimum(T, CORRIDOR, gap)
        for U in plans:
            rule = agents.lookahead_rule(T, CORRIDOR, gap, U)
            regret = oracle - agents.corridor_value(T, CORRIDOR, gap, rule)
            below = threshold(gap) >= U
            found.append(
                Comparison(
                    f"corridor, T = {T}, plan {U}: {'linear' if below else 'as Bayes'}",
                    stays if below else oracle - best,
                    regret,
                    1e-6,
                    why="linear: roundoff; plans of 20 and 6 lose less than 1e-7 to Bayes (a pilot), ten times that",
                    routes=(
                        "closed form below the threshold, Bayes above it",
                        "forward sums",
                    ),
                )
            )
    T, gap = DRAWN
    value, rule = agents.corridor_optimum(T, CORRIDOR, gap)
    far = agents.lookahead_rule(T, CORRIDOR, gap, T)
    forward = agents.corridor_value(T, CORRIDOR, gap, rule)
    found.append(
        Comparison(
            "corridor: backward value and forward sum", value, forward, EQUAL, why=SUMS
        )
    )
    for name, given in (("Bayes", rule), (f"plan {T}", far)):
        predicted = agents.corridor_value(T, CORRIDOR, gap, given)
        found.append(
            sampled(f"corridor, {name}, sampled", predicted, *_walk(given, runs, rng))
        )
    return tuple(found)


def _walk(rule: np.ndarray, runs: int, rng: np.random.Generator) -> tuple[float, float]:
    """What agents with this rule earn."""
    T, gap = DRAWN
    first_better = rng.random(runs) < 0.5
    arm = np.zeros(runs, dtype=np.int64)
    free = np.zeros(runs, dtype=np.int64)  # when the walk of each is over
    S = np.zeros(runs, dtype=np.int64)
    earned = np.zeros(runs)
    for t in range(T):
        here = free <= t
        goes = here & rule[t, arm, S + T + 1]
        free[goes] = t + CORRIDOR
        arm[goes] = 1 - arm[goes]
        pulls = here & ~goes
        good = (arm == 0) == first_better
        paid = rng.random(runs) < np.where(good, 0.5 + gap, 0.5 - gap)
        earned += pulls & paid
        S += np.where(pulls, np.where(paid == (arm == 0), 1, -1), 0)
    return mean_and_error(earned)


# -- figure ----------------------------------------------------------------------------------------


def _figure(
    exact: dict[str, np.ndarray],
    best: dict[int, tuple[float, list[agents.Level]]],
    seen: dict[str, tuple[np.ndarray, np.ndarray]],
) -> Figure:
    T = 100
    x = np.linspace(0.1, 4, 40)
    curves: list[Mark] = []
    for i, sampling in enumerate((True, False)):
        heights = [agents.swapped_regret(T, v / (2 * T**0.5), sampling) / T**0.5 for v in x]
        curves.append(Line(x, heights, NAMES[i], i))
    limits = [agents.worst_gap(sampling) for sampling in (True, False)]
    peaks = Points(
        [v[1] for v in limits], [v[0] for v in limits], "limit of the worst case", 6
    )
    few = np.unique(np.geomspace(2, STEPS, 12).astype(int))
    arms: list[Mark] = []
    for i, name in enumerate(NAMES[:2]):
        t = np.arange(1, STEPS + 1)
        arms.append(Line(t, exact[name], name, i))
        mean, error = seen[name]
        arms.append(Points(few, mean[few - 1], "", i, BAND * error[few - 1]))
    shown = [2, 4, 8, 16, *TIMES]
    values = [best[n][0] if n in best else agents.optimal_policy(n)[0] for n in shown]
    arms.append(Line(shown, values, NAMES[2], 2))
    mean, error = seen["optimal"]
    arms.append(Points([SHORT], mean[-1:], "", 2, BAND * error[-1:]))
    arms.append(Points([], [], "sampled", 6))
    steps, gap, _ = WALKS[0]
    oracle = agents.corridor_oracle(steps, CORRIDOR, gap)
    regrets = [
        (oracle - agents.corridor_value(steps, CORRIDOR, gap, rule)) / steps**0.5
        for rule in (agents.lookahead_rule(steps, CORRIDOR, gap, int(U)) for U in PLANS)
    ]
    floor = (oracle - agents.corridor_optimum(steps, CORRIDOR, gap)[0]) / steps**0.5
    ends = [float(PLANS[0]), float(PLANS[-1])]
    walls: tuple[Mark, ...] = (
        Line([threshold(gap)] * 2, [floor, regrets[0]], "threshold", 3, dashed=True),
        Line(ends, [floor] * 2, "Bayes", 4, dashed=True),
        Points(PLANS, regrets, "plans", 5),
    )
    panels = (
        Panel(
            f"swapped arms, T = {T}",
            "gap 2D times sqrt(T)",
            "regret / sqrt(T)",
            (*curves, peaks),
        ),
        Panel(
            "two Bernoulli arms",
            "steps",
            "Bayesian regret",
            tuple(arms),
            log_x=True,
            log_y=True,
        ),
        Panel(
            f"corridor of {CORRIDOR}, T = {steps}", "steps planned", "regret / sqrt(T)", walls
        ),
    )
    return Figure("Regret of agents with the exact posterior", panels, columns=3)


CLAIM = Claim(
    id="around-13-exact-posterior-agent",
    title="An agent with the exact posterior: sqrt(T), how far to plan",
    statement=(
        "An agent that holds the exact posterior over two environments has a worst-case regret of "
        "0.264894 sqrt(T), or 0.354366 sqrt(T) if it samples from the posterior. With two unknown "
        "arms acting on the posterior mean is stuck with positive probability, so that its regret "
        "turns linear, while sampling explores. Where arms lie m steps apart, replanning every "
        "step with a plan of U steps crosses only if U > m (1 + 2D)/(4D); below, regret is linear, "
        "above, it is small, and for a plan of the right length (20 of 800 steps, 6 of 200) that "
        "of the Bayes-optimal agent to seven digits; planning farther crosses too often."
    ),
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
    snippet=(
        "from attnscope.claims.around import posterior_agents as agents\n"
        "print('constants', agents.worst_gap(False)[0], agents.worst_gap(True)[0])\n"
        "levels = agents.sampling_probabilities(50)\n"
        "print('sampling', agents.bernoulli_regret(50, lambda t: levels[t])[-1])\n"
        "print('greedy', agents.bernoulli_regret(50, agents.greedy_choices)[-1])\n"
        "print('optimal', agents.optimal_policy(50)[0])\n"
    ),
)
