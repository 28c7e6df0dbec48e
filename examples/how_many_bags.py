"""
How many bags do I need?
========================

The least risk from n = alpha d bags, whatever the estimator, against what an estimator reaches on
drawn bags of this size: message passing, which knows the strength of the spike and the noise, and
the inverse question with its answer in bags.
"""

import sys

import numpy as np

import attnscope as at
from attnscope.figures.figure import Figure, Line, Panel, Points

STRENGTH, LENGTH, NOISE = 5.0, 3, 0.1**0.5


def main(out: str = "how_many_bags.png", dim: int = 200) -> None:
    task = at.SingleLocation.spiked(dim, LENGTH, STRENGTH, NOISE)
    alpha = np.geomspace(0.3, 8, 25)
    curve = at.learning_curve(task, alpha)
    least = task.bayes_risk().value

    tried = [0.5, 1.0, 2.0, 4.0]
    test = task.sample(4000, seed=2)
    reached = []
    for a in tried:
        found = at.message_passing(task.sample(int(a * dim), seed=1), STRENGTH, NOISE)
        reached.append(np.mean((found.predict(test.tokens) - test.target) ** 2))
        print(
            f"alpha = {a:g}: risk {at.learning_curve(task, a).risk.value:.3f}, got {reached[-1]:.3f}"
        )

    for risk in (0.5, 0.35, 0.27):
        needed = at.bags_needed(task, risk)
        print(
            f"risk {risk}: {needed.bags} bags of dimension {dim}, {needed.alpha.value:.2f} d"
        )
    linear = at.LinearAttention(1.0, offset=1.0)
    fit = at.learning_curve(task, 4.0, linear, ridge=(0.26, 25.0))
    print(
        f"alpha = 4, linear attention fitted by ridge: risk {fit.risk.value:.3f}, "
        f"stability {fit.stability:.2f}"
    )
    known = at.learning_curve(task, 4.0, at.Softmax(1.0), ridge=0.1, key="oracle")
    print(f"alpha = 4, only the value fitted by ridge: risk {known.risk.value:.3f}")
    found = at.recovery_threshold(length=5, strength=1.0)
    print(
        f"five tokens, strength 1, no noise: the value is found from {found.reachable.value:.3f} d"
    )

    marks = (
        Line(alpha, curve.risk.value, "least risk, d large", 0),
        Points(tried, reached, f"message passing, d = {dim}", 1),
        Line(alpha[[0, -1]], [least, least], "infinitely many bags", 2, dashed=True),
    )
    panel = Panel("", "bags per dimension", "risk, noise included", marks, log_x=True)
    Figure("How many bags do I need?", (panel,)).save(out)
    print(f"wrote {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
