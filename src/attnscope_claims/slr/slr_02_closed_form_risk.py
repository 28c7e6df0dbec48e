"""The closed-form erf risk in the five overlaps, by three routes.

Random tasks and random pairs (k, v), most of them far from every special point (all five overlaps
non-zero):

    closed form    theory.risks.erf_risk, the paper's formula regrouped
    quadrature   the same risk as a mean over one Gaussian, which holds for any sigma; erf enters as
        a black box
    Monte Carlo   (Y - T(X))^2 on sampled projections (X.k, X.v, X.v*), and on sampled vectors X of
        R^d for one task

The first two must agree to roundoff. Against Monte Carlo the z-scores must look standard normal:
none beyond 5, and their root mean square over m settings within 5/sqrt(2m) of 1 (its standard
deviation is 1/sqrt(2m); false alarm 6e-7).
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf

from attnscope.claims.claim import Claim, Context, Evidence
from attnscope.claims.compare import BAND, Z, mean_and_error, sampled, stated, worst
from attnscope.claims.provenance import Provenance
from attnscope.figures.figure import Figure, Line, Points
from attnscope.predictors.attention import Componentwise, Erf
from attnscope.predictors.predictions import predict
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk
from attnscope_claims.drawing import figure, panel

ROUNDOFF = 1e-12  # relative, stated; the two routes have errors of some 1e-14 each
# mean distance of the settings from the manifold, the largest of |eta|, |theta|, |rho|; stated
MEAN_DISTANCE = 0.6
Setting = tuple[SingleLocation, float, Overlaps]


def check(context: Context) -> Evidence:
    rng = np.random.default_rng([context.seed, 2])
    settings = [_setting(rng) for _ in range(context.pick(50, 200))]
    closed = np.array([risk(task, Erf(lam), o).value for task, lam, o in settings])
    quadrature = np.array(
        [risk(task, Componentwise(erf, lam), o).value for task, lam, o in settings]
    )
    mean, error = _sampled_risks(settings, context.pick(40_000, 400_000), rng).T
    z = (mean - closed) / error
    vectors = _on_vectors(context.pick(4_000, 40_000), int(rng.integers(2**31)))
    off, off_error = mean_and_error(
        np.array([max(abs(o.eta), abs(o.theta), abs(o.rho)) for _, _, o in settings])
    )
    comparisons = (
        worst(
            "closed form and quadrature",
            closed,
            quadrature,
            ROUNDOFF * closed,
            "roundoff, relative: either route states an error of some 1e-14",
            key="quadrature",
        ),
        sampled(
            "closed form and sampled projections", closed, mean, error, key="projections"
        ),
        worst(
            "root mean square of the z-scores",
            1.0,
            np.sqrt(np.mean(z**2)),
            Z / np.sqrt(2 * len(z)),
            "5 standard deviations 1/sqrt(2 m) of that of m normal scores; false alarm 6e-7",
            key="scores",
            coarse="standard errors wrong by less than a factor of 1.5 would not change the verdict",
        ),
        sampled("closed form and sampled vectors, d = 400", *vectors, key="vectors"),
        stated(
            "away",
            "mean distance of the settings from the manifold, as stated",
            MEAN_DISTANCE,
            off,
            0.1,
            off_error,
        ),
    )
    notes = (
        f"{len(settings)} random settings; largest |z| {np.abs(z).max():.2f}, root mean square "
        f"{np.sqrt(np.mean(z**2)):.2f}."
    )
    return Evidence(comparisons, _figure(closed, mean, error), notes)


def _setting(rng: np.random.Generator) -> Setting:
    """A task and overlaps of two random unit vectors of R^5,
    in which k* and v* are the first two axes.
    """
    dim = int(10 ** rng.uniform(1, 4))
    length = int(10 ** rng.uniform(0.31, 1.7))
    task = SingleLocation(dim, length, gamma=rng.uniform(0.3, 1.5), noise=rng.uniform(0, 0.5))
    k, v = (x / np.linalg.norm(x) for x in rng.standard_normal((2, 5)))
    return task, 10 ** rng.uniform(-2, 0.5), Overlaps(k[0], k[1], v[0], v[1], k @ v)


def _sampled_risks(
    settings: list[Setting], samples: int, rng: np.random.Generator
) -> np.ndarray:
    """(m, 2): mean and standard error of the risk of every setting."""
    estimates = [
        risk(task, Erf(lam), o, "monte-carlo", samples, int(rng.integers(2**31)))
        for task, lam, o in settings
    ]
    return np.array([(e.value, e.error) for e in estimates])


def _halfway_vector(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The unit vector between the unit vector x and the direction of y."""
    between = x + y / np.linalg.norm(y)
    return between / np.linalg.norm(between)


def _on_vectors(n: int, seed: int) -> tuple[float, float, float]:
    """(closed form, mean, standard error) at the paper's scale, for k and v halfway between their
    targets and a random direction.
    """
    task = SingleLocation(dim=400, length=10, seed=seed)
    rest = np.random.default_rng([seed, 1]).standard_normal((2, task.dim))
    k = _halfway_vector(task.key, rest[0])
    v = _halfway_vector(task.value, rest[1])
    losses = [
        (predict(Erf(0.1), k, v, b.tokens) - b.target) ** 2
        for b in task.batches(n, 1000, seed)
    ]
    return risk(task, Erf(0.1), Overlaps.of(task, k, v)).value, *mean_and_error(
        np.concatenate(losses)
    )


def _figure(closed: np.ndarray, mean: np.ndarray, error: np.ndarray) -> Figure:
    ends = [closed.min(), closed.max()]
    agree = panel(
        "Monte Carlo against the closed form",
        "risk, closed form",
        "risk, sampled (95 %)",
        Points(closed, mean, "settings", 0, BAND * error),
        Line(ends, ends, "equal", 6, dashed=True),
        log="xy",
    )
    return figure("One risk, three routes", agree)


CLAIM = Claim(
    id="slr-02-closed-form-risk",
    title="The closed-form risk, by three routes",
    statement=(
        "[The population risk of the erf predictor is an explicit function of the five overlaps, "
        "the inverse temperature, d, L and gamma](quadrature, vectors).",
        f"[On random settings, on average {MEAN_DISTANCE:g} away from the manifold](away), [one-dimensional "
        f"quadrature gives the same risk to a relative {ROUNDOFF:g}](quadrature).",
        "[Monte Carlo gives it within its standard errors](projections, scores, vectors).",
    ),
    headline="quadrature",
    provenance=Provenance(
        "same",
        ("A/theorem-1",),
        "quadrature and sampling beside the formula",
    ),
    hypotheses=(
        "k* perp v*, unit k and v; random d in 10..10^4, L in 2..50, gamma in 0.3..1.5, "
        "inverse temperature in 0.01..3, any overlaps"
    ),
    routes=(
        "closed form",
        "quadrature with erf as a black box; Monte Carlo on projections and on vectors",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "from scipy.special import erf\n"
        "task, o = at.SingleLocation(dim=400, length=10), at.Overlaps(0.6, 0.1, -0.2, 0.5, 0.3)\n"
        "print(at.risk(task, at.Erf(0.1), o))\n"
        "print(at.risk(task, at.Componentwise(erf, 0.1), o))\n"
        'print(at.risk(task, at.Erf(0.1), o, method="monte-carlo", samples=100_000, seed=0))\n'
    ),
)
