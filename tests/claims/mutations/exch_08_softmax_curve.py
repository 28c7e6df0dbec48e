"""What makes the sentences of exch-08 false."""

from helpers.mutation import moved, replaced

DROPPED = "dropped: no sentence speaks of it, and another comparison or test covers it"
KEEP = ("softmax_curve", "_error_curve")


def _wider(curve):
    """The error at a bandwidth that is 5 % larger."""
    return lambda d, L, h, *args, **gain: curve(d, L, 1.05 * h, *args, **gain)


def _keeps_everything(curve):
    """The curve of a bandwidth of at most 0.4, which keeps more of a linear function."""
    return lambda d, L, h, *args, **gain: curve(d, L, min(h, 0.4), *args, **gain)


MUTATIONS = (
    *(
        replaced(
            f"curve-{d}", "the curve is that of a wider kernel", "softmax_curve", _wider
        )[0]
        for d in (2, 3, 5)
    ),
    *(m for d in (2, 3, 5) for m in moved("slopes", "SLOPES", entry=d, by=0.04)),
    *replaced(
        "exponents",
        "the exponent is -2/(d+1)",
        "exponent",
        lambda exponent: lambda d: -2 / (d + 1),
    ),
    *replaced(
        "exponents",
        "the bandwidth falls as L^(-1/(d+3))",
        "shrinking",
        lambda shrinking: lambda d, L: shrinking(d, L) ** 0.5,
    ),
    *replaced("fixed", "softmax keeps more", "softmax_curve", _keeps_everything),
    *replaced(
        "law",
        "the plateau is (1 - rho_2)^2",
        "softmax_expansion",
        lambda expansion: lambda d, L, h, noise: expansion(d, L, h, noise, (0.0, 0.0, 1.0)),
    ),
    *moved("plateau", "PLATEAU"),
    *replaced("plateau", "softmax keeps more", "softmax_curve", _keeps_everything),
)

REBUILT = {
    "slope in L, d = 2": DROPPED,
    "slope in L, d = 3": DROPPED,
    "slope in L, d = 5": DROPPED,
    "expansion to 1/L against the integral, L = 1024": DROPPED,
    "slope at fixed h with gain 1/rho_1": DROPPED,
}
