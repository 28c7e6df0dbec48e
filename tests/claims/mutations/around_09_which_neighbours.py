"""What makes the sentences of around-09 false."""

import numpy as np
from helpers.mutation import moved, replaced

KEEP = ("_context", "field", "_coefficients", "_layers", "_figure")
REBUILT = {
    "scores' gain less residuals' at too wide a radius": "features with phi = -0.9 in place of 0: a "
    "difference of -0.0066 in place of -0.0017, which the maps resolve",
}


def _larger(gains):
    """Gains 30 % larger."""
    return lambda s, w: 1.3 * gains(s, w)


def _even(means):
    """Gains by features, scores and residuals that do not differ, and do not fall with the radius."""

    def mean(values):
        found, error = means(values)
        if np.shape(found) == (3,):
            found = np.full(3, found.mean())
        return found, error

    return mean


def _least_squares_is_right(coefficients):
    """Least squares finds the coefficient."""

    def found(rho, *rest):
        mean, error = coefficients(rho, *rest)
        return np.array([rho, mean[1]]), error

    return found


def _likelihood_overstates(coefficients):
    return lambda *args: (coefficients(*args)[0] * [1, 1.2], coefficients(*args)[1])


def _slow_layers(layers):
    """Layers that leave twice the squared distance."""
    return lambda *args: (layers(*args)[0], 2 * layers(*args)[1], layers(*args)[2])


def _wrong_rate(layers):
    """The rate (rho w)^k in place of (rho w)^(2k): the square root of the ratio to 1."""
    return lambda *args: (layers(*args)[0] ** 0.5, *layers(*args)[1:])


MUTATIONS = (
    *(
        mutation
        for key in (
            "gains-features",
            "gains-scores",
            "gains-residuals",
            "radius-2",
            "radius-4",
        )
        for mutation in replaced(key, "gains 30 % larger", "gains", _larger)
    ),
    *moved("named", "MARGINS", entry=2),
    *replaced("falls", "all gains are alike", "_mean", _even),
    *moved("falls", "BY_RADIUS", entry=0),
    *replaced(
        "wide",
        "the order does not turn",
        "gains",
        lambda gains: lambda s, w: gains(s, w)[[0, 2, 1]],
    ),
    *moved("turned", "TURNED_MARGIN"),
    *replaced(
        "turned",
        "the order does not turn",
        "gains",
        lambda gains: lambda s, w: gains(s, w)[[0, 2, 1]],
    ),
    *moved("overstates", "LEAST_SQUARES", entry=1),
    *replaced(
        "overstates", "least squares is right", "_coefficients", _least_squares_is_right
    ),
    *replaced(
        "likelihood", "likelihood overstates too", "_coefficients", _likelihood_overstates
    ),
    *(
        mutation
        for made in ("scores", "residuals")
        for mutation in replaced(
            f"rho-{made}",
            "likelihood overstates by 5 %",
            "COEFFICIENT",
            lambda c: {name: x / 1.05 for name, x in c.items()},
        )
    ),
    *replaced("layers", "the rate without the square", "_layers", _wrong_rate),
    *replaced("left", "layers leave twice as much", "_layers", _slow_layers),
    *moved("left", "LAYER_ERRORS", entry=4, by=0.2),
)

REBUILT |= dict.fromkeys(
    (
        "closed form, 12 x 12 tiles, made by features, radius 1",
        "closed form, 12 x 12 tiles, made by scores, radius 1",
        "closed form, 12 x 12 tiles, made by residuals, radius 1",
        "closed form, 12 x 12 tiles, made by scores, radius 2",
    ),
    "left out: no sentence names it",
)
