"""
Your own bags: fit, predict with intervals, ask which token decided
===================================================================

A list of arrays of unequal length and a number for each. Here the bags are made up: 3 to 12 tokens
in 20 dimensions; one token, at a random place, is shifted and sets the label.
"""

import sys

import numpy as np

import attnscope as at
from attnscope.figures.figure import Figure, Heat, Line, Panel, Points


def make_bags(n: int, seed: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Replace this by your data: bags[i] (L_i, d), labels (n,).
    The third, the deciding token, is only for comparison.
    """
    fixed = np.random.default_rng(0)
    rng = np.random.default_rng(seed)
    mix = fixed.standard_normal((20, 20)) / 4
    shift = fixed.standard_normal(20)
    readout = fixed.standard_normal(20)
    bags = [rng.standard_normal((rng.integers(3, 13), 20)) @ mix + 0.5 for _ in range(n)]
    location = np.array([rng.integers(len(bag)) for bag in bags])
    for bag, j in zip(bags, location):
        bag[j] += shift
    said = np.array([bag[j] @ readout for bag, j in zip(bags, location)])
    return bags, said + rng.standard_normal(n), location


def main(out: str = "own_bags.png", n: int = 300) -> None:
    bags, y, _ = make_bags(n, seed=1)
    test_bags, test_y, location = make_bags(200, seed=2)
    model = at.SingleLocationRegressor(random_state=0).fit(bags, y)
    predicted = model.predict(test_bags)
    interval = model.predict_interval(test_bags, coverage=0.9)
    inside = np.mean((interval[:, 0] <= test_y) & (test_y <= interval[:, 1]))
    found = np.mean(model.locate(test_bags) == location)
    quality = f"R^2 {model.score(test_bags, test_y):.3f}; token found in {found:.0%}"
    print(f"{quality}; {inside:.0%} of labels in their 90 % intervals")
    print(model.diagnose(test_bags, test_y))
    figure = Figure(
        "A fit to bags of unequal length",
        (predictions(test_y, predicted, interval), tokens(model, test_bags)),
        columns=2,
    )
    figure.save(out)
    print(f"wrote {out}")


def predictions(y: np.ndarray, predicted: np.ndarray, interval: np.ndarray) -> Panel:
    some = slice(40)
    half = (interval[some, 1] - interval[some, 0]) / 2
    ends = [float(y.min()), float(y.max())]
    marks = (
        Line(ends, ends, "", 6, dashed=True),
        Points(y[some], predicted[some], "90 % interval", 0, half),
    )
    return Panel("prediction against label", "label", "prediction", marks)


def tokens(model: at.SingleLocationRegressor, bags: list[np.ndarray]) -> Panel:
    """Rows are bags; blank where a bag has no more tokens."""
    weights = np.full((12, 12), np.nan)
    for row, weight in zip(weights, model.attention(bags[:12])):
        row[: len(weight)] = weight
    heat = Heat(range(12), range(12), weights, "weight")
    numbers = tuple(map(str, range(12)))
    return Panel(
        "which token decided", "token", "bag", (heat,), x_names=numbers, y_names=numbers
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
