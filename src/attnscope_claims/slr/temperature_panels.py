"""The panels of slr-14: risks by inverse temperature and by dimension, the best and the critical
inverse temperature by dimension. Lines are exact.
"""

from __future__ import annotations

import math

import numpy as np

from attnscope.claims.series import Series
from attnscope.figures.figure import Line, Panel, Points
from attnscope.predictors.attention import Erf, Predictor, Softmax
from attnscope.tasks.planted.single_location import SingleLocation
from attnscope.theory.optima.optimal_sigma import optimal_sigma
from attnscope.theory.optima.optimum import optimal_temperature
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk
from attnscope_claims.drawing import level, panel
from attnscope_claims.slr.temperature_routes import critical_law

__all__ = ["by_dimension", "by_temperature", "critical_panel", "excess"]

Sizes = tuple[tuple[int, int], ...]  # (d, L)


def excess(task: SingleLocation, predictor: Predictor) -> float:
    """Excess risk at (k*, v*)."""
    return float(risk(task, predictor, Overlaps.oracle()).excess)


def by_temperature(task: SingleLocation, drawn: dict[type[Predictor], Series]) -> Panel:
    """Risk of erf and softmax by inverse temperature; `drawn`: by kind."""
    grid = np.geomspace(0.01, 20, 45)
    names = {Erf: "erf", Softmax: "softmax"}
    exact_line = lambda x, name, color: level([0.01, 20], x, name, color)
    return panel(
        f"d = {task.dim}, L = {task.length} (lines exact, points sampled)",
        "temperature",
        "excess risk",
        exact_line(0.5, "null", 6),
        *(
            mark
            for i, kind in enumerate(drawn)
            for mark in drawn[kind].marks(
                names[kind], i, (grid, [excess(task, kind(float(x))) for x in grid])
            )
        ),
        exact_line(excess(task, optimal_sigma(task)), "optimal sigma", 2),
        exact_line(float(task.bayes_risk().excess), "Bayes", 3),
        log="xy",
    )


def by_dimension(sigma: Series, bayes: Series) -> Panel:
    """Best risks by dimension, L = 10."""
    dims = np.array([4, 7, 10, 20, 30, 50, 70, 100, 150, 200])
    tasks = [SingleLocation(int(d), 10) for d in dims]
    return panel(
        "best temperature of each, L = 10",
        "dimension d",
        "excess risk",
        Line(dims, [optimal_temperature(t, Erf)[1].excess for t in tasks], "erf", 0),
        *sigma.marks(
            "optimal sigma", 2, (dims, [excess(t, optimal_sigma(t)) for t in tasks])
        ),
        Line(dims, [optimal_temperature(t, Softmax)[1].excess for t in tasks], "softmax", 1),
        *bayes.marks("Bayes", 3, (dims, [float(t.bayes_risk().excess) for t in tasks])),
        log="y",
        y_range=(1e-21, 10),
    )


def critical_panel(sizes: Sizes, found: np.ndarray) -> Panel:
    """Critical inverse temperatures of erf; `found` at `sizes`, by gradients."""
    curves = [
        (L, color, np.geomspace(50 if L < 100 else 250, 1e8, 80))
        for L, color in ((3, 6), (10, 4), (100, 5))
    ]
    return panel(
        "critical temperature of erf (points: gradients)",
        "dimension d",
        "temperature",
        *(
            Line(
                d,
                [critical_law(SingleLocation(int(x), L)) for x in d],
                f"L = {L}",
                color,
            )
            for L, color, d in curves
        ),
        *(
            Points(
                [d for d, L in sizes if length == L],
                found[[length == L for _, L in sizes]],
                f"L = {length}",
                color,
            )
            for length, color, _ in curves
        ),
        level([50, 1e8], math.sqrt(3) / 2, "sqrt(3)/2"),
        log="x",
        y_range=(0.8, 1.6),
    )
