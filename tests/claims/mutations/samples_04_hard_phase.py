"""What makes the sentences of samples-04 false."""

from helpers.mutation import moved, replaced

KEEP = ("fits", "_theory", "_channel_solutions", "_figure")


def started_at(place):
    """Both runs of message passing from zero (0), or both from near the truth (1)."""

    def change(fits):
        def changed(setting, alpha, dim, count, seed, informed=False):
            more = {"informed": True} if place else {}
            return fits(setting, alpha, dim, count, [*seed[:2], place], **more)

        return changed

    return change


def drawn_with(**changes):
    """The solutions on drawn bags with some numbers changed by factors."""
    return lambda drawn: (
        lambda *args: (
            lambda it: it._replace(
                **{name: getattr(it, name) * factor for name, factor in changes.items()}
            )
        )(drawn(*args))
    )


MUTATIONS = (
    *moved("count", "SOLUTIONS"),
    *moved("solutions", "POOR_OVERLAPS", entry=1, by=0.02),
    *moved("solutions", "GOOD_OVERLAPS", entry=1, by=0.001),
    *moved("quadrature", "POOR_OVERLAPS", entry=1, by=0.01),
    *replaced(
        "solutions",
        "both starts end at the poor solution",
        "_channel_solutions",
        lambda drawn: (
            lambda *args: (lambda it: it._replace(overlaps=it.overlaps[[0, 1, 0, 1]]))(
                drawn(*args)
            )
        ),
    ),
    *moved("gain", "GAIN"),
    *replaced(
        "gain", "the evidence prefers neither", "_channel_solutions", drawn_with(gain=0.0)
    ),
    *moved("possible", "POSSIBLE_ALPHA"),
    *replaced(
        "possible",
        "preferred from alpha = 1.5 on",
        "_channel_solutions",
        drawn_with(possible=1.05),
    ),
    *replaced("zero", "message passing finds the good one", "fits", started_at(1)),
    *replaced("near", "message passing leaves the good one", "fits", started_at(0)),
)
