"""The paper's fourth experiment: from uniform starts, lowering the temperature 1/(1 + 1e-4 t) leads
to the oracle, for 95 % of the starts.

At the high temperature of the beginning the way towards the oracle is the faster of the two that
leave the saddle at orthogonal vectors (at 0.9: growth 1.58 against .96, where at 0.1 it is .7715
against .7668), and once the temperature has fallen below critical the oracle is a minimum. The race
is not always won: about one start in twenty ends role-swapped, at every step size (the share is the
same at a quarter of it). End states are the closed-form stationary points at the last temperature,
1/13; runs follow them with a lag that shows beyond the fourth decimal. The early phase is chaotic
(alpha times the largest curvature is 1.6): two implementations agree path by path for some hundred
steps only, afterwards in law. So the share is compared in law: how many runs have |eta| > |kappa|
after 2000 steps, where the race is half decided, in the compiled engine and in NumPy with the
closed-form gradient, from different starts; Z = 5 standard errors of the difference.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.claim import Claim, Comparison, Context, Evidence
from attnscope.claims.compare import Z, worst
from attnscope.claims.panels import TWO_SHARES, run_panels, same_path, settled
from attnscope.claims.provenance import Provenance
from attnscope.dynamics.engines.population_exact import PopulationExact
from attnscope.dynamics.experiments import EXPERIMENTS, run_experiment
from attnscope.dynamics.schedule import temperatures
from attnscope.dynamics.starts import starting_overlaps
from attnscope.dynamics.train import train
from attnscope.predictors.attention import Erf
from attnscope.theory.optima.landscape import swapped_overlaps
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk

NAME = "init_sphere_schedule"
DIGITS = 5e-5  # four decimals
HALFWAY = 2000  # steps
# steps for which paths are compared: the amplification of rounding is then below 10
TOGETHER = 300


def check(context: Context) -> Evidence:
    e = EXPERIMENTS[NAME]
    many = context.pick(1000, 10_000)
    run = run_experiment(NAME, runs=context.pick(30, 300), seed=context.seed, progress=False)
    share = float(
        np.mean(
            run_experiment(NAME, runs=many, seed=context.seed + 1, progress=False).outcome
            == "oracle"
        )
    )
    last = float(run.temperature[-1])
    task = e.task()
    ends = {"oracle": Overlaps.oracle(), "swapped": swapped_overlaps(task, last)}
    exact = {name: float(risk(task, Erf(last), o).excess) for name, o in ends.items()}
    paths, _ = same_path(NAME, context.seed, TOGETHER)
    limit = np.array([exact.get(name, np.inf) for name in run.outcome])
    comparisons = (
        settled(run),
        _binomial(
            f"runs at the oracle, of {run.runs}: share of {many} others",
            share,
            many,
            run.outcome == "oracle",
        ),
        worst(
            "excess risk at the end, run by run",
            limit,
            run.excess[:, -1],
            DIGITS,
            why="four decimals: runs lag behind the falling temperature in the fifth",
        ),
        _halfway(context),
        paths,
    )
    notes = (
        f"{int((run.outcome == 'oracle').sum())} of {run.runs} runs end at the oracle (excess "
        f"{exact['oracle']:.4f} at temperature {last:.4f}), the "
        f"others swapped, with the lower excess {exact['swapped']:.4f}. Of {many} further runs "
        f"{share:.1%} reach the oracle."
    )
    levels = {
        name: (f"{name}, exact, at the end", exact[name])
        for name in exact
        if (run.outcome == name).any()
    }
    return Evidence(
        comparisons,
        run_panels(
            run, f"{run.runs} runs from the spheres, temperature 1/(1 + t/10,000)", levels
        ),
        notes,
    )


def _binomial(what: str, share: float, many: int, reached: np.ndarray) -> Comparison:
    """A count against a share seen elsewhere; the share enters with one success and one failure
    more, so that its variance is never 0.
    """
    p = (share * many + 1) / (many + 2)
    n = len(reached)
    tolerance = Z * n * np.sqrt(p * (1 - p) * (1 / n + 1 / many))
    why = "5 standard errors; few exceptions are skewed: false alarm 1e-4 for 30 runs"
    return Comparison(what, share * n, int(reached.sum()), tolerance, why=why)


def _halfway(context: Context) -> Comparison:
    """Runs with |eta| > |kappa| after 2000 steps:
    NumPy with the closed-form gradient against the compiled engine.
    """
    e = EXPERIMENTS[NAME]
    slow = context.pick(200, 1000)
    fast = 4000
    lam = temperatures(e.temperature, 0, HALFWAY)
    engine = PopulationExact(e.task(), Erf(1.0), e.step_size)
    start = starting_overlaps(e.task(), "sphere", slow, context.seed + 2)
    a = _behind(engine.overlaps(engine.advance(engine.init(start), lam)))
    run = train(
        e.task(),
        Erf(e.temperature),
        "sphere",
        fast,
        HALFWAY,
        e.step_size,
        HALFWAY,
        context.seed + 3,
        progress=False,
    )
    b = _behind(run.log[:, :, -1])
    p = (a * slow + b * fast) / (slow + fast)
    tolerance = Z * np.sqrt(p * (1 - p) * (1 / slow + 1 / fast))
    return Comparison(
        f"share of runs with |eta| > |kappa| after {HALFWAY} steps",
        a,
        b,
        tolerance,
        why=TWO_SHARES,
    )


def _behind(overlaps: np.ndarray) -> float:
    return float(np.mean(np.abs(overlaps[1]) > np.abs(overlaps[0])))


CLAIM = Claim(
    id="slr-10-sphere-schedule",
    title="Falling temperature: 95 % of starts reach the oracle",
    statement=(
        "From uniform random starts, projected gradient descent with the temperature 1/(1 + 1e-4 "
        "t) (d = 400, L = 10, step 0.004, 120,000 steps) "
        "recovers (k*, v*), with the oracle's excess risk .0750 at the last temperature; but not "
        "always: about one run in twenty ends with the roles of k and v swapped. Of the thirty "
        "runs with seed 0, 29 reach the oracle and one ends swapped; thirty of thirty happens in "
        "about one batch out of four."
    ),
    provenance=Provenance(
        "sharpened",
        ("A/run-decreasing",),
        "the exceptions and exact values",
    ),
    hypotheses="erf predictor, population gradient, k and v uniform on the sphere",
    condition=(
        "for about 95 % of the starts; the others end at the role-swapped minimum, whose "
        "excess risk (.0689) is lower"
    ),
    routes=(
        "closed-form stationary points; NumPy with the closed-form gradient",
        "compiled five-overlap engine, and vectors in R^400",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        'run = at.run_experiment("init_sphere_schedule", runs=200, progress=False)\n'
        "oracle = at.risk(run.setup.task, at.Erf(1 / 13), at.Overlaps.oracle()).excess\n"
        'print(run, run.excess[run.outcome == "oracle", -1].mean(), oracle)\n'
    ),
    rests_on=(
        "slr-02-closed-form-risk",
        "slr-12-which-limit",
    ),
)
