"""What makes the sentences of beyond-03 false."""

import math

from helpers.mutation import moved, replaced

KEEP = (
    "_over_leading",
    "_slope",
    "_fixed_slope",
    "_softmax_risk",
    "_least_linear",
    "_figure",
)

MUTATIONS = (
    *replaced(
        "leading",
        "L instead of L - 1 in the leading term",
        "_over_leading",
        lambda over: lambda length, nu: over(length, nu) * (length - 1) / length,
    ),
    *replaced(
        "softmax",
        "softmax has 1 % more risk than Bayes",
        "_softmax_risk",
        lambda softmax: lambda nu: 1.01 * softmax(nu),
    ),
    *moved("fixed", "FIXED_RATE"),
    *replaced(
        "exponent",
        "E(r) = 1/4 - r beyond r = 1/8 too",
        "spiked_exponent",
        lambda exponent: lambda r: 0.25 - r,
    ),
    *replaced(
        "exponent",
        "E(r) = (1/sqrt 2 - sqrt r)^2 below r = 1/8 too",
        "spiked_exponent",
        lambda exponent: lambda r: (math.sqrt(0.5) - math.sqrt(r)) ** 2,
    ),
    *replaced(
        "linear",
        "linear attention falls like 1/nu^2",
        "_least_linear",
        lambda least: lambda length, nu: least(length, nu) / nu,
    ),
)

REBUILT = dict.fromkeys(
    ("the same at nu = 80, L = 2 to 1000: published digits",),
    "left out: no sentence names it",
)
