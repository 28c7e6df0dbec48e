"""What makes the sentences of slr-02 false."""

from helpers.mutation import replaced

from attnscope.predictors.attention import Erf
from attnscope.theory.overlaps import as_arrays
from attnscope.theory.risk import unchecked_risk

KEEP = ("_sampled_risks", "_on_vectors")


def _blind_to(name):
    """The closed form without one of its overlaps."""
    return lambda risk: (
        lambda task, predictor, o, *args: (
            unchecked_risk(
                task,
                predictor,
                as_arrays(o._replace(**{name: 0.0})),
                predictor.inverse_temperature,
            )
            if isinstance(predictor, Erf) and not args
            else risk(task, predictor, o, *args)
        )
    )


def _of_scores(errors):
    """Means and standard errors, the latter times `errors`."""
    return lambda drawn: lambda *args: drawn(*args) * [1.0, errors]


MUTATIONS = (
    *(
        replaced(
            "quadrature", f"the risk does not depend on {name}", "risk", _blind_to(name)
        )[0]
        for name in ("kappa", "eta", "theta", "nu", "rho")
    ),
    *replaced(
        "away",
        "the settings are on the manifold",
        "Overlaps",
        lambda overlaps: lambda kappa, eta, theta, nu, rho: overlaps(kappa, 0, 0, nu, 0),
    ),
    *replaced(
        "projections",
        "sampling gives 3 % more",
        "_sampled_risks",
        lambda drawn: lambda *args: drawn(*args) * [1.03, 1.0],
    ),
    *replaced(
        "scores",
        "the standard errors are three times too large",
        "_sampled_risks",
        _of_scores(3),
    ),
    *replaced(
        "scores",
        "the standard errors are half of the truth",
        "_sampled_risks",
        _of_scores(0.5),
    ),
)
