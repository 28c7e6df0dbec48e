"""A discrete latent is found exponentially fast, at the Chernoff rate and with its square-root
prefactor.

notation: e_L = 1 - E P(z | x_1 .. x_L) the expected posterior mass on wrong topics; C, s, v rate,
tilt and variance (theory.exchangeable.chernoff).

    e_L = a e^{-LC}/sqrt(L) (1 + O(1/L)),   a = 2 pi_i^s pi_j^{1-s} (pi/sin pi s)/sqrt(2 pi v)

Exponential, not polynomial in L: softmax or CME regression of a continuous latent has errors like
1/L at best.

Routes: sums over counts (720,000 of them at L = 1200) against a Fourier integral that is exact at
every L and against sampled posteriors. The rate is the slope of log(sqrt(L) e_L) over doublings of
L from the sums over counts, with one Richardson step: what is left is O(1/L^3), below 1e-5 at L =
300 for coefficients up to 300, so 0.2 % of rates above 0.02 (4e-5) is allowed. The constant a is
compared with the integral at L = 10^6, where the 1/L term with a coefficient below 100 is less than
1e-4.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence, Table
from attnscope.claims.compare import BAND, mean_and_error, sampled, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Mark, Panel, Points
from attnscope.tasks.exchangeable.topics import Topics
from attnscope.theory.exchangeable.chernoff import (
    asymptotic_topic_error,
    chernoff,
    two_topic_error,
)

SETS = 3
FAR = 10**6
LENGTHS = (4, 8, 16, 32, 64, 150, 300, 600, 1200)
SHOWN = 6  # lengths in the left panel: up to 150
SAMPLED = (4, 8, 16)  # longer, wrong topics are so rare that sample means are skewed
# range of rates: e_1200 neither underflows its law's accuracy nor is still large
EASIEST = 0.1
HARDEST = 0.02


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 12])
    tasks = [_random_topics(rng) for _ in range(SETS)]
    exact = np.array(
        [[task.topic_error(L).log_excess for L in LENGTHS] for task in tasks]
    )  # (sets, lengths), logarithms
    fourier = np.array(
        [[two_topic_error(task, L).log_excess for L in LENGTHS] for task in tasks]
    )
    law = np.array(
        [[asymptotic_topic_error(task, L).log_excess for L in LENGTHS] for task in tasks]
    )
    far = np.array(
        [
            two_topic_error(task, FAR).log_excess
            - asymptotic_topic_error(task, FAR).log_excess
            for task in tasks
        ]
    )
    n = context.pick(20_000, 200_000)
    drawn = np.array(
        [
            [
                mean_and_error(_wrong_mass(task, L, n, int(rng.integers(2**31))))
                for L in SAMPLED
            ]
            for task in tasks
        ]
    )
    rates = _rates(exact)
    predicted = np.array([chernoff(task).rate for task in tasks])
    comparisons = (
        worst(
            "log of the wrong mass: integral against counts",
            fourier,
            exact,
            1e-10,
            "roundoff: of log L! at L = 1200 it is 1e-12",
        ),
        worst(
            "rate of decay, from counts: Chernoff",
            predicted,
            rates,
            2e-3 * predicted,
            "Richardson leaves O(1/L^3) < 1e-5 at L = 300; 0.2 % of rates above 0.02 is 4e-5",
        ),
        worst(
            "exact/law at L = 10^6: the constant",
            1.0,
            np.exp(far),
            1e-4,
            "remainder O(1/L) at L = 10^6, with a coefficient below 100",
        ),
        sampled(
            "posterior mass on wrong topics, sampled",
            np.exp(fourier[:, : len(SAMPLED)]),
            drawn[..., 0],
            drawn[..., 1],
        ),
    )
    # j: the longest
    ratio = np.exp(exact - law)
    j = -1
    notes = (
        f"At L = 1200 the wrong topics keep a mass of {np.exp(exact[:, j].min()):.0e} to "
        f"{np.exp(exact[:, j].max()):.0e}."
    )
    rows = tuple(
        (f"pair {i + 1}", *row) for i, row in enumerate(zip(predicted, rates, ratio[:, j]))
    )
    columns = ("topics", "Chernoff information", "measured rate", "exact over law, L = 1200")
    table = Table("Decay of the mass on wrong topics", columns, rows, digits=4)
    return Evidence(comparisons, _figure(exact, law, drawn, ratio), notes, tables=(table,))


def _rates(logs: np.ndarray) -> np.ndarray:
    """Slopes between 300, 600 and 1200, corrected for the square root and extrapolated by (4 r_600
    - r_300)/3.
    """
    first, second, third = (logs[:, LENGTHS.index(L)] for L in (300, 600, 1200))
    r300 = (first - second - np.log(2) / 2) / 300
    r600 = (second - third - np.log(2) / 2) / 600
    return (4 * r600 - r300) / 3


def _random_topics(rng: np.random.Generator) -> Topics:
    """Two topics over three symbols with a rate in the range that can be measured."""
    while True:
        task = Topics(rng.dirichlet([5.0, 5.0]), rng.dirichlet(np.full(3, 3.0), size=2))
        if HARDEST < chernoff(task).rate < EASIEST:
            return task


def _wrong_mass(task: Topics, L: int, n: int, seed: int) -> np.ndarray:
    batch = task.sample(n, L, seed)
    return 1 - task.posterior(batch.tokens)[np.arange(n), batch.latent]


def _figure(
    exact: np.ndarray, law: np.ndarray, drawn: np.ndarray, ratio: np.ndarray
) -> Figure:
    decay: list[Mark] = []
    towards: list[Mark] = []
    for i in range(len(exact)):
        decay += [
            Line(
                LENGTHS[:SHOWN],
                np.exp(law[i, :SHOWN]),
                "",
                i,
                dashed=True,
            ),
            Line(LENGTHS[:SHOWN], np.exp(exact[i, :SHOWN]), f"topics {i + 1}", i),
            Points(SAMPLED, drawn[i, :, 0], "", i, BAND * drawn[i, :, 1]),
        ]
        towards.append(Points(LENGTHS, ratio[i], f"topics {i + 1}", i))
    decay += [Line([], [], "law", 6, dashed=True), Points([], [], "sampled", 6)]
    panels = (
        Panel(
            "exact decay, and its law",
            "length L",
            "posterior mass on wrong topics",
            tuple(decay),
            log_y=True,
        ),
        Panel(
            "the law is approached",
            "length L",
            "exact / law",
            (*towards, Line([4, 1200], [1, 1], "law", 6, dashed=True)),
            log_x=True,
        ),
    )
    return Figure(
        "Finding a discrete latent: exponential in the number of tokens", panels, columns=2
    )


CLAIM = Claim(
    id="exch-12-chernoff",
    title="A discrete latent is found at the Chernoff rate",
    statement=(
        "With finitely many topics the expected posterior mass on wrong topics decays like exp(-L "
        "C)/sqrt(L), C the Chernoff information of the "
        "two topics hardest to tell apart, with an explicit constant: exponentially in the number "
        "of tokens, not polynomially."
    ),
    provenance=Provenance(
        "new here",
        ("B/inference",),
        "classical asymptotics of Bayesian testing, with the constant",
    ),
    hypotheses=(
        "two random topics over three symbols with rates between 0.02 and 0.1, L = 4 to 1200"
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
