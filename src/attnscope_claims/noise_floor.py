"""SGD near the oracle: the exact covariance of its gradient there, and the excess risk at which it
settles, to first order around the oracle.

notation: s = signal, J the informative position, tau_l = gamma for l = J and 1 else; token l has
the score u_l = x_l.k* = s 1{l=J} + tau_l N(0, 1), the value w_l = tau_l g_l with g_l normal, and
d - 2 further coordinates of variance tau_l^2; f_l = erf(lam u_l), c_l = lam erf'(lam u_l). H is the
Hessian on the spheres, N the covariance of the gradient on one sequence, alpha = step size, B =
batch size, eps = label noise.

SGD is x' = (I - alpha H) x - alpha n with n of covariance N/B. Its covariance S solves

    S = (I - alpha H) S (I - alpha H) + alpha^2 N/B,

and the excess it adds is tr(H S)/2. The gradient on a sequence is 2 (e - eps Z) grad T with Z
normal, e = sum_l a_l w_l and a_l = f_l - 1{l=J}. Over the g_l, Z and the outer coordinates, with
b_l = a_l^2 tau_l^2, q_l = c_l tau_l^2 and |b| = eps^2 + sum b, a quarter of N has the entries (each
outer one d - 2 times; H is diagonal there, so the outer covariance of k and v does not matter)

    k, outer          |b| sum q^2 + 2 sum b q^2
    v, outer          |b| sum f^2 tau^2
    k along v*        |b| [(sum q)^2 + 2 sum q^2] + 4 (sum b q)(sum q) + 8 sum b q^2
    v along k*        |b| (sum f u)^2
    between the two   [|b| sum q + 2 sum b q] sum f u,

and the mean over the independent u_l of a product of sums follows from cumulants, which add up over
tokens: one-dimensional quadratures, no sample.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_discrete_lyapunov
from scipy.special import erf

from attnscope.predictors.attention import Erf
from attnscope.tasks.planted.single_location import Batch, SingleLocation
from attnscope.theory.optima.sphere_hessian import overlap_derivatives
from attnscope.theory.overlaps import Overlaps
from attnscope.theory.risk import risk_gradient

__all__ = ["Floor", "gradient_noise", "noise_floor", "plane_hessian", "squared_gradients"]

# nodes of the quadrature: erf and exp(-u^2) at inverse temperatures below 1 are good to 1e-12 with
# half
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


class Floor(NamedTuple):
    """excess that SGD adds at the oracle, and the mean squared angle of k and v from it."""

    excess: float
    angle: float


def plane_hessian(task: SingleLocation, lam: float) -> np.ndarray:
    """(2, 2) Hessian at the oracle where k turns to v* and v to k*."""
    gradient = risk_gradient(task, Erf(lam), Overlaps.oracle())
    second = overlap_derivatives(task, Erf(lam), lam).second
    assert second is not None  # exact for erf
    # d(kappa, eta, theta, nu, rho) by the two angles
    moved = np.array([[0.0, 1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0, 1.0]])
    inside = moved @ second(np.array([1.0, 0.0, 0.0, 1.0, 0.0])) @ moved.T
    return np.diag([-float(gradient.kappa), -float(gradient.nu)]) + inside


def gradient_noise(task: SingleLocation, lam: float) -> tuple[float, float, np.ndarray]:
    """N of one sequence at the oracle: k outer, v outer, and the plane (2, 2); exact."""
    tau2 = np.array([[task.gamma**2], [1.0]])  # the informative token, and each other one
    count = np.array([1, task.length - 1])
    u = np.sqrt(tau2) * NODES + np.array([[task.signal], [0.0]])
    f = erf(lam * u)
    c = 2 * lam / math.sqrt(math.pi) * np.exp(-((lam * u) ** 2))
    b = (f - np.array([[1.0], [0.0]])) ** 2 * tau2
    q = c * tau2
    m = q**2
    fu = f * u
    mean = lambda *sums: _mean_of_product(count, *sums)
    eps2 = task.noise**2
    outer_k = mean(b, m) + 2 * mean(b * m) + eps2 * mean(m)
    outer_v = mean(b, f**2 * tau2) + eps2 * mean(f**2 * tau2)
    kk = mean(b, q, q) + 2 * mean(b, m) + 4 * mean(b * q, q) + 8 * mean(b * m)
    kk += eps2 * (mean(q, q) + 2 * mean(m))
    vv = mean(b, fu, fu) + eps2 * mean(fu, fu)
    kv = mean(b, q, fu) + 2 * mean(b * q, fu) + eps2 * mean(q, fu)
    return 4 * outer_k, 4 * outer_v, 4 * np.array([[kk, kv], [kv, vv]])


def squared_gradients(task: SingleLocation, lam: float, batch: Batch) -> np.ndarray:
    """(n,): squared length of the gradient on the spheres, at the oracle, of each sequence."""
    u = batch.tokens @ task.key
    w = batch.tokens @ task.value
    weights = erf(lam * u)
    residual = 2 * ((weights * w).sum(axis=1) - batch.target)[:, None]
    slopes = 2 * lam / math.sqrt(math.pi) * np.exp(-((lam * u) ** 2)) * w
    squares = np.zeros(len(u))
    for by, unit in ((slopes, task.key), (weights, task.value)):
        g = np.matmul((residual * by)[:, None, :], batch.tokens)[:, 0]
        squares += np.sum(g * g, axis=1) - (g @ unit) ** 2
    return squares


def _mean_of_product(count: np.ndarray, *sums: np.ndarray) -> float:
    """Mean of a product of up to three sums over independent tokens; each is given by its summand
    (2, nodes) for the two kinds of token, of which there are `count`.
    """
    mean = lambda *x: np.prod(x, axis=0) @ WEIGHTS
    one = [float(count @ mean(x)) for x in sums]
    two = lambda x, y: float(count @ (mean(x, y) - mean(x) * mean(y)))
    if len(sums) == 1:
        return one[0]
    if len(sums) == 2:
        return one[0] * one[1] + two(*sums)
    x, y, z = sums
    lower = mean(x) * mean(y, z) + mean(y) * mean(x, z) + mean(z) * mean(x, y)
    three = float(count @ (mean(x, y, z) - lower + 2 * mean(x) * mean(y) * mean(z)))
    pairs = one[0] * two(y, z) + one[1] * two(x, z) + one[2] * two(x, y)
    return one[0] * one[1] * one[2] + pairs + three


def noise_floor(task: SingleLocation, lam: float, batch: float, alpha: float) -> Floor:
    """Of linearised SGD at the oracle; see the module docstring."""
    outer_k, outer_v, inner = gradient_noise(task, lam)
    gradient = risk_gradient(task, Erf(lam), Overlaps.oracle())
    H = plane_hessian(task, lam)
    S = solve_discrete_lyapunov(np.eye(2) - alpha * H, alpha**2 * inner / batch)
    excess = float(np.trace(H @ S)) / 2
    angle = float(np.trace(S))
    for noise, mu in ((outer_k, -float(gradient.kappa)), (outer_v, -float(gradient.nu))):
        variance = (task.dim - 2) * alpha * noise / batch / (mu * (2 - alpha * mu))
        excess += mu * variance / 2
        angle += variance
    return Floor(excess, angle)
