"""A discrete latent is found exponentially fast, at the Chernoff rate and with its square-root
prefactor.

notation: e_L = 1 - E P(z | x_1 .. x_L) the expected posterior mass on wrong topics; C, s, v rate,
tilt and variance (theory.exchangeable.chernoff).

    e_L = a e^{-LC}/sqrt(L) (1 + O(1/L)),   a = 2 pi_i^s pi_j^{1-s} (pi/sin pi s)/sqrt(2 pi v)

Exponential, not polynomial in L: softmax or CME regression of a continuous latent has errors like
1/L at best.

Routes: sums over counts (720,000 of them at L = 1200), a Fourier integral that is exact at every L,
and sampled posteriors. The rate is the slope of log(sqrt(L) e_L) over doublings of
L from the sums over counts, with one Richardson step: what is left is O(1/L^3), below 1e-5 at L =
300 for coefficients up to 300, so 0.2 % of rates above 0.02 (4e-5) is allowed. The constant a is
compared with the integral at L = 10^6, where the 1/L term with a coefficient below 100 is less than
1e-4.

The square root and the exponential are read off the sums over counts without the law. With g(L) =
log e_L, [g(4L) - 3 g(2L) + 2 g(L)]/log 2 is the power of 1/L in front, up to O(1/L); the step from
L = 150 to 300 removes that order. The fall of g over a doubling of L doubles if e_L is exponential
in L and stays the same if it is a power of L. Three topics show which pair sets the rate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import mean_and_error, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark
from attnscope.tasks.exchangeable.topics import Topics
from attnscope.theory.exchangeable.chernoff import (
    asymptotic_topic_error,
    chernoff,
    two_topic_error,
)
from attnscope_claims.drawing import figure, legend, panel, sampled_points

SETS = 3
FAR_LENGTH = 10**6
LENGTHS = (4, 8, 16, 32, 64, 150, 300, 600, 1200)
SHOWN_COUNT = 6  # lengths in the left panel: up to 150
SAMPLED_LENGTHS = (4, 8, 16)  # longer, wrong topics are so rare that sample means are skewed
# range of rates: e_1200 neither underflows its law's accuracy nor is still large
LARGEST_RATE = 0.1
SMALLEST_RATE = 0.02
# What the statement says: the power of 1/L in front of the exponential, and the factor by which the
# fall of log e_L grows from one doubling of L to the next.
POWER = 0.5
GROWTH = 2.0
THREE_TOPIC_LENGTHS = (150, 300, 600)  # lengths of the rate with three topics
RATE_GAP = (
    0.05  # nats a token by which the second pair of three is easier: e^-7.5 of it is left
)


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 12])
    tasks = [_random_topics(rng) for _ in range(SETS)]
    exact = np.array([_log_masses(task, LENGTHS) for task in tasks])  # (sets, lengths)
    fourier = np.array(
        [[two_topic_error(task, L).log_excess for L in SAMPLED_LENGTHS] for task in tasks]
    )
    law = np.array(
        [[asymptotic_topic_error(task, L).log_excess for L in LENGTHS] for task in tasks]
    )
    far = np.array(
        [
            two_topic_error(task, FAR_LENGTH).log_excess
            - asymptotic_topic_error(task, FAR_LENGTH).log_excess
            for task in tasks
        ]
    )
    n = context.pick(20_000, 200_000)
    drawn = np.array(
        [
            [
                mean_and_error(_wrong_mass(task, L, n, int(rng.integers(2**31))))
                for L in SAMPLED_LENGTHS
            ]
            for task in tasks
        ]
    )
    rates = _rates(exact[:, -3:], LENGTHS[-3:])
    predicted = np.array([chernoff(task).rate for task in tasks])
    three = _three_topics(np.random.default_rng([context.seed, 12, 3]))
    fall = -np.diff(exact[:, -3:], axis=1)
    power = _powers(exact)
    comparisons = (
        worst(
            "rate of decay, from counts: Chernoff",
            predicted,
            rates,
            2e-3 * predicted,
            "Richardson leaves O(1/L^3) < 1e-5 at L = 300; 0.2 % of rates above 0.02 is 4e-5",
            key="rate",
        ),
        worst(
            "rate of decay of three topics: Chernoff, hardest pair",
            chernoff(three).rate,
            _rates(np.array([_log_masses(three, THREE_TOPIC_LENGTHS)]), THREE_TOPIC_LENGTHS)[
                0
            ],
            5e-3 * chernoff(three).rate,
            "Richardson leaves O(1/L^3) < 8e-5 at L = 150; 0.5 % of rates above 0.02 is 1e-4",
            key="pair",
        ),
        worst(
            "power of 1/L in front, from counts",
            POWER,
            power,
            0.05,
            "O(1/L^2) is left after a Richardson step: 0.03 at the slowest rate, 0.02",
            key="power",
            routes=("stated", "second differences of sums over counts"),
        ),
        worst(
            "fall of log e_L, 600 to 1200 over 300 to 600",
            GROWTH,
            fall[:, 1] / fall[:, 0],
            0.06,
            "the square root: 2 - log(2)/(600 C) = 1.94 at the slowest rate, 0.02",
            key="exponential",
            routes=("stated", "sums over counts"),
        ),
        worst(
            "exact/law at L = 10^6: the constant",
            1.0,
            np.exp(far),
            1e-4,
            "remainder O(1/L) at L = 10^6, with a coefficient below 100",
            key="constant",
        ),
        sampled(
            "posterior mass on wrong topics, sampled",
            np.exp(fourier),
            drawn,
            key="sampled",
        ),
    )
    notes = "Regression of a continuous latent has errors like 1/L at best: no exponential."
    return Evidence(comparisons, _figure(exact, law, drawn), notes)


def _log_masses(task: Topics, lengths: Sequence[int]) -> list[float]:
    """log e_L at each length, by sums over counts."""
    return [float(task.topic_error(L).log_excess) for L in lengths]


def _rates(logs: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """Slopes between three lengths, each twice the one before, corrected for the square root and
    extrapolated by (4 r_2 - r_1)/3.
    """
    first, second, third = logs.T
    r1 = (first - second - np.log(2) / 2) / lengths[0]
    r2 = (second - third - np.log(2) / 2) / lengths[1]
    return (4 * r2 - r1) / 3


def _powers(logs: np.ndarray) -> np.ndarray:
    """The power of 1/L in front of the exponential, from L = 150, 300, 600 and 1200."""
    g150, g300, g600, g1200 = logs[:, -4:].T
    near = (g600 - 3 * g300 + 2 * g150) / np.log(2)
    far = (g1200 - 3 * g600 + 2 * g300) / np.log(2)
    return 2 * far - near


def _random_topics(rng: np.random.Generator) -> Topics:
    """Two topics over three symbols with a rate in the range that can be measured."""
    while True:
        task = Topics(rng.dirichlet([5.0, 5.0]), rng.dirichlet(np.full(3, 3.0), size=2))
        if SMALLEST_RATE < chernoff(task).rate < LARGEST_RATE:
            return task


def _three_topics(rng: np.random.Generator) -> Topics:
    """Three topics whose hardest pair is slower than the others by RATE_GAP at least."""
    while True:
        task = Topics(rng.dirichlet([5.0] * 3), rng.dirichlet(np.full(3, 2.0), size=3))
        pairs = [Topics([0.5, 0.5], np.delete(task.emissions, i, axis=0)) for i in range(3)]
        first, second, _ = sorted(chernoff(pair).rate for pair in pairs)
        if SMALLEST_RATE < first < LARGEST_RATE and second > first + RATE_GAP:
            return task


def _wrong_mass(task: Topics, L: int, n: int, seed: int) -> np.ndarray:
    batch = task.sample(n, L, seed)
    return 1 - task.posterior(batch.tokens)[np.arange(n), batch.latent]


def _figure(exact: np.ndarray, law: np.ndarray, drawn: np.ndarray) -> Figure:
    decay: list[Mark] = []
    for i in range(len(exact)):
        decay += [
            Line(
                LENGTHS[:SHOWN_COUNT],
                np.exp(law[i, :SHOWN_COUNT]),
                "",
                i,
                dashed=True,
            ),
            Line(LENGTHS[:SHOWN_COUNT], np.exp(exact[i, :SHOWN_COUNT]), f"topics {i + 1}", i),
            sampled_points(SAMPLED_LENGTHS, drawn[i], "", i),
        ]
    decay += [Line([], [], "law", 6, dashed=True), legend("sampled")]

    return figure(
        "Finding a discrete latent: exponential in the number of tokens",
        panel(
            "exact decay, and its law",
            "length L",
            "posterior mass on wrong topics",
            *decay,
            log="y",
        ),
    )


CLAIM = Claim(
    id="exch-12-chernoff",
    title="A discrete latent is found at the Chernoff rate",
    statement=(
        "[The expected posterior mass on wrong topics decays as exp(-L C)](rate), [divided by "
        f"L^{POWER:g}](power).",
        "[C is the Chernoff information of the two topics that are hardest to distinguish](pair), "
        "and [the constant in front is explicit](constant).",
        "[The decay is exponential in the number of tokens, not polynomial: the fall of log e_L "
        f"grows {GROWTH:g}-fold with each doubling of L](exponential).",
        "[Sampled posteriors have the predicted mass on wrong topics](sampled).",
    ),
    headline="rate",
    provenance=Provenance(
        "new here",
        ("B/inference",),
        "classical asymptotics of Bayesian testing, with the constant",
    ),
    hypotheses=(
        "two random topics over three symbols with rates between 0.02 and 0.1, L = 4 to 1200; "
        "three topics, L = 150 to 600"
    ),
    routes=(
        "Chernoff law with prefactor; Fourier integral",
        "exact sums over counts; sampled posteriors",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.Topics([0.5, 0.5], [[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])\n"
        "print(at.chernoff(task))\n"
        "for length in (10, 100, 400):\n"
        "    print(length, task.topic_error(length).value / at.asymptotic_topic_error(task, "
        "length).value)\n"
    ),
)
