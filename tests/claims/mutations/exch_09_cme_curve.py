"""What makes the sentences of exch-09 false."""

from helpers.mutation import moved, replaced

KEEP = ("cme_curve", "_error_curve")


def _other_ridge(factor):
    """The equivalent at another ridge."""
    return lambda curve: lambda d, L, ridge, *args: curve(d, L, factor * ridge, *args)


def _exchanged(sampled):
    """The constant ridge has the errors of L^(3/4), and the reverse."""
    other = {"s^2": "L^(3/4)", "L^(3/4)": "s^2"}
    return lambda d, rule, *args: sampled(d, other.get(rule, rule), *args)


MUTATIONS = (
    *(
        replaced(
            key, "the equivalent has three times the ridge", "cme_curve", _other_ridge(3.0)
        )[0]
        for key in ("constant-2", "constant-3", "constant-5", "root-3", "proof-3")
    ),
    *moved("slopes", "SLOPES", entry="s^2", by=0.12),
    *moved("slopes", "SLOPES", entry="L^(3/4)", by=0.12),
    *replaced(
        "slopes", "the growing ridge has the steeper slope", "_error_curve", _exchanged
    ),
    *moved("exponent", "EXPONENT"),
    *moved("later", "LATER_SLOPE"),
    *replaced(
        "exponent",
        "the ridge grows as L^(1/2)",
        "cme_curve",
        lambda curve: lambda d, L, ridge, *args: curve(d, L, ridge ** (2 / 3), *args),
    ),
)
