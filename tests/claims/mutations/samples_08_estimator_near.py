"""What makes the sentences of samples-08 false."""

from helpers.mutation import moved, replaced

KEEP = ("risks", "passing", "curve")


def at(alphas, factor):
    """The estimator's risk, times a factor where n/d is among these."""
    return lambda risks: (
        lambda alpha, seed: (
            lambda best, ours: (best, ours * (factor if alpha in alphas else 1))
        )(*risks(alpha, seed))
    )


REBUILT = {
    f"{what}, n = {alpha} d": (
        "the mean ratio itself is stated and compared, to 5 sd of its mean, and n = 2 d is included"
    )
    for what in ("risk over message passing's on the same bags", "risk against the curve")
    for alpha in (4, 8, 16)
}

MUTATIONS = (
    *moved("ratio", "RATIOS", entry=4, by=0.06),
    *moved("ratio", "RATIOS", entry=8, by=0.03),
    *moved("ratio", "RATIOS", entry=16, by=0.02),
    *moved("ratio", "RATIOS", entry=2, by=0.2),
    *replaced("ratio", "5 % more risk at 4 d", "risks", at((4,), 1.05)),
    *replaced("ratio", "3 % more risk at 8 d and 16 d", "risks", at((8, 16), 1.03)),
    *replaced("ratio", "20 % more risk at 2 d", "risks", at((2,), 1.2)),
    *replaced("curve", "10 % more risk everywhere", "risks", at((2, 4, 8, 16), 1.1)),
    *replaced(
        "curve",
        "the curve is that of twice as many bags",
        "curve",
        lambda curve: lambda alpha: curve([2 * a for a in alpha]),
    ),
)
