"""Runs of two heads on two directions, and of one: training, refined minima, risks and figure of
claim beyond-08.

Everything that takes time is done in `measured`, from the seed and the sizes alone; the claim only
compares. Sampled risks are squared errors on full tokens in R^80, less the label noise's variance;
exact ones are quadratures or, for the unspecialised state and one head, minima on sampled scores.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.claims.claim import Context, Table
from attnscope.claims.compare import mean_and_error, wilson
from attnscope.dynamics.engines.full_heads import FullHeads
from attnscope.dynamics.heads import HeadTrajectory
from attnscope.dynamics.train import train
from attnscope.figures.figure import Figure, Line, Mark, Points
from attnscope.predictors.attention import Erf, Softmax
from attnscope.predictors.heads import MultiHead
from attnscope.predictors.inverse_temperature import InverseTime
from attnscope.predictors.predictions import predict
from attnscope.tasks.planted.direction_tokens import DirectionBatch
from attnscope.tasks.planted.multi_direction import MultiDirection
from attnscope.theory.optima.heads_minimum import HeadsMinimum, heads_minimum
from attnscope.theory.risks.multi_head_risk import heads_risk
from attnscope_claims.beyond.two_directions import gauges
from attnscope_claims.drawing import figure, level, panel
from attnscope_claims.panels import spread

__all__ = ["RUNS", "Measured", "measured"]

DIM = 80
LENGTH = 10
NOISE = 0.1
BATCH = 5
RUNS = 32  # two tiles of the engine
# inverse temperature at which the erf oracle is best (a stationary point of its closed form to four digits)
BEST = 0.0952
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


class Measured(NamedTuple):
    """What training, refinement and quadrature give; pairs are (mean, standard error) on tokens.

    specialised: softmax runs with a head per direction, by cosines. soft, one, erf: pairs of (runs,)
    squared errors. shared, refined: the unspecialised minimum, and the one next to the end of the
    middle unspecialised run. gauges: (4,) exact risks and pairs of the heads of one form. form,
    span: (runs,) of the erf runs at their end. erf_star: exact risk of erf heads at (k_h*, v_h*).
    """

    specialised: int
    soft: tuple[np.ndarray, np.ndarray]
    shared: HeadsMinimum
    shared_error: tuple[float, float]
    refined_error: tuple[float, float]
    star: float
    star_error: tuple[float, float]
    one: tuple[np.ndarray, np.ndarray]
    least: HeadsMinimum
    least_error: tuple[float, float]
    gauges: tuple[np.ndarray, np.ndarray, np.ndarray]
    erf_outcome: np.ndarray
    form: np.ndarray
    span: np.ndarray
    erf_risk: np.ndarray
    erf: tuple[np.ndarray, np.ndarray]
    erf_star: float
    figure: Figure
    notes: str
    tables: tuple[Table, Table]


def measured(context: Context) -> Measured:
    task = MultiDirection(DIM, LENGTH, 2, noise=NOISE)
    fresh = task.sample(context.pick(10_000, 40_000), seed=context.seed + 1)
    two = MultiHead(Softmax(1.0), 2)
    single = MultiHead(Softmax(1.0), 1)
    soft = _train(task, two, context.pick((10_000, 1e-2), (100_000, 1e-3)), context.seed)
    one = _train(task, single, context.pick((4000, 1e-2), (100_000, 1e-3)), context.seed)
    falling = Erf(InverseTime(2.0, context.pick(2e-3, 2e-4)))
    odd = _train(
        task,
        MultiHead(falling, 2),
        context.pick((10_000, 3e-3), (100_000, 1e-3)),
        context.seed,
    )
    size = context.pick(4000, 16_000)
    shared = heads_minimum(task, two, SHARED, size, context.seed)
    refined = heads_minimum(task, two, _middle_heads(soft), size, context.seed)
    alone = [
        heads_minimum(task, single, np.array(x), size, context.seed) for x in ALONE.values()
    ]
    least = min(alone, key=lambda x: x.risk)
    odd_risk = odd.risk_at().excess
    star, erf_star = (
        heads_risk(task, MultiHead(head, 2), (task.keys, task.values)).excess
        for head in (Softmax(1.0), Erf(float(odd.inverse_temperature[-1])))
    )
    return Measured(
        int((soft.outcome == "specialised").sum()),
        _errors(soft, fresh),
        shared,
        _error_of(task, shared, fresh),
        _error_of(task, refined, fresh),
        star,
        _squared_errors(two, task.keys, task.values, fresh),
        _errors(one, fresh),
        least,
        _error_of(task, least, fresh),
        _gauges(task, fresh),
        odd.outcome,
        odd.form_cosine[:, -1],
        odd.span[:, -1],
        odd_risk,
        _errors(odd, fresh),
        erf_star,
        _figure(task, soft, one, odd, shared, least.risk),
        _notes(soft, shared),
        _tables(soft, one, odd, least.risk, erf_star),
    )


def _middle_heads(soft: HeadTrajectory) -> np.ndarray:
    """(2H, 2F) coordinates in the teachers' span of the unspecialised run of median risk."""
    rest = np.flatnonzero(soft.outcome == "unspecialised")
    if not rest.size:
        return SHARED
    by_risk = rest[np.argsort(soft.risk_at().excess[rest])]
    m = 2 * soft.heads
    return soft.gram[by_risk[rest.size // 2], -1, :m, m:]


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
    head = type(run.setup.predictor.head)(float(run.inverse_temperature[-1]))
    rows = [
        _squared_errors(MultiHead(head, run.heads), x[0::2], x[1::2], fresh) for x in vectors
    ]
    return np.array([r[0] for r in rows]), np.array([r[1] for r in rows])


def _squared_errors(
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
    return _squared_errors(MultiHead(Softmax(1.0), len(x) // 2), x[0::2], x[1::2], fresh)


def _gauges(
    task: MultiDirection, fresh: DirectionBatch
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Quadrature, mean and standard error on tokens, (4,) each, for four ways to write the same
    form, at the best inverse temperature of the first.
    """
    predictor = MultiHead(Erf(BEST), 2)
    pairs = gauges(task).values()
    exact = np.array([heads_risk(task, predictor, pair).excess for pair in pairs])
    mean, error = np.array([_squared_errors(predictor, *pair, fresh) for pair in pairs]).T
    return exact, mean, error


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
        level(ends, shared.risk, "unspecialised minimum", 1),
        level(ends, star, "(k_h*, v_h*)"),
    ]
    for i, name in enumerate(("specialised", "unspecialised")):
        use = soft.outcome == name
        if use.any():
            marks += spread(soft.step, soft.excess[use], name, i)
    oracle = [
        heads_risk(task, MultiHead(Erf(float(t)), 2), (task.keys, task.values)).excess
        for t in odd.inverse_temperature
    ]
    erf_risk = [
        *spread(odd.step, odd.excess, "two erf heads", 2),
        Line(odd.step, oracle, "(k_h*, v_h*), same inverse temperature", 6, dashed=True),
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
    final.append(level([1, RUNS], least, "best minimum of one head", 3))

    return figure(
        "Two directions: heads specialise in part of the runs (bands: 95 % of the runs)",
        panel(
            f"two softmax heads: {(soft.outcome == 'specialised').sum()} of {RUNS} specialise",
            "step",
            "excess risk",
            *marks,
            log="y",
        ),
        panel(
            "two erf heads, falling inverse temperature",
            "step",
            "excess risk",
            *erf_risk,
            log="y",
        ),
        panel(
            "erf: form learnt, heads not aligned",
            "step",
            "cosine",
            *form,
            y_range=(0.0, 1.05),
        ),
        panel("where the runs end", "run, by risk", "excess risk", *final, log="y"),
    )
