"""One head's Rademacher complexity does not grow with the length of its input.

Tokens +-1, scores q x with |q| <= 1.5, value weight |v| <= 1 (head_complexity.py). Predicted: the
limit of many sequences, a closed form at the two ends of q plus what q inside add, which is drawn
(for L = 1 and 2 nothing, for L = 3 a quadrature). Measured: drawn tokens and signs, n = 400
sequences, the supremum over q on a grid.

n sequences instead of the limit change the mean by about 1/(4n) of itself; 1/n is allowed. Both
routes take the supremum on 121 values of q, which is 3e-5 low; 1e-4 is allowed where a quadrature
on 2420 is compared.

False alarm: 5 standard errors, 6e-7 for each of 18 entries.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import Z, exact_count, mean_and_error, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line
from attnscope_claims.around import head_complexity as head
from attnscope_claims.drawing import figure, legend, level, panel, sampled_points
from attnscope_claims.sphere_errors import spread_slope

LARGEST_QUERY = 1.5  # |q|
LENGTHS = np.array([1, 2, 4, 8, 16, 64, 256, 1024])
SEQUENCES = 400
FAR_LENGTH = 4096  # and four times as long: where the approach to the limit is read off
SAMPLED_WHY = (
    "5 standard errors of both routes (6e-7 an entry) + 1/n: n = 400 instead of the limit"
)
CLOSED_WHY = "roundoff of sums of binomial probabilities"
QUERIES = (1.0, 1.5, 3.0)
# What the statement says: the length of the largest complexity; sqrt(n) times the complexity of one
# head with |q| <= 1.5 at length 1, at length 2 and in the limit; its growth with the length; the power
# of 1/L with which the limit is approached; and the slope of sum pooling in L.
LARGEST_AT = 2
COMPLEXITY = (0.798, 1.075, 0.722)
APPROACH_POWER = 0.5
POOLING_SLOPE = 0.5
EXACT_DIGITS = "half a printed digit; sums of binomial probabilities are exact"


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 714])
    draws = context.pick(40_000, 400_000)
    ends = np.array([head.at_the_ends(int(L), LARGEST_QUERY) for L in LENGTHS])
    more, spread = np.array([_inside_gain(int(L), draws, rng) for L in LENGTHS]).T
    exact = ends + more
    heads, sums = zip(*(_suprema(int(L), draws, rng) for L in LENGTHS))
    mean, error = np.array(heads).T
    pooled_mean, pooled_error = np.array(sums).T
    growing = np.sqrt(2 * LENGTHS / np.pi)
    slope, slope_error = spread_slope(LENGTHS, pooled_mean, pooled_error)
    longer = LENGTHS >= LARGEST_AT
    comparisons = (
        worst(
            "complexity at length 1 and 2 and in the limit, as stated",
            COMPLEXITY,
            (
                head.at_the_ends(1, LARGEST_QUERY),
                head.at_the_ends(2, LARGEST_QUERY),
                head.at_the_ends(10**8, LARGEST_QUERY),
            ),
            (5e-4, 5e-4, 5e-4),
            EXACT_DIGITS,
            key="stated",
        ),
        exact_count(
            "lengths at which the complexity falls, from 2 on",
            int(longer.sum()) - 1,
            np.sum(np.diff(exact[longer]) < 0),
            key="falls",
        ),
        exact_count(
            "length of the largest sampled complexity, as stated",
            LARGEST_AT,
            LENGTHS[np.argmax(mean)],
            key="largest",
        ),
        worst(
            "power of 1/L with which the limit is approached, as stated",
            APPROACH_POWER,
            _power_of_approach(),
            0.01,
            "O(1/sqrt(L)) at L = 4096 and four times as long, with a coefficient below 0.6",
            key="power",
        ),
        worst(
            "sum pooling: slope in L, as stated",
            POOLING_SLOPE,
            slope,
            Z * slope_error,
            "5 standard errors over draws (6e-7 of the seeds); 1/n is the same at every length",
            key="pooling",
        ),
        worst(
            "sampled complexity against the ends of the scores",
            ends,
            mean,
            Z * error + 1 / SEQUENCES,
            SAMPLED_WHY,
            rule="at least",
            key="bound",
        ),
        *(
            worst(
                f"complexity, L = {L}",
                exact[i],
                mean[i],
                Z * np.hypot(error[i], spread[i]) + 1 / SEQUENCES,
                SAMPLED_WHY,
                key=f"length-{L}",
            )
            for i, L in enumerate(LENGTHS)
        ),
        *_closed_forms(),
        _approach(),
        worst(
            "sum pooling: complexity by L",
            growing,
            pooled_mean,
            Z * pooled_error + growing / SEQUENCES,
            "5 standard errors over draws (6e-7 an entry) + 1/n: n = 400 instead of the limit",
            key="pooling-sizes",
        ),
    )
    notes = (
        "It rises once, from L = 1 to 2, and then falls to tanh(Q) sqrt(2/pi) = "
        f"{head.limit(LARGEST_QUERY):.5f}: a long context averages the dependence on the data away. "
        "Of the closed form at the ends, q inside add at most "
        f"{100 * float((more / ends).max()):.1f} %."
    )
    return Evidence(comparisons, _figure(exact, ends, heads, sums), notes)


def _inside_gain(L: int, draws: int, rng: np.random.Generator) -> tuple[float, float]:
    """What q inside the ends add, and its standard error."""
    return head.inside(L, LARGEST_QUERY, draws, rng)


def _suprema(
    L: int, draws: int, rng: np.random.Generator
) -> tuple[tuple[float, float], tuple[float, float]]:
    """sqrt(n) times the sampled complexity of one head and of sum pooling, with standard errors."""
    one, pooled = head.sampled_suprema(L, LARGEST_QUERY, SEQUENCES, draws, rng)
    return mean_and_error(one), mean_and_error(pooled)


def _closed_forms() -> tuple[Comparison, ...]:
    """Where no q inside is ever best, at several Q."""
    t = np.tanh(QUERIES)
    known = {1: np.full(3, np.sqrt(2 / np.pi)), 2: (1 + t) / np.sqrt(np.pi)}
    return tuple(
        worst(
            f"closed form, L = {L}",
            known[L],
            [head.at_the_ends(L, Q) for Q in QUERIES],
            1e-12,
            CLOSED_WHY,
            key=f"closed-{L}",
        )
        for L in known
    )


def _approach() -> Comparison:
    """sqrt(L) (complexity at the ends - limit), the order 1/sqrt(L) of what is left removed."""
    near, far = (
        L**0.5 * (head.at_the_ends(L, LARGEST_QUERY) - head.limit(LARGEST_QUERY))
        for L in (FAR_LENGTH, 4 * FAR_LENGTH)
    )
    return worst(
        "approach to the limit, times sqrt(L)",
        head.near_limit(LARGEST_QUERY),
        2 * far - near,
        1 / FAR_LENGTH,
        "the remainder in 1/L at L = 4096, after 1/sqrt(L) is removed",
        key="approach",
        routes=("expansion in 1/sqrt(L)", "closed form at L = 4096 and 16384"),
    )


def _power_of_approach() -> float:
    """Of 1/L, from the closed form at the ends at L = 4096 and 16384."""
    near, far = (
        head.at_the_ends(L, LARGEST_QUERY) - head.limit(LARGEST_QUERY)
        for L in (FAR_LENGTH, 4 * FAR_LENGTH)
    )
    return float(np.log(near / far) / np.log(4))


def _figure(exact: np.ndarray, ends: np.ndarray, heads: Any, sums: Any) -> Figure:
    last = [float(LENGTHS[0]), float(LENGTHS[-1])]
    label = "sqrt(n) times complexity"
    return figure(
        "Complexity against length",
        panel(
            "one head, |q| <= 1.5",
            "length L",
            label,
            Line(LENGTHS, exact, "one head", 0),
            Line(LENGTHS, ends, "ends of q alone", 2, dashed=True),
            level(last, head.limit(LARGEST_QUERY), "limit", 3),
            sampled_points(LENGTHS, heads, "sampled", 6),
            log="x",
        ),
        panel(
            "sum pooling",
            "length L",
            label,
            Line(LENGTHS, np.sqrt(2 * LENGTHS / np.pi), "sum pooling", 1),
            sampled_points(LENGTHS, sums, "", 1),
            legend("sampled"),
            log="xy",
        ),
    )


CLAIM = Claim(
    id="around-14-complexity-and-length",
    title="One head's Rademacher complexity does not grow with length",
    statement=(
        "[The Rademacher complexity of one softmax head with scores |q| <= Q on tokens +-1, times "
        "sqrt(n), is sqrt(2/pi) at length 1](closed-1, length-1).",
        "[At length 2 it is (1 + tanh Q)/sqrt(pi)](closed-2, length-2).",
        f"[It is largest at length {LARGEST_AT}](largest) and [falls from there on](falls).",
        "[It approaches tanh(Q) sqrt(2/pi)](approach) [as 1/L to the power "
        f"{APPROACH_POWER:g}](power).",
        f"[For Q = 1.5 the three values are {COMPLEXITY[0]:g}, {COMPLEXITY[1]:g} and, in the "
        f"limit, {COMPLEXITY[2]:g}](stated).",
        f"[Sum pooling grows as L to the power {POOLING_SLOPE:g}](pooling, pooling-sizes).",
        "[The two ends of the scores alone give a lower bound in closed form at every "
        "length](bound).",
    ),
    headline="largest",
    provenance=Provenance(
        "sharpened",
        ("lengths/independent",),
        "the complexity itself, in place of a bound on it",
    ),
    hypotheses=(
        "tokens +-1, equally likely and independent; one head with scores q x, |q| <= 1.5, and "
        "|v| <= 1; the limit of many sequences"
    ),
    routes=(
        "normal limit: closed form at the ends, drawn inside",
        "drawn tokens and signs, n = 400",
    ),
    check=check,
    snippet="""\
import numpy as np
from attnscope_claims.around import head_complexity as head
rng = np.random.default_rng(0)
for L in (1, 2, 8, 64, 1024):
    exact = head.at_the_ends(L, 1.5) + head.inside(L, 1.5, 20_000, rng)[0]
    print(L, exact, head.sampled_suprema(L, 1.5, 400, 5_000, rng)[0].mean())
print('limit', head.limit(1.5))
""",
)
