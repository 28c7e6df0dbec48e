"""Two gradient steps from zero on sparse-token classification: how well value and query align with
the hidden direction.

notation: f(X) = sum_l softmax(X q)_l x_l.w, n samples, alpha = n/d, c1 = cos(w, xi), c2 = cos(q,
xi), C_i = token covariance of sample i (divided by L).

At q = w = 0 a loss whose derivative in f is proportional to -y (squared, logistic, or -y f) moves w
first and then q:

    w  ~  (1/n) sum_i y_i xbar_i,   q  ~  (1/n) sum_i y_i C_i w
        (df/dw = xbar at q = 0; df/dq = C w)

for -y f exactly, for the others when the first step is short. With balanced labels E w = theta
R/(2L) xi, and every coordinate of w has variance 1/(nL); E[q | w] = theta^2 R(L-R)/(2L^2) (xi.w)
xi, and a coordinate orthogonal to xi and w has variance (1/(nL)) [(L-1)/L + theta^2 (xi.w)^2
R(L-R)/(2L^2)] for |w| = 1. So, as d grows with alpha fixed,

    c1^-2 = 1 + 4L/(R^2 theta^2 alpha)
    c2^-2 = 1 + 4L^2 (L-1) [1 + theta^2 c1^2 R(L-R)/(2L(L-1))] / (R^2 (L-R)^2 theta^4 c1^2 alpha)

(the model of Barnfield, Cui, Lu, arXiv 2509.25153; they bound 1 - c2 by C/alpha). The second step
may reuse the samples of the first: C_i is independent of xbar_i. Approximate: only d -> infinity
(errors of order 1/d). `simulated_alignment` is exact in law at every d and n: it draws the n L
coordinates along xi and along the rest of w, and the remaining d - 2 only through their chi-square
norm.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.tasks.base import checked_law
from attnscope.tasks.planted.sparse_tokens import SparseTokenClassification

__all__ = ["Alignment", "simulated_alignment", "two_gradient_steps", "two_step_alignment"]


class Alignment(NamedTuple):
    """Cosines with the hidden direction after two gradient steps; numbers or (runs,).

    Attributes:
        value: of w, after the first step.
        query: of q, after the second.

    >>> import attnscope as at
    >>> task = at.SparseTokenClassification(dim=50, length=8, marked=2, strength=3.0)
    >>> found = at.simulated_alignment(task, samples=200, runs=3)
    >>> found.value.shape, found.query.shape
    ((3,), (3,))
    """

    value: float | np.ndarray
    query: float | np.ndarray


def two_step_alignment(task: SparseTokenClassification, samples_per_dim: float) -> Alignment:
    """The cosines c1, c2 in closed form (d -> infinity with n = samples_per_dim * d).

    Args:
        task: a SparseTokenClassification.
        samples_per_dim: alpha = n/d > 0.

    >>> task = SparseTokenClassification(dim=200, length=10, strength=5.0)
    >>> [round(c, 3) for c in two_step_alignment(task, 1.0)]
    [0.62, 0.886]
    """
    of = "two_step_alignment"
    L, R, theta = _task_numbers(task, of)
    alpha = check.real(
        samples_per_dim, "samples_per_dim", of, 0, strict=True, hint="samples_per_dim=1.0"
    )
    c1 = 1 / math.sqrt(1 + 4 * L / (R**2 * theta**2 * alpha))
    signal = (theta**2 * c1 * R * (L - R)) ** 2 * alpha
    noise = 4 * L**2 * (L - 1) + 2 * L * theta**2 * c1**2 * R * (L - R)
    return Alignment(c1, 1 / math.sqrt(1 + noise / signal))


def two_gradient_steps(
    tokens: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(w, q), each (d,): the two gradients, the same samples in both steps.

    Args:
        tokens: (n, L, d).
        target: (n,), labels in {-1, 1}.

    >>> import attnscope as at
    >>> task = at.SparseTokenClassification(dim=50, length=8, marked=2, strength=3.0)
    >>> batch = task.sample(200, seed=0)
    >>> w, q = at.two_gradient_steps(batch.tokens, batch.target)
    >>> w.shape, q.shape
    ((50,), (50,))
    """
    of = "two_gradient_steps"
    x, _ = check.tokens_array(tokens, of)
    y = check.array(target, "target", of, (len(x),)).astype(np.float64)
    if not np.isin(y, (-1.0, 1.0)).all():
        raise bad(
            "target",
            of,
            "labels -1 and 1",
            f"values such as {float(y[~np.isin(y, (-1, 1))][0])}",
        )
    w = y @ x.mean(axis=1, dtype=np.float64) / len(x)
    q = np.zeros_like(w)
    block = max(1, (1 << 20) // (x.shape[1] * x.shape[2]))
    for i in range(0, len(x), block):
        part = x[i : i + block].astype(np.float64)  # (block, L, d)
        scores = part @ w
        scores -= scores.mean(axis=1, keepdims=True)
        q += np.einsum("n,nl,nld->d", y[i : i + block], scores, part, optimize=True)
    return w, q / (len(x) * x.shape[1])


def simulated_alignment(
    task: SparseTokenClassification, samples: int, runs: int = 1, seed: int = 0
) -> Alignment:
    """The two cosines on `runs` balanced data sets of `samples` sequences in R^dim, (runs,) each,
    drawn exactly in law at cost n L whatever d.

    Args:
        task: a SparseTokenClassification.
        samples: n, even: half of each label.
        runs: data sets, >= 1.
        seed: of the draws.

    >>> import attnscope as at
    >>> task = at.SparseTokenClassification(dim=50, length=8, marked=2, strength=3.0)
    >>> at.simulated_alignment(task, samples=200, runs=3, seed=1).value.round(3)
    array([0.897, 0.901, 0.926])
    """
    of = "simulated_alignment"
    _task_numbers(task, of)
    n = check.integer(samples, "samples", of, 2)
    runs = check.integer(runs, "runs", of, 1)
    if n % 2 or task.dim < 3:
        raise bad(
            "samples",
            of,
            "even, for a task with dim >= 3",
            f"samples={n}, dim={task.dim}",
            "samples=2 * dim",
        )
    check.fits_in_memory(3 * n * task.length, 8, "the coordinates", of, "fewer samples")
    rng = np.random.default_rng(check.seed_value(seed, of))
    cosines = np.array([_one_run(task, n, rng) for _ in range(runs)])
    return Alignment(cosines[:, 0], cosines[:, 1])


def _one_run(
    task: SparseTokenClassification, n: int, rng: np.random.Generator
) -> tuple[float, float]:
    L = task.length
    d = task.dim
    y = np.repeat([1.0, -1.0], n // 2)
    u = rng.standard_normal((n, L))
    u[: n // 2, : task.marked] += task.strength
    along = float(np.mean(y * u.mean(axis=1)))  # w.xi
    across = math.sqrt(rng.chisquare(d - 1) / (n * L))  # |w - (w.xi) xi|
    # tokens along the rest of w; centred, they are independent of it
    z = rng.standard_normal((n, L))
    u, z = (x - x.mean(axis=1, keepdims=True) for x in (u, z))
    scores = along * u + across * z
    q_xi, q_w = (float(np.mean(y * np.mean(x * scores, axis=1))) for x in (u, z))
    rest = rng.chisquare(d - 2) * float(np.sum(scores**2)) / (n * L) ** 2
    return along / math.hypot(along, across), q_xi / math.sqrt(q_xi**2 + q_w**2 + rest)


def _task_numbers(task: object, of: str) -> tuple[int, int, float]:
    """(L, R, theta) of a task that both steps can learn from."""
    hint = "SparseTokenClassification(dim=200, length=10, strength=5.0)"
    task = checked_law(task, SparseTokenClassification, of, hint)
    if task.marked == task.length:
        raise bad(
            "marked",
            of,
            "below length (equal tokens give the query no gradient)",
            task.marked,
            "marked=1",
        )
    # theta^4 alpha must neither vanish nor swamp the rest in float64
    if not 1e-6 <= task.strength <= 1e6:
        raise bad("strength", of, "between 1e-6 and 1e+06", task.strength, "strength=5.0")
    return task.length, task.marked, task.strength
