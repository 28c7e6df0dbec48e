"""Softmax attention with one sink is the Gaussian posterior mean, at every length with the same
parameter.

notation: z ~ N(0, t2 I), x_l | z ~ N(z, s2 I); b = log(s2/t2) the sink's logit, its value 0.

    softmax attention with equal scores 0 and the sink:
        sum_l x_l/(L + e^b) = L t2/(s2 + L t2) mean(x) = E[z | x_1 .. x_L]

for L = 0, 1, 2, ...: the sink is the prior, worth s2/t2 tokens of value 0, and its logit does not
depend on L. Without it attention returns the mean of the tokens, whose risk is d s2/L instead of d
t2 s2/(s2 + L t2).

Routes: the softmax operator (streamed exponentials), against the task's posterior at all lengths
and against conditioning one dense Gaussian vector (z, x_1 .. x_L) up to L = 256; risks of both
kinds of attention sampled against closed forms.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import BAND, mean_and_error, sampled
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Panel, Points
from attnscope.predictors.operators.context_attention import softmax_attention
from attnscope.tasks.exchangeable.gaussian_location import GaussianLocation

DIM = 3
LENGTHS = (0, 1, 2, 3, 10, 100, 256, 1000, 10_000, 100_000)
VARIANCES = ((1.0, 0.25), (0.1, 2.0), (5.0, 1.0))  # (prior, noise)
RISK_LENGTHS = (1, 2, 4, 8, 16, 32, 64)
EXACT = 1e-12  # stated beforehand
SMALLEST = 1e-17  # where exact zeros are drawn
APART = (
    1.15  # lengths of neighbouring variances are drawn this far apart, so that all are seen
)


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 5])
    tasks = [GaussianLocation(DIM, t2, s2) for t2, s2 in VARIANCES]
    # (tasks, lengths)
    gaps = np.array([[_gap(task, L, rng) for L in LENGTHS] for task in tasks])
    dense = max(_dense_gap(task, L, rng) for task in tasks for L in LENGTHS if 0 < L <= 256)
    n = context.pick(20_000, 200_000)
    task = tasks[1]
    with_sink, without = (
        np.array([_risk(task, L, n, sink, int(rng.integers(2**31))) for L in RISK_LENGTHS]).T
        for sink in (np.log(task.noise_variance / task.prior_variance), None)
    )
    bayes = [task.bayes_risk(L).value for L in RISK_LENGTHS]
    plain = [DIM * task.noise_variance / L for L in RISK_LENGTHS]
    comparisons = (
        Comparison(
            "attention with sink minus posterior mean, L = 0 to 100000",
            0.0,
            float(gaps.max()),
            EXACT,
            why="roundoff: sums of 10^5 terms of order one round to 1e-13",
        ),
        Comparison(
            "attention with sink minus dense Gaussian conditioning",
            0.0,
            dense,
            EXACT,
            why="roundoff of systems of condition 1 + L t2/s2 up to 1300: 3e-13",
        ),
        sampled("risk with the sink: Bayes", bayes, *with_sink),
        sampled("risk without a sink: noise variance d/L", plain, *without),
    )
    notes = (
        "One sink logit log(noise variance/prior variance) serves every length: largest "
        f"difference {max(float(gaps.max()), dense):.0e}. "
        "With prior variance 0.1 and noise variance 2 attention without it has "
        f"{plain[0] / bayes[0]:.0f} times the Bayes risk at L = 1, "
        f"{plain[-1] / bayes[-1]:.1f} times at L = 64."
    )
    return Evidence(comparisons, _figure(gaps, bayes, plain, with_sink, without), notes)


def _attend(task: GaussianLocation, x: np.ndarray, sink: float | None) -> np.ndarray:
    """Equal scores: a zero query."""
    return softmax_attention(np.zeros(task.dim), x, x, 1.0, sink)


def _gap(task: GaussianLocation, L: int, rng: np.random.Generator) -> float:
    x = task.sample(2, L, int(rng.integers(2**31))).tokens
    return float(
        np.abs(
            _attend(task, x, np.log(task.noise_variance / task.prior_variance))
            - task.bayes_predict(x)
        ).max()
    )


def _dense_gap(task: GaussianLocation, L: int, rng: np.random.Generator) -> float:
    """Against Cov(z, x) Cov(x)^-1 x with the L x L covariance."""
    x = task.sample(1, L, int(rng.integers(2**31))).tokens[0]
    covariance = task.noise_variance * np.eye(L) + task.prior_variance
    mean = task.prior_variance * np.ones(L) @ np.linalg.solve(covariance, x)
    return float(
        np.abs(
            _attend(task, x, np.log(task.noise_variance / task.prior_variance)) - mean
        ).max()
    )


def _risk(
    task: GaussianLocation, L: int, n: int, sink: float | None, seed: int
) -> tuple[float, float]:
    batch = task.sample(n, L, seed)
    return mean_and_error(
        np.sum((_attend(task, batch.tokens, sink) - batch.latent) ** 2, axis=1)
    )


def _figure(
    gaps: np.ndarray,
    bayes: list[float],
    plain: list[float],
    with_sink: np.ndarray,
    without: np.ndarray,
) -> Figure:
    differences = [
        Points(
            np.array(LENGTHS[1:]) * APART ** (i - 1),
            np.maximum(row[1:], SMALLEST),
            f"prior {t2:g}, noise {s2:g}",
            i + 2,
        )
        for i, (row, (t2, s2)) in enumerate(zip(gaps, VARIANCES))
    ]
    risks = (
        Line(RISK_LENGTHS, bayes, "with sink", 0),
        Points(RISK_LENGTHS, with_sink[0], "", 0, BAND * with_sink[1]),
        Line(RISK_LENGTHS, plain, "without", 1),
        Points(RISK_LENGTHS, without[0], "", 1, BAND * without[1]),
        Points([], [], "sampled", 6),
    )
    panels = (
        Panel(
            "attention with sink - posterior mean",
            "length L",
            f"largest difference ({SMALLEST:g}: 0)",
            (*differences, Line([1, 1e5], [EXACT, EXACT], "tolerance", 6, dashed=True)),
            log_x=True,
            log_y=True,
        ),
        Panel(
            "risk, prior variance 0.1, noise variance 2",
            "length L",
            "squared error",
            risks,
            log_x=True,
            log_y=True,
        ),
    )
    return Figure("A sink is the prior (lines exact, points measured)", panels, columns=2)


CLAIM = Claim(
    id="exch-05-sink-is-posterior-mean",
    title="Attention with a sink is the Gaussian posterior mean",
    statement=(
        "Softmax attention with equal scores and one sink of logit log(noise variance/prior "
        "variance) and value 0 is the posterior mean of a "
        "Gaussian location at every length, with the same parameter: the sink is the prior."
    ),
    provenance=Provenance(
        "new here",
        ("B/inference",),
        "an exact instance with a parameter that does not depend on the length",
    ),
    hypotheses="Gaussian location, d = 3, L = 0 to 100000, three pairs of variances",
    routes=(
        "posterior of the task; dense Gaussian conditioning; closed-form risks",
        "softmax operator with a sink",
    ),
    check=check,
    snippet=(
        "import numpy as np\n"
        "import attnscope as at\n"
        "task = at.GaussianLocation(dim=3, prior_variance=1.0, noise_variance=0.25)\n"
        "for length in (0, 1, 10, 1000):\n"
        "    x = task.sample(1, length, seed=0).tokens[0]\n"
        "    print(length, np.abs(at.softmax_attention(np.zeros(3), x, x, sink=np.log(0.25)) - "
        "task.bayes_predict(x)).max())\n"
    ),
)
