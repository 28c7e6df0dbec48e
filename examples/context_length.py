"""
What attention converges to as the context grows
================================================

Values are a noisy linear function of keys on a sphere. Softmax attention with a fixed bandwidth
learns a *smoothed* function: its error falls, then stays on a plateau that no context length
removes. CME attention, which inverts the kernel matrix, goes on. The lines are theory (exact for
softmax at every length, the deterministic equivalent for CME), the points simulation with 95 %
intervals.
"""

import numpy as np

import attnscope as at
from attnscope.figures.figure import Figure, Line, Panel, Points

DIM = 3
NOISE = 0.5
BANDWIDTH = 0.25
lengths = np.unique(np.geomspace(8, 4096, 24).astype(int))
soft = np.array([at.softmax_curve(DIM, int(n), BANDWIDTH, NOISE).value for n in lengths])
cme = np.array([at.cme_curve(DIM, int(n), NOISE**2, 1.0, NOISE) for n in lengths])
plateau = (1 - at.softmax_filter(DIM, BANDWIDTH, 1)) ** 2


def simulated(length, attend, repeats=400):
    """Squared error of `attend` over fresh contexts: mean and standard error."""
    rng = np.random.default_rng([length, 7])
    unit = lambda *shape: (lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True))(
        rng.standard_normal((*shape, DIM))
    )
    keys = unit(repeats, length)
    query = unit(repeats)
    w = rng.standard_normal((repeats, DIM))
    values = np.einsum("nld,nd->nl", keys, w) + NOISE * rng.standard_normal((repeats, length))
    errors = (attend(query, keys, values[..., None])[:, 0] - np.sum(query * w, axis=1)) ** 2
    return errors.mean(), errors.std() / repeats**0.5


few = np.array([16, 64, 256, 1024])
softmax = lambda q, k, v: at.softmax_attention(q, k, v, bandwidth=BANDWIDTH)
ridge = lambda q, k, v: at.cme_attention(q, k, v, kernel="rbf", bandwidth=1.0, ridge=NOISE**2)
soft_seen, soft_error = np.array([simulated(int(n), softmax) for n in few]).T
cme_seen, cme_error = np.array([simulated(int(n), ridge, repeats=100) for n in few]).T

for n, a, b in zip(few, soft_seen, cme_seen):
    print(f"L = {n:5d}: softmax {a:.4f}, CME {b:.4f}")
print(f"softmax plateau {plateau:.4f}")

marks = (
    Line(lengths, soft, "softmax, exact"),
    Points(few, soft_seen, "softmax, simulated", error=1.96 * soft_error),
    Line(lengths, cme, "CME, theory", color=1),
    Points(few, cme_seen, "CME, simulated", color=1, error=1.96 * cme_error),
    Line(lengths[[0, -1]], [plateau, plateau], "softmax plateau", color=2, dashed=True),
)
panel = Panel(
    "fixed bandwidth", "context length L", "mean squared error", marks, log_x=True, log_y=True
)
Figure("Error of in-context regression against context length", (panel,)).save(
    "context_length.png"
)
