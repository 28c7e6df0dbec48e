"""Two directions and two heads: what SGD makes of them, on spheres, for softmax and for erf heads,
and what one head can do.

Setting: d = 80, L = 10, gam^2 = 1/2, s = sqrt(d/2), label noise .1, two informative tokens at
distinct positions, batches of 5, random starts. By default step sizes are 3 to 10 times those of
--full and the number of steps correspondingly smaller, which leaves more noise on the final states.

Softmax, lam = 1. Part of the runs end with one head per direction, the others in an unspecialised
state in which both keys share both directions. That state is a true local minimum: refined on a
fixed sample of scores (theory/optima/heads_minimum.py) its gradient is 0 and no eigenvalue of its
Hessian on the spheres is negative, on that sample and on an independent one. Its risk is the
dividing line: a run with a smaller risk has left its basin.

Erf, lam = 2/(1 + .002 t). Weights become nearly linear in the scores and the heads matter only
through sum_h sym(k_h v_h^T): all runs learn this form, hardly any as (k_1*, v_1*), (k_2*, v_2*),
and the risk falls below that of these. At the temperature where that oracle is best, rotated and
swapped heads are below it by quadrature.

Measured risks are squared errors on full tokens, of vectors in R^80 that realise the trained Gram
matrices. Squared errors over Z = 5 standard errors; a count may be off by one or two runs that are
still on their way.
"""

from __future__ import annotations

import numpy as np

from attnscope.claims.beyond.two_directions import gauges
from attnscope.claims.claim import Claim, Comparison, Context, Evidence, Table
from attnscope.claims.compare import mean_and_error, sampled, wilson
from attnscope.claims.panels import COUNT, spread
from attnscope.claims.provenance import Provenance
from attnscope.dynamics.engines.full_heads import FullHeads
from attnscope.dynamics.heads import HeadTrajectory
from attnscope.dynamics.train import train
from attnscope.figures.figure import Figure, Line, Mark, Panel, Points
from attnscope.predictors.attention import Erf, Softmax
from attnscope.predictors.heads import MultiHead
from attnscope.predictors.predictions import predict
from attnscope.predictors.temperature import InverseTime
from attnscope.tasks.planted.direction_tokens import DirectionBatch
from attnscope.tasks.planted.multi_direction import MultiDirection
from attnscope.theory.optima.heads_minimum import HeadsMinimum, heads_minimum
from attnscope.theory.risks.multi_head_risk import heads_risk

DIM = 80
LENGTH = 10
NOISE = 0.1
BATCH = 5
RUNS = 32  # two tiles of the engine
# temperature at which the erf oracle is best (a stationary point of its closed form to four digits)
BEST = 0.0952
UNDERWAY = 1.5  # runs that may still be between two states when a run ends
# keys a(k_1* + k_2*) +- b(v_1* - v_2*), values along v_1* + v_2*: where unspecialised runs stay;
# columns k_1*, v_1*, k_2*, v_2*
SHARED = np.array(
    [
        [0.6, 0.35, 0.6, -0.35],
        [0.05, 0.7, -0.05, 0.7],
        [0.6, -0.35, 0.6, 0.35],
        [-0.05, 0.7, 0.05, 0.7],
    ]
)
ALONE = {
    "one direction": [[1.0, 0.0, 0.1, 0.0], [0.0, 1.0, 0.0, 0.1]],
    "shared": SHARED[:2].tolist(),
}


def check(context: Context) -> Evidence:
    task = MultiDirection(DIM, LENGTH, 2, noise=NOISE)
    fresh = task.sample(context.pick(10_000, 40_000), seed=context.seed + 1)
    soft = _train(
        task,
        MultiHead(Softmax(1.0), 2),
        context.pick((10_000, 1e-2), (100_000, 1e-3)),
        context.seed,
    )
    one = _train(
        task,
        MultiHead(Softmax(1.0), 1),
        context.pick((4000, 1e-2), (100_000, 1e-3)),
        context.seed,
    )
    falling = Erf(InverseTime(2.0, context.pick(2e-3, 2e-4)))
    odd = _train(
        task,
        MultiHead(falling, 2),
        context.pick((10_000, 3e-3), (100_000, 1e-3)),
        context.seed,
    )
    size = context.pick(4000, 16_000)
    shared = heads_minimum(task, MultiHead(Softmax(1.0), 2), SHARED, size, context.seed)
    alone = {
        name: heads_minimum(task, MultiHead(Softmax(1.0), 1), np.array(x), size, context.seed)
        for name, x in ALONE.items()
    }
    least = min(x.risk for x in alone.values())
    soft_error = _errors(soft, fresh)
    one_error = _errors(one, fresh)
    odd_risk = odd.risk_at().excess
    star = heads_risk(
        task, MultiHead(Erf(float(odd.temperature[-1])), 2), (task.keys, task.values)
    ).excess
    comparisons = (
        Comparison(
            "specialised runs, by cosines and by squared error",
            int((soft.outcome == "specialised").sum()),
            int((soft_error[0] < shared.risk).sum()),
            UNDERWAY,
            why="one run may still be between the two states when training ends",
        ),
        Comparison(
            "end states of softmax heads: specialised and not",
            2,
            len(np.unique(soft_error[0] < shared.risk)),
            COUNT,
            why="an exact count of the kinds seen",
        ),
        Comparison(
            "negative Hessian eigenvalues of the unspecialised state",
            0,
            int((shared.check_eigenvalues < 0).sum()),
            COUNT,
            why="an exact count: one negative eigenvalue breaks it",
        ),
        sampled(
            "risk of the unspecialised state", shared.risk, *_error_of(task, shared, fresh)
        ),
        sampled(
            "risk of specialised heads (k_h*, v_h*)",
            heads_risk(task, MultiHead(Softmax(1.0), 2), (task.keys, task.values)).excess,
            *_star_error(task, fresh),
        ),
        Comparison(
            "runs of one head below its best minimum found",
            0,
            int((one_error[0] < least - 5 * one_error[1]).sum()),
            COUNT,
            why="an exact count; below means by 5 standard errors (3e-7 a run)",
        ),
        *_gauges(task, fresh),
        Comparison(
            "erf runs with a head per direction, not swapped",
            0,
            int((odd.outcome == "specialised").sum()),
            UNDERWAY + 1,
            why="one run may be underway, and one end there: hardly any, not none",
        ),
        Comparison(
            "erf: median form cosine",
            1.0,
            float(np.median(odd.form_cosine[:, -1])),
            0.05,
            why="SGD noise: cosine 0.95 is a form off by a third of its norm",
        ),
        Comparison(
            "erf: median risk above (k_h*, v_h*): yes 1, no 0",
            0,
            int(np.median(odd_risk) > star),
            COUNT,
            why="yes or no: anything but 0 breaks it",
        ),
        sampled(
            "erf: risk of the runs, quadrature and tokens", odd_risk, *_errors(odd, fresh)
        ),
    )
    return Evidence(
        comparisons,
        _figure(task, soft, one, odd, shared, least),
        _notes(soft, shared),
        tables=_tables(soft, one, odd, least, star),
    )


def _train(
    task: MultiDirection, predictor: MultiHead, size: tuple[int, float], seed: int
) -> HeadTrajectory:
    steps, step_size = size
    return train(
        task,
        predictor,
        "sphere",
        RUNS,
        steps,
        step_size,
        steps // 20,
        seed,
        BATCH,
        progress=False,
    )


def _errors(run: HeadTrajectory, fresh: DirectionBatch) -> tuple[np.ndarray, np.ndarray]:
    """(mean, standard error), (runs,) each, of the squared error on full tokens less the label
    noise's variance.
    """
    engine = FullHeads(run.setup.task, run.setup.predictor, 1.0, 1)
    vectors = engine.start(run.gram[:, -1], run.setup.seed)["vectors"]
    head = type(run.setup.predictor.head)(float(run.temperature[-1]))
    rows = [_squared(MultiHead(head, run.heads), x[0::2], x[1::2], fresh) for x in vectors]
    return np.array([r[0] for r in rows]), np.array([r[1] for r in rows])


def _squared(
    predictor: MultiHead, K: np.ndarray, V: np.ndarray, fresh: DirectionBatch
) -> tuple[float, float]:
    mean, error = mean_and_error((predict(predictor, K, V, fresh.tokens) - fresh.target) ** 2)
    return mean - NOISE**2, error


def _error_of(
    task: MultiDirection, state: HeadsMinimum, fresh: DirectionBatch
) -> tuple[float, float]:
    """Squared error of a refined state on full tokens; it lies in the teachers' span."""
    star = np.stack([task.keys, task.values], 1).reshape(4, -1)
    x = state.vectors[:, :4] @ star
    return _squared(MultiHead(Softmax(1.0), 2), x[0::2], x[1::2], fresh)


def _star_error(task: MultiDirection, fresh: DirectionBatch) -> tuple[float, float]:
    return _squared(MultiHead(Softmax(1.0), 2), task.keys, task.values, fresh)


def _gauges(task: MultiDirection, fresh: DirectionBatch) -> tuple[Comparison, ...]:
    """Quadrature against tokens for four ways to write the same form,
    at the best temperature of the first.
    """
    predictor = MultiHead(Erf(BEST), 2)
    pairs = gauges(task)
    exact = [heads_risk(task, predictor, pair).excess for pair in pairs.values()]
    drawn = [_squared(predictor, *pair, fresh) for pair in pairs.values()]
    agree = sampled(
        "erf: oracle, swapped, half swapped, rotated heads",
        exact,
        [x[0] for x in drawn],
        [x[1] for x in drawn],
    )
    return agree, Comparison(
        "erf: gauges above the oracle's risk",
        0,
        int((np.array(exact[1:]) >= exact[0]).sum()),
        COUNT,
        why="an exact count of quadratures: one above breaks it",
    )


def _notes(soft: HeadTrajectory, shared: HeadsMinimum) -> str:
    done = soft.outcome == "specialised"
    low, high = wilson(int(done.sum()), RUNS)
    return (
        f"Softmax: {int(done.sum())} of {RUNS} runs specialise (95 % interval {low:.2f} to "
        f"{high:.2f}). The smallest Hessian eigenvalue of the unspecialised minimum is "
        f"{shared.eigenvalues[0]:.4f} ({shared.check_eigenvalues[0]:.4f} on an independent sample): "
        "flat, but a minimum."
    )


def _tables(
    soft: HeadTrajectory, one: HeadTrajectory, odd: HeadTrajectory, least: float, star: float
) -> tuple[Table, Table]:
    done = soft.outcome == "specialised"
    risk = soft.risk_at().excess
    odd_risk = odd.risk_at().excess
    rows = [
        (f"softmax heads, {word}", int(use.sum()), risk[use].min(), np.median(risk[use]))
        for use, word in ((done, "specialised"), (~done, "not"))
        if use.any()
    ]
    alone = one.risk_at().excess
    rows += [
        ("one softmax head", len(alone), alone.min(), np.median(alone)),
        ("erf heads", len(odd_risk), odd_risk.min(), np.median(odd_risk)),
    ]
    exact = [("one head, best minimum found", least), ("erf, at (k_h*, v_h*)", star)]
    kinds = ("specialised", "swapped", "rotated", "unspecialised")
    ended = [(f"erf runs {kind}", int((odd.outcome == kind).sum())) for kind in kinds]
    cosine = ("least cosine of the erf runs' form", odd.form_cosine[:, -1].min())
    return (
        Table("Risks of the runs", ("", "runs", "least", "median"), tuple(rows)),
        Table("Beside them", ("", "value"), (*exact, *ended, cosine)),
    )


def _figure(
    task: MultiDirection,
    soft: HeadTrajectory,
    one: HeadTrajectory,
    odd: HeadTrajectory,
    shared: HeadsMinimum,
    least: float,
) -> Figure:
    star = heads_risk(task, MultiHead(Softmax(1.0), 2), (task.keys, task.values)).excess
    ends = [0, float(soft.step[-1])]
    marks: list[Mark] = [
        Line(ends, [shared.risk] * 2, "unspecialised minimum", 1, dashed=True),
        Line(ends, [star] * 2, "(k_h*, v_h*)", 6, dashed=True),
    ]
    for i, name in enumerate(("specialised", "unspecialised")):
        use = soft.outcome == name
        if use.any():
            marks += spread(soft.step, soft.excess[use], name, i)
    oracle = [
        heads_risk(task, MultiHead(Erf(float(t)), 2), (task.keys, task.values)).excess
        for t in odd.temperature
    ]
    erf_risk = [
        *spread(odd.step, odd.excess, "two erf heads", 2),
        Line(odd.step, oracle, "(k_h*, v_h*), same temperature", 6, dashed=True),
    ]
    best = np.abs(odd.overlaps.kappa * odd.overlaps.nu).max(2).min(2)
    form = [
        *spread(odd.step, odd.form_cosine, "form cosine", 4),
        *spread(odd.step, best, "|kappa nu|, worse served direction", 5),
    ]
    rank = np.arange(1, RUNS + 1)
    risks = soft.risk_at().excess
    order = np.argsort(risks)
    final: list[Mark] = [
        Points(rank[use], risks[order][use], name, i)
        for i, name in enumerate(("specialised", "unspecialised"))
        if (use := soft.outcome[order] == name).any()
    ]
    final += [
        Points(rank, np.sort(run.risk_at().excess), name, i)
        for run, name, i in ((one, "one softmax head", 3), (odd, "two erf heads", 2))
    ]
    final.append(Line([1, RUNS], [least, least], "best minimum of one head", 3, dashed=True))
    panels = (
        Panel(
            f"two softmax heads: {(soft.outcome == 'specialised').sum()} of {RUNS} specialise",
            "step",
            "excess risk",
            tuple(marks),
            log_y=True,
        ),
        Panel(
            "two erf heads, falling temperature",
            "step",
            "excess risk",
            tuple(erf_risk),
            log_y=True,
        ),
        Panel(
            "erf: form learnt, heads not aligned",
            "step",
            "cosine",
            tuple(form),
            y_range=(0.0, 1.05),
        ),
        Panel("where the runs end", "run, by risk", "excess risk", tuple(final), log_y=True),
    )
    return Figure(
        "Two directions: heads specialise in part of the runs (bands: 95 % of the runs)",
        panels,
        columns=2,
    )


CLAIM = Claim(
    id="beyond-08-two-directions",
    title="Two heads: some specialise, erf learns the form, one cannot",
    statement=(
        "With two informative tokens and SGD from random starts, two softmax heads end with one "
        "head per direction in part of the runs and otherwise "
        "in an unspecialised local minimum. Two erf heads learn the span and the form sum_h "
        "sym(k_h v_h^T), in a rotated or swapped gauge and with a "
        "risk below that of (k_h*, v_h*). One head cannot serve two directions."
    ),
    provenance=Provenance(
        "new here",
        ("D/specialisation", "A/open-heads"),
        "two heads on two directions",
    ),
    hypotheses=(
        "d = 80, L = 10, gamma^2 = 1/2, signal sqrt(d/2), noise 0.1, distinct positions, "
        "batches of 5, unit vectors, softmax at temperature 1"
    ),
    routes=(
        "Gram matrices: cosines, quadrature, refined minima on sampled scores",
        "squared errors on full tokens in R^80 after SGD exact in law",
    ),
    check=check,
    snippet=(
        "import attnscope as at\n"
        "task = at.MultiDirection(dim=80, length=10, directions=2, noise=0.1)\n"
        "run = at.train(task, at.MultiHead(at.Softmax(1.0), 2), batch_size=5, runs=8, steps=2000, "
        "step_size=1e-2, log_every=500)\n"
        "print(run, run.risk_at().excess.round(3), run.form_cosine[:, -1].round(2))\n"
    ),
)
