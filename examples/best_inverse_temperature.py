"""
How sharp should attention be?
==============================

The exact risk of three predictors at the oracle, against inverse temperature (which multiplies the
scores), with what no predictor can beat. The risk of softmax falls exponentially with the
dimension, as the Bayes risk does (which also uses the tokens' norms); that of erf hardly falls; the
best activation without normalisation is between them.
"""

import numpy as np

import attnscope as at
from attnscope.figures.figure import Figure, Line, Panel

oracle = at.Overlaps.oracle()
panels = []
for dim in (40, 80):
    task = at.SingleLocation(dim=dim, length=10)
    erf_at = np.geomspace(0.02, 2, 60)
    soft_at = np.geomspace(0.1, 20, 60)
    erf = [at.risk(task, at.Erf(t), oracle).excess for t in erf_at]
    soft = [at.risk(task, at.Softmax(t), oracle).excess for t in soft_at]
    best_sigma = at.risk(task, at.optimal_sigma(task), oracle).excess
    ends = [0.02, 20]
    bayes = task.bayes_risk().excess
    linear = task.linear_risk().excess
    curves = [(erf_at, erf, "erf"), (soft_at, soft, "softmax")]
    curves += [(ends, [best_sigma] * 2, "best componentwise"), (ends, [bayes] * 2, "Bayes")]
    curves += [(ends, [linear] * 2, "best linear")]
    marks = tuple(
        Line(x, y, name, color, dashed=color > 1) for color, (x, y, name) in enumerate(curves)
    )
    room = bayes * 10.0 ** -(dim / 10 + 2)  # below the lowest curve, for the legend
    labels = {
        "x_label": "inverse temperature",
        "y_label": "excess risk",
        "log_x": True,
        "log_y": True,
    }
    panels.append(Panel(f"d = {dim}, L = 10", marks=marks, y_range=(room, 20), **labels))

    inverse_temperature, best = at.optimal_inverse_temperature(task, at.Softmax)
    print(
        f"d = {dim}: best softmax inverse temperature {inverse_temperature:.2f}, risk "
        f"{best.excess:.3g}; Bayes {bayes:.3g}"
    )
    inverse_temperature, best = at.optimal_inverse_temperature(task, at.Erf)
    critical = at.critical_inverse_temperature(task)
    print(
        f"d = {dim}: best erf inverse temperature {inverse_temperature:.4f}, risk "
        f"{best.excess:.3g}; above {critical:.3f} a saddle"
    )

Figure("Exact excess risk at the oracle", tuple(panels), columns=2).save(
    "best_inverse_temperature.png"
)
