"""
Which digit decided?
====================

Bags of eight handwritten digits; the label of a bag is read off its only 0. The model sees bags and
labels and is never told that the 0 matters. Test bags hold images that training never saw.

Run ``python examples/which_digit.py which_digit.svg`` to choose where the figure goes.
"""

import sys

import matplotlib.figure
import numpy as np

import attnscope as at
from attnscope.corpora.digits import DigitBags


def main(out: str = "which_digit.png", bags: int = 400) -> None:
    train = at.digit_bags(bags, rule="key", part="train", seed=1)
    test = at.digit_bags(200, rule="key", part="test", seed=2)
    # images are drawn again and again: bags with the same 0 are held out together
    zeros = train.tokens[np.arange(bags), train.location]
    groups = np.unique(zeros, axis=0, return_inverse=True)[1]
    model = at.SingleLocationRegressor(random_state=0)
    model.fit(train.tokens, train.target, groups=groups)
    error = np.mean((model.predict(test.tokens) - test.target) ** 2) / np.var(test.target)
    found = model.locate(test.tokens)
    print(
        f"error {error:.3f} of the labels' variance; the 0 is found in "
        f"{np.mean(found == test.location):.1%} of the test bags"
    )
    draw(test, model.attention(test.tokens), found, out)


def draw(
    test: DigitBags, weights: np.ndarray, found: np.ndarray, out: str, rows: int = 4
) -> None:
    """A row is a bag; under each image its weight, around the located one a frame."""
    figure = matplotlib.figure.Figure(figsize=(8, 1.25 * rows), layout="constrained")
    for i, axes in enumerate(figure.subplots(rows, test.tokens.shape[1])):
        for l, place in enumerate(axes):
            place.imshow(test.tokens[i, l].reshape(8, 8), cmap="gray_r")
            place.set(xticks=[], yticks=[], xlabel=f"{weights[i, l]:.2f}")
            for edge in place.spines.values():
                edge.set(color="#D55E00" if l == found[i] else "none", linewidth=3)
        axes[0].set_ylabel(f"bag {i}")
    figure.suptitle("weight of each image; the framed one decides")
    figure.savefig(out, dpi=150)
    print(f"wrote {out}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
