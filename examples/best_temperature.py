"""
How sharp should attention be?
==============================

The exact risk of three predictors at the oracle, against temperature (which multiplies the scores), with what no
predictor can beat. The risk of softmax falls exponentially with the dimension, as the Bayes risk does (which also
uses the tokens' norms); that of erf hardly falls; the best activation without normalisation is between them.
"""

import numpy as np

import attnscope as at
from attnscope.figures.figure import Figure, Line, Panel

oracle = at.Overlaps.oracle()
panels = []
for dim in (40, 80):
    task = at.SingleLocation(dim=dim, length=10)
    erf_at, soft_at = np.geomspace(0.02, 2, 60), np.geomspace(0.1, 20, 60)
    erf = [at.risk(task, at.Erf(t), oracle).excess for t in erf_at]
    soft = [at.risk(task, at.Softmax(t), oracle).excess for t in soft_at]
    best_sigma = at.risk(task, at.optimal_sigma(task), oracle).excess
    level = lambda risk: [risk, risk]
    ends = [0.02, 20]
    marks = (
        Line(erf_at, erf, "erf"),
        Line(soft_at, soft, "softmax", color=1),
        Line(ends, level(best_sigma), "best componentwise", color=2, dashed=True),
        Line(ends, level(task.bayes_risk().excess), "Bayes", color=3, dashed=True),
        Line(ends, level(task.linear_risk().excess), "best linear", color=4, dashed=True),
    )
    panels.append(
        Panel(
            f"d = {dim}, L = 10",
            "temperature",
            "excess risk",
            marks,
            log_x=True,
            log_y=True,
            y_range=(task.bayes_risk().excess / 1e4, 20),
        )
    )

    temperature, best = at.optimal_temperature(task, at.Softmax)
    print(
        f"d = {dim}: best softmax temperature {temperature:.2f}, risk {best.excess:.3g}; Bayes {task.bayes_risk().excess:.3g}"
    )
    temperature, best = at.optimal_temperature(task, at.Erf)
    critical = at.critical_temperature(task)
    print(f"d = {dim}: best erf temperature {temperature:.4f}, risk {best.excess:.3g}; above {critical:.3f} a saddle")

Figure("Exact excess risk at the oracle", tuple(panels), columns=2).save("best_temperature.png")
