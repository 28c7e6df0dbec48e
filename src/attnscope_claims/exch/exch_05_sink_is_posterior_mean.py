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

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import STANDARD_ERRORS, Z, mean_and_error, worst
from attnscope.claims.provenance import Provenance
from attnscope.claims.series import Series
from attnscope.figures.figure import Figure
from attnscope.predictors.operators.context_attention import softmax_attention
from attnscope.tasks.exchangeable.gaussian_location import GaussianLocation
from attnscope_claims.drawing import figure, legend, panel

DIM = 3
LENGTHS = (0, 1, 2, 3, 10, 100, 256, 1000, 10_000, 100_000)
VARIANCES = ((1.0, 0.25), (0.1, 2.0), (5.0, 1.0))  # (prior, noise)
RISK_LENGTHS = (1, 2, 4, 8, 16, 32, 64)
ROUNDING_TOLERANCE = 1e-12  # stated beforehand
# What the statement says: risk without the sink over the Bayes risk, by length, at prior variance 0.1
# and noise variance 2.
RATIO_WITHOUT_SINK = {1: 21.0, 64: 1.31}


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
        for sink in (_sink(task), None)
    )
    bayes = Series(
        "sink",
        "risk with the sink: Bayes",
        RISK_LENGTHS,
        [task.bayes_risk(L).value for L in RISK_LENGTHS],
        with_sink[0],
        error=with_sink[1],
    )
    plain = Series(
        "plain",
        "risk without a sink: noise variance d/L",
        RISK_LENGTHS,
        [_risk_of_mean(task, L) for L in RISK_LENGTHS],
        without[0],
        error=without[1],
    )
    comparisons = (
        worst(
            "attention with sink minus posterior mean, L = 0 to 100000",
            0.0,
            gaps.max(),
            ROUNDING_TOLERANCE,
            "roundoff: sums of 10^5 terms of order one round to 1e-13",
            key="posterior",
            scale=1.0,
        ),
        worst(
            "attention with sink minus dense Gaussian conditioning",
            0.0,
            dense,
            ROUNDING_TOLERANCE,
            "roundoff of systems of condition 1 + L t2/s2 up to 1300: 3e-13",
            key="dense",
            scale=1.0,
        ),
        bayes,
        plain,
        _as_stated(plain, bayes),
    )
    notes = "One sink logit log(noise variance/prior variance) serves every length."
    return Evidence(comparisons, _figure(bayes, plain), notes)


def _sink(task: GaussianLocation) -> float:
    """The logit of the sink; no length enters."""
    return float(np.log(task.noise_variance / task.prior_variance))


def _risk_of_mean(task: GaussianLocation, L: int) -> float:
    """Risk of the mean of the tokens."""
    return DIM * task.noise_variance / L


def _as_stated(plain: Series, bayes: Series) -> Series:
    """Sampled risk without the sink over sampled risk with it."""
    assert plain.error is not None and bayes.error is not None
    at = [RISK_LENGTHS.index(L) for L in RATIO_WITHOUT_SINK]
    ratio = plain.measured[at] / bayes.measured[at]
    spread = np.hypot(
        plain.error[at] / plain.measured[at], bayes.error[at] / bayes.measured[at]
    )
    return Series(
        "without",
        "risk without the sink over risk with it, as stated",
        list(RATIO_WITHOUT_SINK),
        list(RATIO_WITHOUT_SINK.values()),
        ratio,
        Z * spread * ratio + 5e-3,
        why=f"{STANDARD_ERRORS}; half a printed digit",
    )


def _attend(task: GaussianLocation, x: np.ndarray, sink: float | None) -> np.ndarray:
    """Equal scores: a zero query."""
    return softmax_attention(np.zeros(task.dim), x, x, 1.0, sink)


def _gap(task: GaussianLocation, L: int, rng: np.random.Generator) -> float:
    x = task.sample(2, L, int(rng.integers(2**31))).tokens
    return float(np.abs(_attend(task, x, _sink(task)) - task.bayes_predict(x)).max())


def _dense_gap(task: GaussianLocation, L: int, rng: np.random.Generator) -> float:
    """Against Cov(z, x) Cov(x)^-1 x with the L x L covariance."""
    x = task.sample(1, L, int(rng.integers(2**31))).tokens[0]
    covariance = task.noise_variance * np.eye(L) + task.prior_variance
    mean = task.prior_variance * np.ones(L) @ np.linalg.solve(covariance, x)
    return float(np.abs(_attend(task, x, _sink(task)) - mean).max())


def _risk(
    task: GaussianLocation, L: int, n: int, sink: float | None, seed: int
) -> tuple[float, float]:
    batch = task.sample(n, L, seed)
    return mean_and_error(
        np.sum((_attend(task, batch.tokens, sink) - batch.latent) ** 2, axis=1)
    )


def _figure(bayes: Series, plain: Series) -> Figure:
    risks = (
        *bayes.marks("with sink", 0, named=False),
        *plain.marks("without", 1, named=False),
        legend("sampled"),
    )

    return figure(
        "A sink is the prior (lines exact, points measured)",
        panel(
            "risk, prior variance 0.1, noise variance 2",
            "length L",
            "squared error",
            *risks,
            log="xy",
        ),
    )


CLAIM = Claim(
    id="exch-05-sink-is-posterior-mean",
    title="Attention with a sink is the Gaussian posterior mean",
    statement=(
        "[Softmax attention with equal scores and one sink of logit log(noise variance/prior "
        "variance) and value 0 is the posterior mean of a Gaussian location](dense).",
        "[The same logit serves every length from 0 to 100000](posterior).",
        "So the sink is the prior: [with it the risk is the Bayes risk](sink), [without it the noise "
        "variance times d/L](plain).",
        "[With noise variance 2 and prior variance 0.1 attention without the sink has "
        f"{RATIO_WITHOUT_SINK[1]:g} times the Bayes risk at L = 1 and {RATIO_WITHOUT_SINK[64]:g} times at L = 64]"
        "(without).",
    ),
    headline="without",
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
