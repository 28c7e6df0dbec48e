"""The convergence theorem: from the manifold, projected gradient descent reaches (k*, v*) or (-k*,
-v*) if the step is small enough; and when.

notation: m = lam s/S, a = m kappa, S^2 = 1 + 2 lam^2 gam^2, q^2 = 1 + 4 lam^2 gam^2, alpha = step
size, f and g the pulls on k and v:

    f(kappa, nu) = -dR/dkappa = (4/sqrt(pi)) gam^2 m e^{-a^2} (nu - erf(a/q)),
        g(kappa) = -dR/dnu = 2 gam^2 erf(a)   on the manifold.

A step turns k by arctan(alpha f sin(angle)), so it never overshoots while alpha max(|f|, |g|) < 1;
|f| <= (8/sqrt(pi)) gam^2 m and |g| <= 2 gam^2 give an explicit "small enough". Sequences of 240
random settings are drawn within it. How long it takes is predicted too: the way out of the saddle
at growth b (rates.escape_time) and then at least the rate of the flattest point, the oracle, f(1,
1) or g(1). A run gets twice that and must then be within 1e-6 of kappa = nu = +-1. The rate f(1, 1)
   falls like e^{-2 m^2}: no number of steps one can afford suffices for
lam s > 3, although the theorem holds there. Steps beyond 2/max(f(1, 1), g(1)) break it: the oracle
then repels.

Routes: closed form (stability limit of the step) against the engine.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import Z, exact_count, worst
from attnscope.claims.provenance import Provenance
from attnscope.claims.series import Series
from attnscope.dynamics.rates import escape_time
from attnscope.dynamics.starts import starting_overlaps
from attnscope.dynamics.train import train
from attnscope.figures.figure import Figure
from attnscope.predictors.attention import Erf
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope_claims.drawing import figure, panel

TASK = SingleLocation(dim=400, length=10)
RUNS = 4  # starts per setting
# Stated: random settings; 1 - |kappa| and 1 - |nu| at the end; the steps a run gets, over those predicted.
SETTINGS = 240
END_DISTANCE = 1e-6
PATIENCE = 2
STEP_SHARE = (0.1, 0.9)  # of the step that is small enough, between these
STABLE_AT = (0.02, 0.05, 0.1, 0.2, 0.4)


class Pull(NamedTuple):
    """The two pulls on the manifold at one inverse temperature."""

    m: float
    q: float
    gam2: float

    @classmethod
    def of(cls, task: SingleLocation, lam: float) -> Pull:
        g2 = (lam * task.gamma) ** 2
        return cls(
            lam * task.signal / math.sqrt(1 + 2 * g2), math.sqrt(1 + 4 * g2), task.gamma**2
        )

    def on_key(self, kappa: float, nu: float = 1.0) -> float:
        a = self.m * kappa
        return (
            4
            / math.sqrt(math.pi)
            * self.gam2
            * self.m
            * math.exp(-a * a)
            * (nu - math.erf(a / self.q))
        )

    def on_value(self, kappa: float) -> float:
        return 2 * self.gam2 * math.erf(self.m * kappa)

    @property
    def small_step(self) -> float:
        return 1 / (2 * self.gam2 * max(1.0, 4 / math.sqrt(math.pi) * self.m))


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 6])
    settings = context.pick(SETTINGS, 2000)
    # +1, -1, or 0 where the run did not arrive
    ends = np.concatenate([_one_setting(rng, PATIENCE, STEP_SHARE) for _ in range(settings)])
    limit = np.array([_step_limit(lam) for lam in STABLE_AT])
    limits = Series(
        "step-limit",
        "largest stable step: 2/max(f, g)",
        STABLE_AT,
        limit,
        [_largest_step(lam) for lam in STABLE_AT],
        2e-3 * limit,
        why="2e-3 of the step: the bisection ends within a factor of 1.0004",
    )
    comparisons = (
        exact_count(
            f"runs that arrive at +-(k*, v*), of {len(ends)} in {settings} settings",
            len(ends),
            (ends != 0).sum(),
            key="arrive",
        ),
        worst(
            "share at +(k*, v*): by symmetry 1/2",
            0.5,
            np.mean(ends > 0),
            Z / 2 / math.sqrt(len(ends)),
            "5 standard errors of a fair coin; false alarm 6e-7",
            key="share",
        ),
        limits,
    )
    notes = (
        f"{int((ends > 0).sum())} runs at (k*, v*), {int((ends < 0).sum())} at (-k*, -v*)."
    )
    return Evidence(comparisons, _figure(limits), notes)


def _one_setting(
    rng: np.random.Generator, patience: float, share: tuple[float, float]
) -> np.ndarray:
    """Where RUNS runs of a random setting end: a step of that share of what is small enough, and
    `patience` times the predicted number of steps.
    """
    dim = int(np.exp(rng.uniform(np.log(4), np.log(2000))))
    length = int(rng.integers(1, 51))
    task = SingleLocation(dim, length, gamma=float(rng.uniform(0.3, 1.5)))
    lam = float(rng.uniform(0.2, 1.5)) / task.signal
    pull = Pull.of(task, lam)
    alpha = float(rng.uniform(*share)) * pull.small_step
    seed = int(rng.integers(2**31))
    start = Overlaps(*starting_overlaps(task, "manifold", RUNS, seed))
    slowest = min(pull.on_key(1), pull.on_value(1))
    arrive = math.log(math.pi / 2 / math.sqrt(2 * END_DISTANCE)) / (
        alpha * slowest
    )  # the angle falls from at most pi/2 to sqrt(2 END_DISTANCE)
    steps = math.ceil(
        patience * math.ceil(float(escape_time(task, Erf(lam), alpha, start).max()) + arrive)
    )
    run = train(task, Erf(lam), start, RUNS, steps, alpha, steps, seed, progress=False)
    kappa = run.log[0, :, -1]
    nu = run.log[3, :, -1]
    there = (kappa * nu > 0) & (np.minimum(np.abs(kappa), np.abs(nu)) >= 1 - END_DISTANCE)
    return np.where(there, np.sign(kappa), 0)


def _step_limit(lam: float) -> float:
    """The step size above which the oracle repels, by the pulls there."""
    pull = Pull.of(TASK, lam)
    return 2 / max(pull.on_key(1), pull.on_value(1))


def _largest_step(lam: float) -> float:
    """The step size at which the oracle begins to repel runs on the manifold,
    by bisection with the engine.
    """
    low, high = 0.1, 100.0
    near = Overlaps(math.cos(1e-3), 0.0, 0.0, math.cos(1e-3), 0.0)
    for _ in range(14):  # to a factor of 1.0004
        middle = math.sqrt(low * high)
        run = train(TASK, Erf(lam), near, 1, 8000, middle, 8000, progress=False)
        away = 1 - np.abs(run.log[[0, 3], 0])  # of kappa and nu, at the start and at the end
        # rounding: where it is flat, kappa stays where it is
        stable = (away[:, 1] <= away[:, 0] + 1e-12).all()
        low, high = (middle, high) if stable else (low, middle)
    return math.sqrt(low * high)


def _figure(limits: Series) -> Figure:
    fine = np.geomspace(STABLE_AT[0], STABLE_AT[-1], 60)
    stable = panel(
        "largest stable step",
        "inverse temperature",
        "step size",
        *limits.marks("2/max(f, g)", 1, (fine, [_step_limit(x) for x in fine])),
        log="xy",
    )
    return figure("Convergence from the manifold: how large a step (d = 400, L = 10)", stable)


CLAIM = Claim(
    id="slr-06-convergence-theorem",
    title="From the manifold, runs converge to +-(k*, v*)",
    statement=(
        "[Projected gradient descent from the manifold converges to (k*, v*) or (-k*, -v*) for "
        "every dimension, length, gamma and inverse temperature, if the step is small "
        "enough](arrive).",
        "[Each of the two is reached from half of the starts](share).",
        f"[In {SETTINGS} random settings all runs arrive to within {END_DISTANCE:.0e} in {PATIENCE} times "
        "the predicted number of steps](arrive).",
        "[Steps above 2/max(f, g), f and g being the pulls on k and v there, make (k*, v*) "
        "repel](step-limit).",
    ),
    headline="arrive",
    provenance=Provenance(
        "sharpened",
        ("A/theorem-5",),
        "an explicit step size",
    ),
    hypotheses=(
        "erf predictor, population gradient; d 4 to 2000, L 1 to 50, gamma .3 to 1.5, lam "
        "s .2 to 1.5, step below 1/max(|f|, |g|)"
    ),
    condition=(
        "in a number of steps one can afford only while inverse temperature times signal is below "
        "about 3: the time grows like exp(2 (lam s)^2)"
    ),
    routes=(
        "closed-form rates and stability limit",
        "five-overlap engine over random settings",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "for dim, lam, step_size in ((50, 0.2, 0.3), (400, 0.05, 0.3), (400, 0.05, 8.0)):\n"
        "    task = at.SingleLocation(dim=dim, length=10)\n"
        '    run = at.train(task, at.Erf(lam), start="manifold", runs=30, steps=4000, step_size=step_size, progress=False)\n'
        "    print(dim, lam, step_size, run)\n"
    ),
    rests_on=(
        "slr-02-closed-form-risk",
        "slr-18-local-rates",
    ),
)
