"""
The best forget gate is the latent's own decay
==============================================

Values are a noisy linear function of unit keys, and the function drifts: its entries keep a
correlation of 0.99 from token to token. A delta rule with a forget gate is tried at many gates, its
step the best one for each. The exact error is least where the gate is the drift itself, and there
it is within 6 % of the Kalman filter, the best that any memory can do.
"""

import numpy as np
from scipy.optimize import minimize_scalar

import attnscope as at
from attnscope.figures.figure import Figure, Line, Panel, Points

LENGTH = 400
task = at.DriftingMap(dim_key=8, noise=0.5, decay=0.99, keys="sphere")
best = at.best_gates(task)
floor = task.bayes_risk(LENGTH)


def least(gate):
    """The exact error at this gate, its step chosen as well as can be."""
    error = lambda step: at.memory_curve(task, LENGTH, step, gate).excess
    found = minimize_scalar(
        error, bounds=(0.05, 1.9), method="bounded", options={"xatol": 1e-3}
    )
    return found.x, found.fun


gates = np.array([0.94, 0.95, 0.96, 0.97, 0.975, 0.98, 0.985, 0.99, 0.995, 1.0])
steps, errors = np.array([least(gate) for gate in gates]).T


def simulated(gate, step, contexts=1500):
    """The same memory on sampled contexts: mean and standard error."""
    batch = task.sample(contexts, LENGTH, seed=1)
    rows = (np.eye(8)[:, None], batch.keys, batch.values)
    memory = at.delta_attention(*rows, step, gate)[..., 0].T
    losses = task.key_moments.kappa * np.sum((memory - batch.latent[:, 0]) ** 2, axis=1)
    return losses.mean(), losses.std() / contexts**0.5


tried = [1, 4, 7, 9]
seen, error = np.array([simulated(gates[i], steps[i]) for i in tried]).T
for gate, step, exact in zip(gates, steps, errors):
    print(f"gate {gate:.3f}: best step {step:.3f}, error {exact:.4f}")
print(f"closed form: gate {best.decay}, step {best.step:.3f}, error {best.risk.excess:.4f}")
print(
    f"Kalman {floor.excess:.4f} +- {floor.error:.4f}: {best.risk.excess / floor.excess:.3f} times"
)

marks = (
    Line(gates, errors, "delta rule, exact"),
    Points(gates[tried], seen, "delta rule, simulated", error=1.96 * error),
    Points([best.decay], [best.risk.excess], "closed form", color=1),
    Line(gates[[0, -1]], [floor.excess] * 2, "Kalman filter", color=2, dashed=True),
)
panel = Panel("unit keys, drift 0.99", "forget gate", "error after 400 tokens", marks)
Figure("A memory should forget as fast as the world changes", (panel,)).save(
    "forget_gate.png"
)
