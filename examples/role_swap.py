"""
Why half the training runs swap roles
=====================================

At inverse temperature 0.1 the population risk of the erf predictor has two kinds of minima on the
spheres: the oracle (k, v) = +-(k*, v*), and the swapped one, with k along v* and v along k*. Which
one a run reaches is decided at its start, by a rule in the four small overlaps.
"""

import numpy as np

import attnscope as at
from attnscope.figures.figure import Figure, Heat, Line, Panel, Points

task = at.SingleLocation(dim=400, length=10)
predictor = at.Erf(0.1)

points = {point.name: point for point in at.stationary_points(task, predictor)}
for point in points.values():
    print(f"{point.name:12s} {point.kind:8s} risk {float(point.risk):.5f}")

# The exact risk on a surface that holds both minima: k turns from k* to v*, v from v* to its place
# w in the swapped minimum. w is orthogonal to v*, and only partly along k*.
angle = np.linspace(-0.2, np.pi / 2 + 0.2, 81)
share = points["swapped"].overlaps.theta
a, b = np.meshgrid(angle, angle)
rho = np.sin(a) * np.cos(b) + share * np.cos(a) * np.sin(b)
risk = at.risk(
    task, predictor, at.Overlaps(np.cos(a), np.sin(a), share * np.sin(b), np.cos(b), rho)
)

# Two hundred exact runs from random starts, and where they end.
run = at.train(
    task, predictor, runs=200, steps=20_000, step_size=4e-3, log_every=200, progress=False
)
names, counts = np.unique(run.outcome, return_counts=True)
print(", ".join(f"{count} runs end {name}" for name, count in zip(names, counts)))

# The rule that foretells it from the start alone.
start = at.Overlaps(*(np.asarray(overlap)[:, 0] for overlap in run.overlaps))
foretold = at.basin_prediction(task, 0.1, start)
print(f"foretold from the start: {np.mean(foretold == run.outcome):.1%}")

ends = {"oracle": "end at the oracle", "swapped": "end swapped"}
paths = []
early = []
for color, (name, label) in enumerate(ends.items()):
    for count, i in enumerate(np.flatnonzero(run.outcome == name)[:30]):
        label = label if count == 0 else ""
        paths.append(Line(run.step[1:], run.excess[i, 1:], label, color=color, thin=True))
        product = (
            np.abs(run.overlaps.kappa[i] * run.overlaps.nu[i]),
            np.abs(run.overlaps.eta[i] * run.overlaps.theta[i]),
        )
        early.append(Line(*product, label, color=color, thin=True))

heat = Heat(angle, angle, risk.excess, "excess risk", log_z=True)
minima = (
    Points([0], [0], "oracle", color=4),
    Points([np.pi / 2], [np.pi / 2], "swapped", color=1),
)
figure = Figure(
    "Two minima, and which start reaches which",
    (
        Panel(
            "exact risk from oracle to swapped",
            "angle of k, from k* to v*",
            "angle of v, from v* to w",
            (heat, *minima),
        ),
        Panel("60 runs", "step", "excess risk", tuple(paths), log_y=True),
        Panel(
            "the same runs",
            "|kappa nu|",
            "|eta theta|",
            tuple(early),
            log_x=True,
            log_y=True,
            x_range=(1e-7, 1),
            y_range=(1e-7, 1),
        ),
    ),
    columns=3,
)
figure.save("role_swap.png")
