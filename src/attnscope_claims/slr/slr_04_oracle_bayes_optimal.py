"""The erf oracle is asymptotically Bayes optimal in the regime lam sqrt(d) -> inf, lam sqrt(L) ->
0, and not outside it.

notation: lam = d^-a the inverse temperature, s = sqrt(d/2) the signal, R the oracle's risk at (k*,
v*), R_B the Bayes risk.

    R = gam^2 E(1 - erf(lam (s + gam G)))^2 + (L-1) E erf(lam G)^2  ~  gam^2 erfc(lam s)^2 +
        (4/pi)(L-1) lam^2   as lam -> 0.

With L fixed: a < 1/2 gives R -> 0 like (4/pi)(L-1) d^-2a (a = 1/4 and 2/5 here); at a = 1/2 the
informative token is let through only in part, R -> gam^2 erfc(1/sqrt 2)^2 = 0.0503; for a > 1/2 it
is shut out and R -> gam^2, the null risk. The second condition matters when L grows: with lam =
d^-1/4 and L = sqrt(d), lam sqrt(L) = 1 and R -> 4/pi. For a = 0.6 the gap gam^2 - R closes like
(4/sqrt(pi)) gam^2 lam s, which falls as d^(-1/10). The Bayes risk is exponentially small in d,
so the regret R - R_B is R itself, to ten digits, from d = 100 on.

Routes: the closed form, against Monte Carlo of the projections, whose cost does not depend on d.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import stated
from attnscope.claims.provenance import Provenance
from attnscope.claims.series import Series
from attnscope.figures.figure import Figure, Line, Mark
from attnscope.predictors.attention import Erf
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps, as_arrays
from attnscope.theory.risk import risk, unchecked_risk
from attnscope_claims.drawing import figure, level, panel

ERF = Erf(1.0)  # the kind; unchecked_risk is told the inverse temperature
ORACLE = as_arrays(Overlaps.oracle())


class Path(NamedTuple):
    """A way of going to infinity: lam = d^-power with L fixed, or L = sqrt(d)."""

    name: str
    power: float
    long: bool = False

    def at(self, dim: float) -> tuple[SingleLocation, float]:
        return SingleLocation(int(dim), round(math.sqrt(dim)) if self.long else 10), float(
            dim
        ) ** -self.power


INSIDE_PATHS = (Path("d^(-1/4)", 0.25), Path("d^(-0.4)", 0.4))
OUTSIDE_PATHS = (
    Path("d^(-1/2)", 0.5),
    Path("d^(-0.6)", 0.6),
    Path("d^(-1/4), L = sqrt(d)", 0.25, long=True),
)
DIMS = (1e2, 1e3, 1e4, 1e5, 1e6, 1e7)
# Stated: exponents of d of the risk at large d, for lam = d^-1/4, d^-0.4 and d^-1/2; the regret over
# Bayes at d = 1e7 of the first two; the limit of the third; the exponent of d with which the gap to
# the null risk closes for lam = d^-0.6; the limit with L = sqrt(d).
EXPONENTS = (-0.5, -0.8, 0.0)
REGRETS = (0.0036, 2.9e-5)
PLATEAU = 0.0503
NULL_EXPONENT = -0.1
LEAK_RISK = 1.27
FAR_DIMS = (1e13, 1e15)  # d between which NULL_EXPONENT is measured
LONGEST_DIM = 1e6  # for the path with L = sqrt(d): a thousand tokens per sampled sequence


def check(context: Context) -> Evidence:
    seeds = iter(np.random.default_rng([context.seed, 4]).integers(2**31, size=100).tolist())
    size = context.pick(400_000, 4_000_000)  # tokens drawn per point
    series = {
        path: _over_dims(f"path-{i}", path, size, seeds)
        for i, path in enumerate((*INSIDE_PATHS, *OUTSIDE_PATHS))
    }
    comparisons = (*series.values(), *_compare_stated(series))
    bayes = SingleLocation(100, 10).bayes_risk().value
    notes = f"The Bayes risk at d = 100, L = 10 is {bayes:.1e}; the null risk is 0.5."
    return Evidence(comparisons, _figure(series), notes)


def _oracle_excess(task: SingleLocation, lam: float) -> float:
    return float(unchecked_risk(task, ERF, ORACLE, lam).excess)


def _sampled_excess(
    task: SingleLocation, lam: float, size: int, seed: int
) -> tuple[float, float]:
    out = risk(
        task,
        Erf(lam),
        Overlaps.oracle(),
        "monte-carlo",
        max(10_000, size // task.length),
        seed,
    )
    return float(out.excess), float(out.error)


def _over_dims(key: str, path: Path, size: int, seeds: Iterator[int]) -> Series:
    """The oracle's risk along a path, by dimension."""
    dims = [d for d in DIMS if not path.long or d <= LONGEST_DIM]
    mean, error = np.array([_sampled_excess(*path.at(d), size, next(seeds)) for d in dims]).T
    exact = [_oracle_excess(*path.at(d)) for d in dims]
    what = f"oracle risk, temperature {path.name}"
    return Series(key, what, dims, exact, mean, error=error)


def _compare_stated(series: dict[Path, Series]) -> tuple[Comparison, ...]:
    """The numbers of the statement."""
    inside = [series[path] for path in INSIDE_PATHS]
    border, _, long = (series[path] for path in OUTSIDE_PATHS)
    three = (*inside, border)
    slopes = [np.log(s.measured[-1] / s.measured[-2]) / math.log(10) for s in three]
    errors = [math.hypot(*(s.error[-2:] / s.measured[-2:])) / math.log(10) for s in three]
    gaps = [
        task.gamma**2 - _oracle_excess(task, lam)
        for task, lam in map(OUTSIDE_PATHS[1].at, FAR_DIMS)
    ]
    return (
        stated(
            "rates",
            "exponent of d of the risk, d = 1e6 to 1e7, as stated",
            EXPONENTS,
            slopes,
            1e-2,
            errors,
            scale=0.5,
        ),
        stated(
            "regrets",
            "regret at d = 1e7 inside the regime, as stated",
            REGRETS,
            [
                s.measured[-1] - float(path.at(DIMS[-1])[0].bayes_risk().excess)
                for path, s in zip(INSIDE_PATHS, inside)
            ],
            np.array([1e-4, 1e-6]),
            [s.error[-1] for s in inside],
        ),
        stated(
            "plateau",
            "risk at lam = d^(-1/2), d = 1e7, as stated",
            PLATEAU,
            border.predicted[-1],
            1e-4,
        ),
        stated(
            "null",
            "exponent of d of the gap to the null risk, lam = d^(-0.6), as stated",
            NULL_EXPONENT,
            math.log(gaps[1] / gaps[0]) / math.log(FAR_DIMS[1] / FAR_DIMS[0]),
            1e-2,
        ),
        stated(
            "leak",
            "risk at L = sqrt(d), lam = d^(-1/4), d = 1e6, as stated",
            LEAK_RISK,
            long.predicted[-1],
            1e-2,
        ),
    )


def _figure(series: dict[Path, Series]) -> Figure:
    fine = np.geomspace(10, 1e7, 49)
    small = np.array([10, 15, 20, 30, 50, 70, 100])
    bayes = [float(SingleLocation(int(d), 10).bayes_risk().excess) for d in small]

    def marks(paths: tuple[Path, ...]) -> list[Mark]:
        out: list[Mark] = []
        for path in paths:
            color = list(series).index(path)
            grid = (
                fine
                if not path.long
                else np.unique(np.round(np.sqrt(fine[fine <= LONGEST_DIM * 1.01]))) ** 2
            )  # L integer
            curve = grid, [_oracle_excess(*path.at(d)) for d in grid]
            out += series[path].marks(path.name, color, curve)
        return out

    inside = panel(
        "inside the regime: risk to 0",
        "dimension d",
        "excess risk at (k*, v*)",
        *marks(INSIDE_PATHS),
        Line(small, bayes, "Bayes", 6, dashed=True),
        log="xy",
        y_range=(1e-11, 10),
    )
    outside = panel(
        "outside the regime: it does not",
        "dimension d",
        "excess risk at (k*, v*)",
        *marks(OUTSIDE_PATHS),
        level([10, 1e7], 0.5, "null", 5),
        log="xy",
    )
    return figure(
        "Risk of the erf oracle by inverse temperature law (lines exact, points sampled)",
        inside,
        outside,
    )


CLAIM = Claim(
    id="slr-04-oracle-bayes-optimal",
    title="The oracle is Bayes optimal in the regime, not outside",
    statement=(
        "[With inverse temperature lam = d^-a the risk of the erf predictor at (k*, v*) tends to "
        "the Bayes risk if lam sqrt(d) grows and lam sqrt(L) vanishes](rates, regrets).",
        f"[At fixed L it falls as d^({EXPONENTS[0]:g}) for a = 1/4 and as d^({EXPONENTS[1]:g}) for "
        "a = 0.4](rates).",
        f"[It is then {REGRETS[0]:g} and {REGRETS[1]:.1e} above the Bayes risk at d = "
        "1e7](regrets).",
        f"[At a = 1/2 it stays at gamma^2 erfc(1/sqrt 2)^2 = {PLATEAU:g}](plateau, rates).",
        f"[At a = 0.6 it returns to the null risk, the gap closing as d^({NULL_EXPONENT:g})](null).",
        "[With L = sqrt(d) and a = 1/4 the background leaks, and the risk tends to 4/pi = "
        f"{LEAK_RISK:g}](leak).",
    ),
    headline="plateau",
    provenance=Provenance(
        "sharpened",
        ("A/corollary-2",),
        "rates on the way, and what holds outside the regime",
    ),
    hypotheses=(
        "k = k*, v = v*, signal sqrt(d/2), gamma^2 = 1/2, L = 10 or sqrt(d), d from 1e2 to "
        "1e7"
    ),
    routes=(
        "closed form",
        "Monte Carlo on projections at d = 1e2 .. 1e7",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "for dim in (10**2, 10**4, 10**6):\n"
        "    task = at.SingleLocation(dim=dim, length=10)\n"
        "    print(dim, [round(at.risk(task, at.Erf(dim**-a), at.Overlaps.oracle()).value, 6) for "
        "a in (0.25, 0.4, 0.5, 0.6)])\n"
    ),
    rests_on=("slr-02-closed-form-risk",),
)
