"""What makes the sentences of beyond-18 false."""

from helpers.mutation import moved, replaced

KEEP = ("_borders_by_diagram", "_sampled_loss_difference", "_figure")


def measured_with(change):
    """The borders by the diagram, changed."""
    return lambda measured: lambda: change(measured())


MUTATIONS = (
    *replaced(
        "lead",
        "the lead is exchanged where A is 1 % larger",
        "lead",
        lambda lead: lambda w, at: 1.01 * lead(w, at),
    ),
    *replaced(
        "drawn",
        "on drawn tokens the semantic end is lower by half the barrier",
        "_sampled_loss_difference",
        lambda drawn: (
            lambda *args: (lambda mean, error: (mean - 0.006, error))(*drawn(*args))
        ),
    ),
    *moved("stated", "CONTRASTS", entry=0),
    *moved("stated", "CONTRASTS", entry=1),
    *moved("stated", "CONTRASTS", entry=2),
    *replaced(
        "semantic",
        "both minima end at one contrast",
        "_borders_by_diagram",
        measured_with(lambda three: [three[0], 0.9 * three[1], three[2]]),
    ),
    *replaced(
        "positional",
        "both minima begin at one contrast",
        "_borders_by_diagram",
        measured_with(lambda three: [three[0], three[1], 1.1 * three[2]]),
    ),
    *replaced(
        "straight",
        "the borders are straight in (1/w, c)",
        "_borders_by_diagram",
        measured_with(lambda three: [c[0] + (c - c[0]) ** 2 for c in three]),
    ),
    *moved("barrier", "BARRIER"),
    *replaced("barrier", "there is no barrier", "_barrier", lambda height: lambda: 0.0),
)
