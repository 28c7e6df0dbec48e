"""What makes the sentences of exch-16 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("_fit_parameters",)


def _other(part, factor):
    """Supervised training finds this part of the parameter times the factor."""

    def change(fitted):
        def fit(objective, *rest):
            vector, covariance = fitted(objective, *rest)
            scale = np.ones_like(vector)
            if objective == "supervised":
                scale[part] = factor
            return vector * scale, covariance

        return fit

    return change


SCORES, OUTPUT = slice(0, 9), slice(9, None)
MUTATIONS = (
    *(
        mutation
        for key in ("entries-16", "entries-32", "whole-16", "whole-32")
        for mutation in replaced(
            key,
            "supervised scores are a third sharper",
            "_fit_parameters",
            _other(SCORES, 4 / 3),
        )
    ),
    *moved("minimiser", "INVERSE_BANDWIDTH", entry=0, by=0.01),
    *moved("minimiser", "INVERSE_BANDWIDTH", entry=1, by=0.01),
    *moved("minimiser", "GAIN", entry=0, by=0.02),
    *moved("minimiser", "GAIN", entry=1, by=0.02),
    *replaced(
        "scores-16", "supervised scores are flatter", "_fit_parameters", _other(SCORES, 0.8)
    ),
    *replaced(
        "scores-32", "supervised scores are flatter", "_fit_parameters", _other(SCORES, 0.8)
    ),
    *replaced(
        "gain-16", "supervised gains are smaller", "_fit_parameters", _other(OUTPUT, 0.9)
    ),
    *replaced(
        "gain-32", "supervised gains are smaller", "_fit_parameters", _other(OUTPUT, 0.9)
    ),
)
