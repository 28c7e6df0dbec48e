"""What makes the sentences of beyond-08 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("measured",)


def _with(**fields):
    """The measurement with some fields changed: name -> function of the measurement."""
    return lambda measured: (
        lambda context: (
            lambda found: found._replace(**{name: f(found) for name, f in fields.items()})
        )(measured(context))
    )


def _saddle(found):
    return found.shared._replace(check_eigenvalues=-found.shared.check_eigenvalues)


MUTATIONS = (
    *replaced(
        "kinds",
        "all runs specialise",
        "measured",
        _with(soft=lambda found: (0 * found.soft[0], found.soft[1])),
    ),
    *replaced(
        "minimum", "the unspecialised state is a saddle", "measured", _with(shared=_saddle)
    ),
    *moved("unspecialised", "UNSPECIALISED_RISK"),
    *replaced(
        "ends-there",
        "unspecialised runs end where one head does",
        "measured",
        _with(refined_error=lambda found: found.least_error),
    ),
    *moved("span", "SPAN_SHARE", up=True, by=0.1),
    *moved("form", "FORM_COSINE", up=True, by=0.04),
    *replaced(
        "not-aligned",
        "erf heads specialise like softmax heads",
        "measured",
        _with(erf_outcome=lambda found: np.full(found.erf_outcome.shape, "specialised")),
    ),
    *moved("below", "SHARE_BELOW", up=True, by=0.2),
    *replaced(
        "below",
        "erf runs have a twentieth more risk",
        "measured",
        _with(erf_risk=lambda found: 1.05 * found.erf_risk),
    ),
    *replaced(
        "gauges",
        "the gauge has no effect",
        "measured",
        _with(
            gauges=lambda found: (0 * found.gauges[0] + found.gauges[0][0], *found.gauges[1:])
        ),
    ),
    *moved("one", "ONE_HEAD"),
    *replaced(
        "one-runs",
        "one head serves two directions",
        "measured",
        _with(one=lambda found: (0 * found.one[0] + found.star, found.one[1])),
    ),
)
