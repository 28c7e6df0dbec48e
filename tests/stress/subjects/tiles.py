"""Spatial context of maps of tiles: the regressions themselves, and whether their errors hold what
an endless map would give.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import attnscope as at
from stress.draws import choice, log_uniform
from stress.judged import Answer, Relation, Truth, same
from stress.references import tiles as reference
from stress.subject import Setting, Subject

__all__ = ["SUBJECTS"]

ROUNDING = 1e-9  # of R^2: least squares of a few columns, condition up to 1e4
# of rho: a likelihood of a few hundred is flat within 1e-13 of its size around its top
TOP = 1e-5
COVERS = ("spatial_context", "SpatialContext")


# -- the regressions -------------------------------------------------------------------------------


def _draw_map(rng: np.random.Generator) -> Setting:
    return {
        "rows": int(rng.integers(11, 15)),
        "columns": int(rng.integers(11, 15)),
        "features": int(rng.integers(1, 4)),
        "holes": choice(rng, [0.0, 0.0, 0.1]),
        "contiguity": choice(rng, ["queen", "rook"]),
        "wrap": bool(rng.random() < 0.5),
        "smooth": choice(rng, [0.0, 0.5, 0.9]),
        "scale": log_uniform(rng, 1e-8, 1e8, [1.0]),
        "shift": choice(rng, [0.0, 1.0, 100.0]),
        "seed": int(rng.integers(2**31)),
    }


def _map(s: Setting) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(scores, features, places)."""
    rng = np.random.default_rng(s["seed"])
    places = np.indices((s["rows"], s["columns"])).reshape(2, -1).T
    noise = rng.standard_normal((s["rows"], s["columns"], 1 + s["features"]))
    blurred = (noise + np.roll(noise, 1, 0) + np.roll(noise, 1, 1)) / 3
    made = (noise + s["smooth"] * (3 * blurred - noise)).reshape(len(places), -1)
    y = made[:, 0] + made[:, 1:].sum(axis=1)
    kept = rng.random(len(y)) >= (0.0 if s["wrap"] else s["holes"])
    return s["scale"] * (y + s["shift"])[kept], made[kept, 1:], places[kept]


def _call(s: Setting) -> Answer:
    y, x, places = _map(s)
    whole = (s["rows"], s["columns"])
    grid = whole if s["wrap"] else places
    found = at.spatial_context(y, x, grid, 1, s["contiguity"], s["wrap"])
    rhos = [found.rho.value, found.rho_residuals.value]
    return Answer([*found.fitted.values(), *rhos], [ROUNDING] * 4 + [TOP] * 2)


def _truth(s: Setting) -> Truth:
    y, x, places = _map(s)
    sizes = (s["rows"], s["columns"]) if s["wrap"] else ()
    W = reference.mean_matrix(places, 1, s["contiguity"] == "rook", sizes)
    return Truth([*reference.r_squared(y, x, W), *reference.coefficients(y, x, W)])


def _relations(s: Setting, a: Answer) -> Iterable[Relation]:
    y, x, places = _map(s)
    if s["wrap"]:
        return
    order = np.random.default_rng(s["seed"] + 1).permutation(len(y))
    moved = at.spatial_context(
        y[order], 3 * x[order] + 1, places[order] + 7, 1, s["contiguity"]
    )
    rhos = [moved.rho.value, moved.rho_residuals.value]
    yield same("tiles in another order", [*moved.fitted.values(), *rhos], a.value, a.error)


# -- errors ----------------------------------------------------------------------------------------


def _draw_field(rng: np.random.Generator) -> Setting:
    return {
        "size": int(rng.integers(16, 49)),
        "made_by": choice(rng, ["features", "scores", "residuals"]),
        "phi": choice(rng, [0.0, 0.3, 0.6]),
        "coefficient": choice(rng, [0.0, 0.3, 0.6, 0.8]),
        "radius": choice(rng, [1, 1, 2]),
        "noise": choice(rng, ["normal", "uniform"]),
        "seed": int(rng.integers(2**31)),
    }


def _call_field(s: Setting) -> Answer:
    rng = np.random.default_rng(s["seed"])
    shape = (2, s["size"], s["size"])
    white = rng.standard_normal(shape) if s["noise"] == "normal" else _uniform(rng, shape)
    steps = np.arange(-s["radius"], s["radius"] + 1)
    theta = 2 * np.pi * np.arange(s["size"]) / s["size"]
    line = np.cos(np.outer(theta, steps)).sum(axis=1)
    w = (np.outer(line, line) - 1) / (len(steps) ** 2 - 1)
    spread = 1 / (1 - s["coefficient"] * w)
    x, e = np.fft.fft2(white)
    x = x / (1 - s["phi"] * w)
    y = {
        "features": (1 + s["coefficient"] * w) * x + e,
        "scores": spread * (x + e),
        "residuals": x + spread * e,
    }[s["made_by"]]
    features = np.fft.ifft2(x).real.reshape(-1, 1)
    scores = np.fft.ifft2(y).real.ravel()
    found = at.spatial_context(scores, features, shape[1:], s["radius"], wrap=True)
    rhos = {"scores": [found.rho], "residuals": [found.rho_residuals]}
    parts = [found.baseline, *found.gains.values(), *rhos.get(s["made_by"], [])]
    return Answer([p.value for p in parts], [p.error for p in parts], sampled=True)


def _uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(-(3**0.5), 3**0.5, shape)


def _true_field(s: Setting) -> Truth:
    rho = [] if s["made_by"] == "features" else [s["coefficient"]]
    four = reference.endless_gains(s["made_by"], s["phi"], s["coefficient"], s["radius"])
    return Truth([*four, *rho])


def _small(s: Setting) -> str:
    """The range of the documentation: 8 blocks of 4 radius + 1 tiles."""
    blocks = -(-s["size"] // (4 * s["radius"] + 1))
    return "fewer than 8 blocks" if blocks**2 < 8 else ""


SUBJECTS = [
    Subject("spatial_context", COVERS, _draw_map, _call, _truth, _relations, truths=0.5, weight=0.4),
    Subject(
        "spatial_context errors", COVERS, _draw_field, _call_field, _true_field,
        may_refuse=_small, weight=0.8,
    ),
]  # fmt: skip
