"""Where single-location regression sits: finitely but not infinitely exchangeable, and its Bayes
predictor is softmax attention.

notation: J uniform on L places, X_J ~ N(sqrt(d/2) k*, I), other tokens N(0, I), y = X_J.v*, v*
orthogonal to k*; marks m_l = [l = J]; w = P(J = . | X).

Not extendable. The tokens are exchangeable, but the marks have covariance -1/L^2, while every
infinite exchangeable sequence has covariances >= 0. Among n tokens of a longer exchangeable
sequence with the same pair law the number of marks would have variance n (L - n)/L^2: 0 at n = L,
negative at n = L + 1, so not even one token can be added.

Attention. w = softmax_l(sqrt(d/2) k*.x_l) for unit variance, so E[y | X] = sum_l w_l x_l.v* is
softmax attention over the location posterior, and its excess risk is 1 - E w_J, which INCREASES
with L: a longer input is a harder search, opposite to the latent models where more tokens are more
data.

Routes: closed forms and the exact integrals of the single-location task, against sampled places,
sampled attention, and locations listed one by one.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import (
    BAND,
    STANDARD_ERRORS,
    Z,
    exact_count,
    mean_and_error,
    sampled,
    stated,
    worst,
)
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Points
from attnscope.predictors.operators.context_attention import softmax_attention
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope_claims.drawing import figure, panel

DIM = 16
LENGTHS = (2, 4, 8, 16, 32, 64)
# What the statement says: the excess risk at the shortest and at the longest of LENGTHS.
EXCESS = (0.034, 0.442)
MORE_AT_TWO = 8  # times as many sequences at L = 2, where errors are rare


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 18])
    n = context.pick(20_000, 200_000)
    draw = lambda: int(rng.integers(2**31))
    rows = [
        _attention(
            SingleLocation(DIM, L, gamma=1.0, seed=draw()),
            context.pick(6000, 60_000) * (MORE_AT_TWO if L == 2 else 1),
            draw(),
        )
        for L in LENGTHS
    ]
    excess = np.array([r[0] for r in rows]).T
    mass = np.array([r[1] for r in rows]).T
    gaps = [r[2] for r in rows]
    exact = np.array([SingleLocation(DIM, L, gamma=1.0).bayes_risk().excess for L in LENGTHS])
    location = np.array(
        [SingleLocation(DIM, L, gamma=1.0).location_error().value for L in LENGTHS]
    )
    drawn = [_sampled_marks(L, n, draw()) for L in LENGTHS]
    marks = np.array([covariance for covariance, _ in drawn]).T
    shares = [share for _, share in drawn]
    comparisons = (
        worst(
            "covariance of two marks: -1/L^2",
            [-1 / L**2 for L in LENGTHS],
            marks[0],
            Z * marks[1] + 1e-14,
            "5 standard errors (6e-7 an entry); at L = 2 the product is constant: roundoff, 1e-14",
            key="covariance",
        ),
        worst(
            "frequency of every location times L",
            1.0,
            np.concatenate([L * share for L, share in zip(LENGTHS, shares)]),
            np.concatenate([np.full(L, Z * np.sqrt((L - 1) / n)) for L in LENGTHS]),
            STANDARD_ERRORS,
            key="exchangeable",
        ),
        worst(
            "least eigenvalue of the covariance of L + 1 marks: -1/L^2",
            [-1 / L**2 for L in LENGTHS],
            [_least_eigenvalue(L, _exact_covariance(L)) for L in LENGTHS],
            1e-13,
            "roundoff of symmetric matrices of 65 rows or fewer, entries below 1",
            routes=("closed form", "eigenvalues, covariance by listing the locations"),
            key="extension",
        ),
        worst(
            "softmax attention minus Bayes predictor",
            0.0,
            max(gaps),
            1e-12,
            "roundoff of scores of size 20",
            key="attention",
            scale=1.0,
        ),
        worst(
            "exact Bayes excess = 1 - E w_J",
            location,
            exact,
            1e-9 * location,
            "two different integrals, each to 1e-10 of itself",
            key="location",
        ),
        sampled("excess risk of softmax attention", exact, *excess, key="excess"),
        sampled("1 - w_J of softmax attention", exact, *mass, key="mass"),
        stated(
            "stated",
            "exact Bayes excess at L = 2 and 64, as stated",
            EXCESS,
            exact[[0, -1]],
            1e-3,
        ),
        exact_count(
            "lengths at which the excess risk grew",
            len(LENGTHS) - 1,
            (np.diff(excess[0]) > 0).sum(),
            key="increases",
        ),
    )
    notes = (
        f"More tokens make it harder. Adding one token to L = 8 would need a variance "
        f"of {9 * (8 - 9) / 64:.3f} for the number of marks."
    )
    return Evidence(comparisons, _figure(exact, excess, marks), notes)


def _attention(
    task: SingleLocation, n: int, seed: int
) -> tuple[tuple[float, float], tuple[float, float], float]:
    """Sampled excess risk and 1 - w_J of softmax attention with query sqrt(d/2) k*,
    and its largest difference to bayes_predict.
    """
    batch = task.sample(n, seed)
    values = np.concatenate(
        [
            (batch.tokens @ task.value)[..., None],
            (np.arange(task.length) == batch.location[:, None])[..., None],
        ],
        axis=2,
    )
    out = softmax_attention(
        task.signal * task.key, batch.tokens, values, bandwidth=1.0
    )  # (n, 2): prediction, weight of the true place
    gap = float(np.abs(out[:, 0] - task.bayes_predict(batch.tokens)).max())
    return mean_and_error((out[:, 0] - batch.target) ** 2), mean_and_error(1 - out[:, 1]), gap


def _sampled_marks(L: int, n: int, seed: int) -> tuple[tuple[float, float], np.ndarray]:
    """Covariance of the marks of the first two locations over sampled sequences, with its standard
    error, and the frequency of each location (d = 2: locations do not depend on it).
    """
    place = SingleLocation(2, L).sample(n, seed).location
    covariance = mean_and_error(((place == 0) - 1 / L) * ((place == 1) - 1 / L))
    return covariance, np.bincount(place, minlength=L) / n


def _exact_covariance(L: int) -> float:
    """Covariance of two marks, by listing the L locations."""
    marks = np.eye(L)
    return float(np.mean(marks[:, 0] * marks[:, 1]) - np.prod(marks[:, :2].mean(axis=0)))


def _least_eigenvalue(L: int, covariance: float) -> float:
    """Of the covariance matrix that L + 1 exchangeable marks with this pair law would have."""
    matrix = np.full((L + 1, L + 1), covariance)
    np.fill_diagonal(matrix, (1 - 1 / L) / L)
    return float(np.linalg.eigvalsh(matrix)[0])


def _figure(exact: np.ndarray, excess: np.ndarray, marks: np.ndarray) -> Figure:
    grid = np.arange(2, 65)

    return figure(
        "Single-location regression in this frame (lines exact, points sampled)",
        panel(
            "covariance of two marks, -1/L^2",
            "length L",
            "-covariance",
            Line(grid, 1 / grid**2.0, "exact", 0),
            Points(LENGTHS, -marks[0], "sampled", 1, BAND * marks[1]),
            log="xy",
        ),
        panel(
            "a longer input is harder: 1 - E w_J",
            "length L",
            "excess risk",
            Line(LENGTHS, exact, "exact", 0),
            Points(LENGTHS, excess[0], "sampled", 1, BAND * excess[1]),
            log="x",
            y_range=(0, 0.5),
        ),
    )


CLAIM = Claim(
    id="exch-18-single-location",
    title="Single-location regression: finitely exchangeable only",
    statement=(
        "[The tokens of single-location regression are exchangeable: the informative token is "
        "equally likely at every location](exchangeable).",
        "They are not part of any longer exchangeable sequence: [the indicators of two locations "
        "have covariance -1/L^2](covariance).",
        "[One more location would give their covariance "
        "matrix the eigenvalue -1/L^2](extension).",
        "[The Bayes predictor is softmax attention over the posterior of the location](attention).",
        "[Its excess risk is 1 - E w_J](location, excess, mass).",
        f"[The excess risk increases with L](increases), [from {EXCESS[0]:g} at L = 2 to "
        f"{EXCESS[1]:g} at L = 64](stated).",
    ),
    headline="covariance",
    provenance=Provenance(
        "new here",
        ("A/theorem-1", "B/exchangeable"),
        "finite exchangeability of the task",
    ),
    hypotheses=(
        "d = 16, gamma = 1, signal sqrt(d/2), key and value orthogonal, uniform location, "
        "L = 2 to 64"
    ),
    routes=(
        "closed forms and exact integrals",
        "sampled marks and attention",
    ),
    check=check,
    snippet=(
        "import numpy as np\n"
        "import attnscope as at\n"
        "for length in (2, 8, 32):\n"
        "    task = at.SingleLocation(dim=16, length=length, gamma=1.0)\n"
        "    b = task.sample(5000, seed=0)\n"
        "    out = at.softmax_attention(task.signal * task.key, b.tokens, (b.tokens @ "
        "task.value)[..., None], bandwidth=1.0)[:, 0]\n"
        "    print(length, task.bayes_risk().value, task.location_error().value, np.mean((out - "
        "b.target) ** 2))\n"
    ),
)
