"""Deciding by attention: averaging costs has no mismatch error, and its regret is exact.

Newsvendor, 9 per unit short and 1 per unit left over, so tau = 0.9; outcomes of class c are mu_c +
U(0, 1). Predicted: `decision_regret` (a closed sum) and the moments of an order statistic.
Measured: `attention_decision` on sampled contexts, the true cost of its action in closed form.

A forecaster that fits a normal law with the right mean and variance decides mu + 1/2 +
Phi^-1(tau)/sqrt(12), and one that decides the mean mu + 1/2: inside the support the regret of a is
(b + u)/2 (a - a*)^2, so both keep a regret that no number of tokens removes. Leaky attention
(inverse bandwidth B finite) has a limit of its own; how much leak is best depends on class and
length.

Gradient errors of training through decisions: nothing exact to say, nothing here.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtri

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import Z, exact_count, mean_and_error, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark
from attnscope.predictors.operators.decisions import attention_decision
from attnscope.tasks.exchangeable.linear_map import LinearMap
from attnscope.theory.exchangeable.learning_curves import softmax_curve
from attnscope.theory.exchangeable.newsvendor import decision_regret
from attnscope_claims.drawing import figure, legend, level, panel, sampled_points

SHORT_COST = 9.0
OVER_COST = 1.0
TAU = SHORT_COST / (SHORT_COST + OVER_COST)
SHIFTS = np.array([0.0, 0.7, 1.6])
RIGHT_TOKENS = (5, 19, 40)  # tokens of the right class alone
LENGTHS = (10, 30)
SHARPNESS = (0.0, 1.0, 2.0, 3.0, 5.0)
ROUNDING = "roundoff of sums of binomial probabilities"
NOISE = 0.5  # of the values, and of the label that squared costs are paid on
ACTION_STEP = (
    0.02  # between actions where costs are squared: it moves the regret by ACTION_STEP^2/12
)
GRID = np.linspace(0, 6, 25)  # inverse temperatures of the exact curves
RATE_TOKENS = 99  # right tokens at which the rate of the regret is read off
# What the statement says: tokens times the regret of right tokens; the regrets of the normal and of
# the mean forecast; from how many right tokens on attention is better than the normal forecast; the
# best inverse temperatures of classes 1 and 2 at L = 30, on GRID; and what each class loses there
# with the best inverse temperature of the other.
RATE = 0.45
NORMAL_REGRET, MEAN_REGRET = 0.0045, 0.8
PASSING_TOKENS = 111
BEST_INVERSE_TEMPERATURES = (3.75, 3.0)
LOST_BY_OTHER = (0.0720, 0.0044)
PAIRED_WHY = "5 standard errors over the same contexts; false alarm 6e-7"
STATED_WHY = f"{PAIRED_WHY}; half a printed digit"


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 712])
    draws = context.pick(20_000, 400_000)
    closed = np.array([_order_statistic(n) for n in RIGHT_TOKENS])
    drawn = np.array([_right_tokens(n, draws, rng) for n in RIGHT_TOKENS]).T
    curves = {L: _curve(L) for L in LENGTHS}
    exact = {
        (L, B): curves[L][np.flatnonzero(GRID == B)[0]] for L in LENGTHS for B in SHARPNESS
    }
    regrets = {
        (L, B): _three_class_regrets(L, B, draws, rng) for L in LENGTHS for B in SHARPNESS
    }
    mean = {key: r.mean(axis=0) for key, r in regrets.items()}
    error = {key: r.std(axis=0, ddof=1) / draws**0.5 for key, r in regrets.items()}
    comparisons = (
        sampled("right tokens, sampled", closed, drawn[0], drawn[1], key="right"),
        worst(
            f"{RATE_TOKENS} right tokens: tokens times regret, as stated",
            RATE,
            RATE_TOKENS * float(decision_regret(RATE_TOKENS, SHORT_COST, OVER_COST).value[0]),
            0.01,
            "(b + u)/2 tau (1 - tau)/(n + 2) in place of 1/n: 2 % at n = 99",
            key="vanishes",
        ),
        *(
            sampled(
                f"three classes, L = {L}, inverse bandwidth {B:g}",
                exact[L, B],
                mean[L, B],
                error[L, B],
                key=f"sum-{L}-{B:g}",
            )
            for L in LENGTHS
            for B in SHARPNESS
        ),
        *(_finite_is_better(L, exact, draws, context.seed) for L in LENGTHS),
        *_depends_on_class(curves[LENGTHS[-1]], draws, context.seed),
        *_mismatch(),
        _compare_squared_cost(context.pick(5000, 40_000), rng),
    )
    notes = (
        f"Normal forecast {_normal_forecast_regret():.6f}, mean forecast {_mean_forecast():.1f} for ever; attention "
        "on right tokens alone passes the normal forecast at "
        f"{_crossing_length()} tokens. The second class is served best by a finite bandwidth."
    )
    figure = _figure(curves, drawn, mean, error)
    return Evidence(comparisons, figure, notes)


def _order_statistic(n: int) -> float:
    """a^ is the j-th of n uniform numbers, j = ceil(tau n)."""
    j = int(np.ceil(TAU * n - 1e-9))
    variance = j * (n + 1 - j) / ((n + 1) ** 2 * (n + 2))
    return (SHORT_COST + OVER_COST) / 2 * (variance + (j / (n + 1) - TAU) ** 2)


def _cost(z: np.ndarray) -> np.ndarray:
    """Expected cost of an action z above the class's mu."""
    f = np.clip(z, 0, 1)
    short = np.maximum(-z, 0) + (1 - f) ** 2 / 2
    over = np.maximum(z - 1, 0) + f**2 / 2
    return SHORT_COST * short + OVER_COST * over


def _right_tokens(n: int, draws: int, rng: np.random.Generator) -> tuple[float, float]:
    y = rng.random((draws, n))
    found = attention_decision(np.zeros(1), np.ones((n, 1)), y, (SHORT_COST, OVER_COST))
    return mean_and_error(_cost(found.action) - _cost(np.array(TAU)))


def _three_class_regrets(
    L: int, B: float, draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Regret of a query of each class, (draws, classes); unit vectors are keys."""
    kind = rng.integers(3, size=(draws, L))
    y = SHIFTS[kind] + rng.random((draws, L))
    queries = B * np.eye(3)[:, None, :]
    found = attention_decision(
        queries, np.eye(3)[kind], y, (SHORT_COST, OVER_COST), bandwidth=1.0
    )
    return (_cost(found.action - SHIFTS[:, None]) - _cost(np.array(TAU))).T


def _curve(L: int) -> np.ndarray:
    """Exact regret of a query of each class, (GRID, classes)."""
    return np.array(
        [decision_regret(L, SHORT_COST, OVER_COST, SHIFTS, B).value for B in GRID]
    )


def _same_contexts(
    L: int, sharpness: tuple[float, float], draws: int, seed: int
) -> list[tuple[float, float]]:
    """Regret at the first inverse temperature less that at the second on the same contexts, of each
    class: means and standard errors.
    """
    first, second = (
        _three_class_regrets(L, B, draws, np.random.default_rng([seed, 712, L]))
        for B in sharpness
    )
    return [mean_and_error(x) for x in (first - second).T]


def _finite_is_better(
    L: int, exact: dict[tuple[int, float], np.ndarray], draws: int, seed: int
) -> Comparison:
    """Class 2: what a larger inverse temperature, 5 instead of 3, costs."""
    mean, error = _same_contexts(L, (5.0, 3.0), draws, seed)[1]
    return worst(
        f"class 2, L = {L}: regret at 5 less that at 3",
        exact[L, 5.0][1] - exact[L, 3.0][1],
        mean,
        Z * error,
        PAIRED_WHY,
        key=f"finite-{L}",
    )


def _depends_on_class(curve: np.ndarray, draws: int, seed: int) -> tuple[Comparison, ...]:
    """Classes 1 and 2 at L = 30: the best inverse temperatures differ, and what each class loses
    with that of the other, on sampled contexts.
    """
    seen = _same_contexts(
        LENGTHS[-1],
        (BEST_INVERSE_TEMPERATURES[1], BEST_INVERSE_TEMPERATURES[0]),
        2 * draws,
        seed,
    )
    mean, error = np.array([(seen[0][0], -seen[1][0]), (seen[0][1], seen[1][1])])
    return (
        worst(
            "best inverse temperature of classes 1 and 2, L = 30, as stated",
            BEST_INVERSE_TEMPERATURES,
            GRID[np.argmin(curve[:, :2], axis=0)],
            (GRID[1] - GRID[0]) / 2,
            "half a step of the grid of inverse temperatures",
            key="best",
        ),
        worst(
            "what classes 1 and 2 lose with the best of the other, as stated",
            LOST_BY_OTHER,
            mean,
            Z * error + 5e-5,
            STATED_WHY,
            key="class",
        ),
    )


def _normal_forecast_regret() -> float:
    """Regret of the right mean and variance with the wrong law."""
    return float((SHORT_COST + OVER_COST) / 2 * (0.5 + ndtri(TAU) / np.sqrt(12) - TAU) ** 2)


def _mean_forecast() -> float:
    return (SHORT_COST + OVER_COST) / 2 * (0.5 - TAU) ** 2


def _crossing_length() -> int:
    """The least n from which on attention on right tokens is better than the normal forecast."""
    n = np.arange(1, 400)
    worse = [k for k in n if _order_statistic(int(k)) > _normal_forecast_regret()]
    return int(max(worse)) + 1


def _mismatch() -> tuple[Comparison, ...]:
    """The two forecasters' regret by integrating costs, and attention below it."""

    def regret(action: float) -> float:
        cost = lambda a, y: SHORT_COST * max(y - a, 0.0) + OVER_COST * max(a - y, 0.0)
        found = [
            quad(lambda y, a=a: cost(a, y), 0, 1, points=[a], epsabs=1e-12)[0]
            for a in (action, TAU)
        ]
        return float(found[0] - found[1])

    normal = 0.5 + float(ndtri(TAU)) / np.sqrt(12)
    at = _crossing_length()
    return (
        worst(
            "normal and mean forecast, as stated",
            (NORMAL_REGRET, MEAN_REGRET),
            (regret(normal), regret(0.5)),
            (5e-5, 1e-10),
            "half a printed digit; costs integrated to 1e-12",
            key="keeps",
        ),
        exact_count(
            "right tokens from which on attention is better, as stated",
            PASSING_TOKENS,
            at,
            key="passes",
        ),
        worst(
            f"attention on {at} right tokens is below the normal forecast",
            _normal_forecast_regret(),
            decision_regret(at, SHORT_COST, OVER_COST).value[0],
            1e-12,
            ROUNDING,
            key="below",
            rule="at most",
        ),
    )


def _compare_squared_cost(contexts: int, rng: np.random.Generator) -> Comparison:
    """With squared costs the regret is the error of softmax attention itself."""
    d, L, h = 3, 64, 0.25
    mean, error = _squared_cost(d, L, h, contexts, rng)
    predicted = softmax_curve(d, L, h, NOISE).value + NOISE**2 + ACTION_STEP**2 / 12
    return worst(
        "squared costs: cost is the error of softmax attention",
        predicted,
        mean,
        Z * error,
        "5 standard errors over contexts; false alarm 6e-7; the grid of actions is counted",
        key="squared",
        routes=("softmax_curve", "attention_decision on sampled contexts"),
    )


def _squared_cost(
    d: int, L: int, h: float, contexts: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Mean squared cost of deciding by attention with bandwidth h, and its standard error."""
    task = LinearMap(d, 1, noise=NOISE, keys="sphere")
    batch = task.sample(contexts, L, int(rng.integers(2**31)))
    actions = np.arange(-4, 4 + ACTION_STEP / 2, ACTION_STEP)
    cost = lambda a, y: (a[:, None] - y) ** 2
    found = attention_decision(
        batch.query, batch.keys, batch.values[:, :, 0], cost, actions, h
    )
    return mean_and_error((found.action - batch.target[:, 0]) ** 2)


def _figure(
    curves: dict[int, np.ndarray],
    drawn: np.ndarray,
    mean: dict[tuple[int, float], np.ndarray],
    error: dict[tuple[int, float], np.ndarray],
) -> Figure:
    n = np.arange(2, 201)
    curve = [_order_statistic(int(k)) for k in n]
    right: tuple[Mark, ...] = (
        Line(n, curve, "attention, exact", 3),
        sampled_points(RIGHT_TOKENS, drawn.T, "attention, sampled", 6),
        level(n, _normal_forecast_regret(), "normal forecast", 4),
        level(n, _mean_forecast(), "mean forecast", 5),
    )
    panels = [panel("tokens of the right class", "tokens", "regret", *right, log="xy")]
    for L in LENGTHS:
        marks: list[Mark] = [legend("sampled")]
        for c in range(3):
            pairs = [(mean[L, B][c], error[L, B][c]) for B in SHARPNESS]
            marks.append(Line(GRID, curves[L][:, c], f"class {c + 1}", c))
            marks.append(sampled_points(SHARPNESS, pairs, "", c))
        panels.append(
            panel(f"three classes, L = {L}", "inverse bandwidth", "regret", *marks, log="y")
        )
    return figure("Regret of deciding by attention", *panels, columns=3)


CLAIM = Claim(
    id="around-12-deciding-by-attention",
    title="Deciding by attention has no mismatch error; exact regret",
    statement=(
        "[Attention on the costs of all actions decides like the true law: with n tokens of the "
        f"right class its regret falls as {RATE:g}/n](vanishes, right).",
        "[A normal forecast with the right mean and variance keeps a regret of "
        f"{NORMAL_REGRET:g}, and a mean forecast {MEAN_REGRET:g}](keeps).",
        f"[Attention is better "
        f"than the normal forecast from {PASSING_TOKENS} right tokens on](passes, below).",
        "With newsvendor costs the decision is a weighted quantile, and [its regret at every length "
        "and inverse temperature is a finite sum](sum-10-0, sum-10-1, sum-10-2, sum-10-3, sum-10-5, "
        "sum-30-0, sum-30-1, sum-30-2, sum-30-3, sum-30-5).",
        "[The best inverse temperature is finite](finite-10, finite-30) and depends on the class: "
        f"[{BEST_INVERSE_TEMPERATURES[0]:g} for class 1 and {BEST_INVERSE_TEMPERATURES[1]:g} for class 2 at L = 30](best).",
        f"[With the best of the other, class 1 loses {LOST_BY_OTHER[0]:g} and class 2 loses "
        f"{LOST_BY_OTHER[1]:g} on sampled contexts](class).",
        "[With squared costs the regret is the error of softmax attention](squared).",
    ),
    headline="best",
    provenance=Provenance(
        "sharpened",
        ("decisions/errors", "decisions/attention"),
        "the model, the exact regret at finite length and inverse temperature, the mismatch as numbers",
    ),
    hypotheses=(
        "newsvendor costs 9 and 1 per unit, three equally likely classes with uniform outcomes of "
        "width 1, keys that say the class; nothing is trained"
    ),
    routes=(
        "closed sums of binomial probabilities",
        "attention_decision on sampled contexts",
    ),
    rests_on=("exch-08-softmax-curve",),
    check=check,
    snippet="""\
import numpy as np
import attnscope as at
mu, rng = np.array([0.0, 0.7, 1.6]), np.random.default_rng(0)
print('exact', at.decision_regret(30, 9.0, 1.0, mu, inverse_bandwidth=3.0).value)
kind = rng.integers(3, size=(20_000, 30))
demand = mu[kind] + rng.random(kind.shape)
a = at.attention_decision(3 * np.eye(3)[:, None], np.eye(3)[kind], demand, (9.0, 1.0), bandwidth=1.0).action
z = np.clip(a - mu[:, None], 0, 1)
out = np.maximum(mu[:, None] - a, 0), np.maximum(a - mu[:, None] - 1, 0)
cost = 9 * (out[0] + (1 - z)**2 / 2) + out[1] + z**2 / 2
print('sampled', cost.mean(axis=1) - 0.45)
""",
)
