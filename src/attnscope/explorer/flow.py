"""The direction of gradient descent on the two unit spheres, seen in the overlaps.

notation: R_i = partial derivative of the risk in overlap i; k* perpendicular to v*.

With dk/dt = -(I - k k^T) grad_k R, grad_k R = R_kap k* + R_eta v* + R_rho v, and the same for v,

    kap' = -(R_kap (1 - kap^2) - R_eta kap eta + R_rho (the - kap rho)),    eta' = -(R_eta (1 - eta^2) - R_kap kap eta + R_rho (nu - eta rho)),
    the' = -(R_the (1 - the^2) - R_nu the nu + R_rho (kap - the rho)),      nu'  = -(R_nu (1 - nu^2) - R_the the nu + R_rho (eta - nu rho)),
    rho' = -(R_kap (the - rho kap) + R_eta (nu - rho eta) + R_the (kap - rho the) + R_nu (eta - rho nu) + 2 R_rho (1 - rho^2)).
"""

from __future__ import annotations

from attnscope.predictors.attention import Predictor
from attnscope.tasks.single_location import SingleLocation
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk_gradient

__all__ = ["descent"]


def descent(task: SingleLocation, predictor: Predictor, overlaps: Overlaps) -> Overlaps:
    """Time derivatives of the five overlaps under the gradient flow of the risk, for a task with key perpendicular to value."""
    kap, eta, the, nu, rho = overlaps
    R = risk_gradient(task, predictor, overlaps)
    return Overlaps(
        kappa=-(R.kappa * (1 - kap**2) - R.eta * kap * eta + R.rho * (the - kap * rho)),
        eta=-(R.eta * (1 - eta**2) - R.kappa * kap * eta + R.rho * (nu - eta * rho)),
        theta=-(R.theta * (1 - the**2) - R.nu * the * nu + R.rho * (kap - the * rho)),
        nu=-(R.nu * (1 - nu**2) - R.theta * the * nu + R.rho * (eta - nu * rho)),
        rho=-(
            R.kappa * (the - rho * kap)
            + R.eta * (nu - rho * eta)
            + R.theta * (kap - rho * the)
            + R.nu * (eta - rho * nu)
            + 2 * R.rho * (1 - rho**2)
        ),
    )
