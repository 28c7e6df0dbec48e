"""
Which exponent to expect from your tokens
=========================================

Points of a curved surface are laid into 50 dimensions. Their two nearest neighbours give the
surface's dimension, and with the smoothness of what is to be learnt the exponent of the learning
curve. The curve itself comes from the spectrum alone: the 50 dimensions do not occur in it.
"""

import sys

import numpy as np

import attnscope as at
from attnscope.figures.figure import Figure, Line, Panel, Points

SMOOTHNESS = 1.0
NOISE = 0.5


def main(out: str = "which_exponent.png", n: int = 1000) -> None:
    rng = np.random.default_rng(0)
    dimensions = np.array([1, 2, 3, 4])
    found = [at.intrinsic_dimension(sphere(m, n, 50, rng)) for m in dimensions]
    lengths = np.unique(np.geomspace(32, 10**5, 24).astype(int))
    curves = []
    for m, estimate in zip(dimensions, found):
        s = at.sphere_spectrum(int(m), SMOOTHNESS, top=2000)
        curve = at.kernel_bayes_curve(s.eigenvalues, s.multiplicities, NOISE, lengths)
        curves.append(Line(lengths, curve.excess, f"m = {m}", int(m) - 1))
        exponent = -2 * SMOOTHNESS / (2 * SMOOTHNESS + estimate.value)
        slope = np.log(curve.excess[-1] / curve.excess[-6]) / np.log(
            lengths[-1] / lengths[-6]
        )
        print(
            f"m = {m}: measured {estimate.value:.2f} +- {estimate.error:.2f}, exponent to expect "
            f"{exponent:.3f}, slope of the curve at {lengths[-1]} tokens {slope:.3f}"
        )
    measured = (
        Line([1, 4], [1, 4], "true", 6, dashed=True),
        Points(
            dimensions,
            [e.value for e in found],
            "two nearest neighbours, 2 errors",
            6,
            [2 * e.error for e in found],
        ),
    )
    panels = (
        Panel("dimension of tokens in R^50", "true", "measured", measured),
        Panel(
            "learning curves", "tokens", "excess error", tuple(curves), log_x=True, log_y=True
        ),
    )
    Figure("The exponent knows the intrinsic dimension only", panels, columns=2).save(out)
    print(f"wrote {out}")


def sphere(m: int, n: int, ambient: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform points of an m-sphere, turned into R^ambient."""
    x = rng.standard_normal((n, m + 1))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x @ np.linalg.qr(rng.standard_normal((ambient, m + 1)))[0].T


if __name__ == "__main__":
    main(*sys.argv[1:2])
