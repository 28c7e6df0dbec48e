"""Where training starts, as overlaps (5, runs), drawn in law: no vector of length dim is ever made.

notation: d = dim, c = k*.v*, G standard normal, chi2_m chi-square with m degrees of freedom (chi2_0
= 0), all independent.

Uniform k, v on the sphere are normalised Gaussian vectors. In an orthonormal frame whose first two
axes span k*, v* and whose third points along the rest of k, rotation invariance of that rest leaves

    k ~ (G, G, sqrt(chi2_{d-2}), 0),    v ~ (G, G, G, sqrt(chi2_{d-3}))                     "sphere"
    k ~ (G, 0, sqrt(chi2_{d-2}), 0),    v ~ (0, G, 0, sqrt(chi2_{d-3})),   c = 0          "manifold"

before normalisation ("manifold": k uniform orthogonal to v*, v uniform orthogonal to k* and k; eta
= theta = rho = 0). In d = 2 the third and fourth coordinates do not exist and are 0.

Moments. From n samples, with S_i = sum_l X_il, k0 ~ mean S_i and v0 ~ mean (y_i - ybar) S_i minus
its part along k0. Along v* the pair (y, S.v*) is bivariate normal with covariance [[gam^2 + eps^2,
gam^2], [gam^2, tau^2]], tau^2 = gam^2 + L - 1; orthogonal to v*, S is s k* plus N(0, tau^2) noise
that is independent of y. Sums of squares around the mean are Wishart with n - 1 degrees of freedom
and independent of the mean (Cochran), so with A = sum (y - ybar)^2 and B = sum (y - ybar) S.v*, in
the frame (v*, k* minus its v* part, ..)

    A = (gam^2 + eps^2) chi2_{n-1},   B = b A + sqrt((tau^2 - b gam^2) A) G,
        b = gam^2/(gam^2 + eps^2),
    k0 ~ s k* + tau/sqrt(n) (G, G, sqrt(chi2_{d-2}), 0),
        v0 ~ (B, 0, 0, 0)/n + tau sqrt(A)/n (0, G, G, sqrt(chi2_{d-3})).

Several heads start as Gram matrices (runs, n, n) of (k_1, v_1, ..., k_1*, v_1*, ...). m = 2H
uniform directions: coordinates along the span of the teachers are standard normal, the rest has a
Wishart(I, d - q) Gram matrix (q the teachers' rank), sampled by Bartlett's factor; rows are
normalised.

All these laws are exact. Run i uses its own random stream, a function of (seed, i).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.semidefinite import bartlett, frame_of
from attnscope.tasks.base import PlantedTask, laws
from attnscope.tasks.planted.single_location import Batch, SingleLocation
from attnscope.theory.overlaps import Overlaps, alignment_of, checked_overlaps
from attnscope.theory.risks.multi_head_risk import heads_gram

__all__ = [
    "HeadsStart",
    "Moments",
    "Start",
    "StartName",
    "sphere_grams",
    "starting_grams",
    "starting_overlaps",
]

START_STREAM = 0x57A27  # keeps the starts' random streams apart from every engine's
HEADS_STREAM = 0x4EAD5  # and those of several heads apart from these
START_NAMES = '"sphere", "manifold", "moments", Moments(samples), an Overlaps, or a pair of unit vectors (k, v)'


@dataclass(frozen=True)
class Moments:
    """Start at directions estimated from `samples` labelled sequences, without using the task's key
    and value.

    k0 is the direction of the mean token sum; v0 that of the covariance of label and token sum,
    without its part along k0.

    >>> import attnscope as at
    >>> task = at.SingleLocation(dim=40, length=5)
    >>> run = at.train(task, at.Erf(0.1), start=at.Moments(500), runs=2, steps=200, step_size=1e-3)
    >>> run.overlaps.kappa[:, 0] > 0.5
    array([ True,  True])
    """

    samples: int = 200

    def __post_init__(self) -> None:
        object.__setattr__(
            self,
            "samples",
            check.integer(self.samples, "samples", "Moments", 2, hint="samples=200"),
        )

    def estimate(
        self, batch: Batch | tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Unit vectors (k0, v0), each (d,), from a batch: a Batch, or a pair (tokens (n, L, d),
        target (n,)).

        >>> task = SingleLocation(dim=50, length=10)
        >>> k0, v0 = Moments().estimate(task.sample(5000, seed=1))
        >>> bool(k0 @ task.key > 0.95), bool(v0 @ task.value > 0.85), bool(abs(k0 @ v0) < 1e-12)
        (True, True, True)
        """
        of = "Moments.estimate"
        if not isinstance(batch, tuple) or len(batch) < 2:
            must = "a pair (tokens (n, L, d), target (n,)), or a Batch"
            raise bad("batch", of, must, batch, "task.sample(1000)")
        tokens, _ = check.tokens_array(batch[0], of)
        if len(tokens) < 2:
            raise bad(
                "tokens",
                of,
                "at least 2 sequences",
                f"{len(tokens)}",
                f"{self.samples} sequences",
            )
        target = check.float_array(batch[1], "target", of, (len(tokens),))
        sums = tokens.sum(axis=1, dtype=np.float64)  # (n, d)
        mean = sums.mean(axis=0)
        k0 = unit_direction(mean, "the mean of the tokens", of)
        v0 = (target - target.mean()) @ (sums - mean) / len(tokens)
        v0 = unit_direction(v0 - (v0 @ k0) * k0, "the covariance of target and tokens", of)
        # once more: normalising a short remainder magnifies its roundoff
        return k0, v0 - (v0 @ k0) * k0


StartName = Literal["sphere", "manifold", "moments"]
Start = StartName | Moments | Overlaps | tuple[np.ndarray, np.ndarray]
HeadsStart = Literal["sphere"] | tuple[np.ndarray, np.ndarray] | np.ndarray


def starting_overlaps(task: PlantedTask, start: Start, runs: int, seed: int) -> np.ndarray:
    """(5, runs) overlaps of the given start; run i is a function of (seed, i) where it is random.

    >>> task = SingleLocation(dim=10**8, length=10)
    >>> starting_overlaps(task, "sphere", runs=2, seed=0).shape
    (5, 2)
    """
    if isinstance(start, Overlaps):
        return given_overlaps(task, start, runs)
    if isinstance(start, str) and start == "moments":
        start = Moments()
    if isinstance(start, Moments):
        law = next((MOMENTS[kind] for kind in laws(task) if kind in MOMENTS), None)
        if law is None:
            names = ", ".join(kind.__name__ for kind in MOMENTS)
            got = f"a {type(task).__name__}"
            raise bad(
                "task",
                "train(start=Moments)",
                f"one whose moments' law is known ({names})",
                got,
                'start="sphere"',
            )
        return law(task, start.samples, runs, seed)
    if isinstance(start, str) and start == "sphere":
        return sphere_overlaps(task, runs, seed)
    if isinstance(start, str) and start == "manifold":
        return manifold_overlaps(task, runs, seed)
    if isinstance(start, (tuple, list)) and len(start) == 2:
        return given_overlaps(task, Overlaps.of(task, *start), runs)
    raise bad("start", "train", START_NAMES, start, 'start="sphere"')


def given_overlaps(task: PlantedTask, start: Overlaps, runs: int) -> np.ndarray:
    o = checked_overlaps(start, task, "train")
    shape = o.kappa.shape
    if shape not in ((), (runs,)):
        raise bad(
            "start",
            "train",
            f"overlaps that are numbers or arrays of shape ({runs},), one entry per run",
            f"shape {shape}",
            f"runs={o.kappa.size}",
        )
    return np.array([np.broadcast_to(x, (runs,)) for x in o])


def sphere_overlaps(task: PlantedTask, runs: int, seed: int) -> np.ndarray:
    d = task.dim
    c = alignment_of(task)
    (g1, g2, h1, h2, h3), (k_rest, v_rest) = frame_draws(seed, runs, 5, (d - 2, d - 3))
    zero = np.zeros(runs)
    k = np.array([g1, g2, np.sqrt(k_rest), zero])
    v = np.array([h1, h2, h3 if d > 2 else zero, np.sqrt(v_rest)])
    return overlaps_in_frame(k, v, key=(1.0, 0.0), value=(c, math.sqrt(1 - c * c)))


def manifold_overlaps(task: PlantedTask, runs: int, seed: int) -> np.ndarray:
    if alignment_of(task) != 0:
        got = f"key.value = {alignment_of(task):.6g}"
        raise bad(
            "task",
            'train(start="manifold")',
            "one with key perpendicular to value",
            got,
            'start="sphere"',
        )
    (g, h), (k_rest, v_rest) = frame_draws(seed, runs, 2, (task.dim - 2, task.dim - 3))
    zero = np.zeros(runs)
    k = np.array([g, zero, np.sqrt(k_rest), zero])
    v = np.array([zero, h, zero, np.sqrt(v_rest)])
    return overlaps_in_frame(k, v, key=(1.0, 0.0), value=(0.0, 1.0))


def moments_overlaps(task: SingleLocation, n: int, runs: int, seed: int) -> np.ndarray:
    d = task.dim
    c = task.alignment
    s = task.signal
    gam2 = task.gamma**2
    eps2 = task.noise**2
    (g0, g1, g2, h2, h3), (spread, k_rest, v_rest) = frame_draws(
        seed, runs, 5, (n - 1, d - 2, d - 3)
    )
    tau2 = gam2 + task.length - 1
    b = gam2 / (gam2 + eps2)
    zero = np.zeros(runs)
    A = (gam2 + eps2) * spread
    # tau^2 - b gam^2 = L - 1 + b eps^2
    B = b * A + np.sqrt((task.length - 1 + b * eps2) * A) * g0
    key = (c, math.sqrt(1 - c * c))
    k_noise = math.sqrt(tau2 / n)
    v_noise = np.sqrt(tau2 * A) / n
    k = np.array(
        [
            s * key[0] + k_noise * g1,
            s * key[1] + k_noise * g2,
            k_noise * np.sqrt(k_rest),
            zero,
        ]
    )
    v = np.array(
        [B / n, v_noise * h2, v_noise * h3 if d > 2 else zero, v_noise * np.sqrt(v_rest)]
    )
    v -= np.sum(k * v, axis=0) / np.sum(k * k, axis=0) * k
    out = overlaps_in_frame(k, v, key=key, value=(1.0, 0.0))
    out[4] = 0.0  # by construction; what is left is roundoff
    return out


# tasks whose moments' law is derived
MOMENTS: dict[type, Callable[..., np.ndarray]] = {SingleLocation: moments_overlaps}


def frame_draws(
    seed: int, runs: int, normals: int, dofs: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Standard normals (normals, runs) and chi-squares (len(dofs), runs);
    chi-square with dof <= 0 is 0.
    """
    G = np.empty((normals, runs))
    chi2 = np.zeros((len(dofs), runs))
    for i in range(runs):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(START_STREAM, i)))
        G[:, i] = rng.standard_normal(normals)
        for j, m in enumerate(dofs):
            chi2[j, i] = rng.chisquare(m) if m > 0 else 0.0
    return G, chi2


def overlaps_in_frame(
    k: np.ndarray, v: np.ndarray, key: tuple[float, float], value: tuple[float, float]
) -> np.ndarray:
    """Overlaps (5, runs) of the directions of k, v (4, runs)
    with unit vectors that lie in the first two axes.
    """
    k = k / np.linalg.norm(k, axis=0)
    v = v / np.linalg.norm(v, axis=0)
    along = lambda x, axis: axis[0] * x[0] + axis[1] * x[1]
    return np.array(
        [
            along(k, key),
            along(k, value),
            along(v, key),
            along(v, value),
            np.sum(k * v, axis=0),
        ]
    )


def unit_direction(x: np.ndarray, what: str, of: str) -> np.ndarray:
    norm = float(np.linalg.norm(x))
    if not (math.isfinite(norm) and norm > 0):
        raise bad(what, of, "a finite nonzero vector", f"norm {norm:g}", "more sequences")
    return x / norm


# -- several heads --------------------------------------------------------------------------------


def starting_grams(task: Any, heads: int, start: Any, runs: int, seed: int) -> np.ndarray:
    """(runs, n, n) Gram matrices of the given start."""
    if isinstance(start, str):
        if start != "sphere":
            must = '"sphere", (K, V) or Gram matrices for a MultiHead'
            raise bad("start", "train", must, start, 'start="sphere"')
        return sphere_grams(task, heads, runs, seed)
    pair = isinstance(start, tuple) and len(start) == 2
    G = heads_gram(task, *start) if pair else np.asarray(start)
    n = 2 * heads + len(task.teacher_gram)
    if G.ndim == 2:
        G = np.repeat(G[None], runs, axis=0)
    G = check.float_array(G, "start", "train", (runs, n, n), hint='start="sphere"')
    if np.abs(G[:, 2 * heads :, 2 * heads :] - task.teacher_gram).max() > 1e-9:
        must = "Gram matrices with the task's own teachers last"
        raise bad("start", "train", must, "others", "heads_gram(task, K, V)")
    return G


def sphere_grams(
    task: Any,
    heads: int,
    runs: int,
    seed: int,
    sizes: tuple[float, float] = (1.0, 1.0),
) -> np.ndarray:
    """(runs, n, n) of uniform directions, |k_h|, |v_h| = sizes;
    run i is a function of (seed, i).
    """
    star = task.teacher_gram
    m = 2 * heads
    frame = frame_of(star)  # (r, q)
    q = frame.shape[1]
    length = np.tile(sizes, heads)
    out = np.empty((runs, m + len(star), m + len(star)))
    for i in range(runs):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(HEADS_STREAM, i)))
        inside = rng.standard_normal((m, q))
        x = np.concatenate([inside, bartlett(m, task.dim - q, rng)], axis=1)
        x *= (length / np.linalg.norm(x, axis=1))[:, None]
        cross = x[:, :q] @ frame.T
        out[i] = np.block([[x @ x.T, cross], [cross.T, star]])
    return out
