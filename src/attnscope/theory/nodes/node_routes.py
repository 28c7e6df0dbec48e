"""Risk and gradient of every planted task: the last row of the route table.

From the moments of the label where they are enough (labels/moment_risk.py: squared loss, one head,
a label that depends on at most one projection), else on fixed nodes.

At overlaps the Gram matrix is that of a head's k and v with the first two teachers; of further ones
a head keeps what these imply (overlaps.py), k.T = a.(K.T, V.T), a = (k.K, k.V) M, and a derivative
in k.K collects those of all implied products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border.whole_values import refuse_lost
from attnscope.theory.jax_weights import weight_function
from attnscope.theory.labels.moment_risk import moment_excess, moment_law
from attnscope.theory.nodes.node_gradient import node_gradient
from attnscope.theory.nodes.node_risk import node_excess, reader_of
from attnscope.theory.overlaps import Overlaps, head_gram
from attnscope.theory.routes.table import Excess, Route, pointwise

__all__ = [
    "GRADIENT_NODES",
    "NODE_ROUTE",
    "checked_gram",
    "defined_excess",
    "gram_excess",
    "gram_gradient",
    "sampled_on_nodes",
]

RISK_NODES = 100_000  # nodes of a risk by default
# nodes of a gradient: each costs some ten times one of a risk, and training asks thousands of times
GRADIENT_NODES = 1 << 14
GRAM_TOLERANCE = 1e-9  # as for overlaps: rounding of float64 inner products stays far below


def defined_excess(
    task: Any, predictor: Any, o: Overlaps, lam: float, samples: int, seed: int
) -> Excess:
    """The excess at overlaps of any shape: by moments, else on nodes."""
    law = moment_law(task, predictor)
    if law.blocks is None:
        return sampled_on_nodes(task, predictor, o, lam, samples, seed)

    def one(point: tuple[float, ...]) -> tuple[float, float, str]:
        G = head_gram(Overlaps(*point), task.teacher_gram)
        found = moment_excess(law, predictor, G, lam)
        if found is None:
            return node_excess(task, reader_of(task, predictor), G, lam, samples, seed)
        return found

    return excess_of_rows([one(point) for point in overlap_points(o)], o.kappa.shape)


def overlap_points(o: Overlaps) -> list[tuple[float, ...]]:
    return [tuple(float(x) for x in point) for point in zip(*(x.ravel() for x in o))]


def excess_of_rows(rows: list[tuple[float, float, str]], shape: tuple[int, ...]) -> Excess:
    excess, error = (np.array([row[k] for row in rows]).reshape(shape) for k in (0, 1))
    return Excess(excess, error, ", ".join(sorted({row[2] for row in rows})))


def sampled_on_nodes(
    task: Any, predictor: Any, o: Overlaps, lam: float, samples: int, seed: int
) -> Excess:
    """The excess at overlaps of any shape, with the same nodes for all."""
    reader = reader_of(task, predictor)

    def one(point: tuple[float, ...]) -> tuple[float, float, str]:
        G = head_gram(Overlaps(*point), task.teacher_gram)
        return node_excess(task, reader, G, lam, samples, seed)

    return excess_of_rows([one(point) for point in overlap_points(o)], o.kappa.shape)


def node_route_excess(task: Any, predictor: Any, o: Overlaps, lam: float) -> Excess:
    return defined_excess(task, predictor, o, lam, RISK_NODES, 0)


def overlap_slopes(
    task: Any, predictor: Any, o: Overlaps, lam: float, errors: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(6, ...) partial derivatives in the overlaps and the temperature, and their errors."""
    from attnscope.theory.labels.moment_gradient import moment_gradient  # no risk needs it

    law = moment_law(task, predictor)
    star = task.teacher_gram
    pair = min(2, len(star))
    implied = np.linalg.pinv(star[:pair, :pair], hermitian=True) @ star[:pair]
    implied[:, :pair] = np.eye(pair)

    def collected(gram: np.ndarray, onto: np.ndarray, temperature: float) -> list[float]:
        cross = np.zeros((2, 2))
        cross[:, :pair] = gram[:2, 2:] @ onto.T
        return [*cross.ravel(), gram[0, 1], temperature]

    def one(point: tuple[float, ...]) -> np.ndarray:
        G = head_gram(Overlaps(*point), star)
        found: Any = None if law.blocks is None else moment_gradient(law, predictor, G, lam)
        if found is None:
            reader = reader_of(task, predictor)
            found = node_gradient(task, reader, GRADIENT_NODES, 0, "risk_gradient")(
                G, lam, errors
            )
        off = collected(found.gram_error, np.abs(implied), found.temperature_error)
        return np.array([collected(found.gram, implied, found.temperature), off])

    arrays = Overlaps(*(np.asarray(x, dtype=np.float64) for x in o))
    rows = pointwise(one, arrays).reshape(-1, 2, 6)
    value, off = (rows[:, k].T.reshape(6, *arrays.kappa.shape) for k in (0, 1))
    return value, off


def node_route_gradient(task: Any, predictor: Any, o: Overlaps, lam: float) -> np.ndarray:
    return overlap_slopes(task, predictor, o, lam, False)[0]


def gradient_with_errors(
    task: Any, predictor: Any, o: Overlaps, lam: float
) -> tuple[np.ndarray, np.ndarray]:
    return overlap_slopes(task, predictor, o, lam, True)


def refuse_weights(predictor: Any, of: str) -> None:
    """Nodes can be differentiated if the weights can."""
    weight_function(getattr(predictor, "head", predictor), of)


NODE_ROUTE = Route(
    node_route_excess,
    node_route_gradient,
    exact=False,
    measured=gradient_with_errors,
    refuse=refuse_weights,
)


def gram_excess(
    task: Any, predictor: Any, G: np.ndarray, lam: float, samples: int, seed: int,
    nodes: bool = True,
) -> Excess:  # fmt: skip
    """The excess at Gram matrices (..., V, V) of (trained vectors, teachers); by moments where they
    are enough, unless `nodes`.
    """
    reader = reader_of(task, predictor, G.shape[-1] - len(task.teacher_gram))
    flat = G.reshape(-1, *G.shape[-2:])
    law = None if nodes or reader.heads != 1 else moment_law(task, predictor)

    def one(g: np.ndarray) -> tuple[float, float, str]:
        found = None
        if law is not None and law.blocks is not None:
            found = moment_excess(law, predictor, g, lam)
        return node_excess(task, reader, g, lam, samples, seed) if found is None else found

    return excess_of_rows([one(g) for g in flat], G.shape[:-2])


def gram_gradient(
    task: Any, predictor: Any, G: np.ndarray, lam: float, samples: int = GRADIENT_NODES
) -> np.ndarray:
    """(m, V): derivatives of the risk in the inner products of m trained vectors with all V."""
    from attnscope.theory.labels.moment_gradient import moment_gradient  # no risk needs it

    m = len(G) - len(task.teacher_gram)
    reader = reader_of(task, predictor, m)
    law = moment_law(task, predictor) if reader.heads == 1 else None
    if law is not None and law.blocks is not None:
        exact = moment_gradient(law, getattr(predictor, "head", predictor), G, lam)
        if exact is not None:
            return exact.gram
    return node_gradient(task, reader, samples, 0, "risk_gradient")(G, lam).gram[:m]


def checked_gram(matrix: object, task: Any, vectors: int | None, of: str) -> np.ndarray:
    """Gram matrices (..., V, V) of (trained vectors, teachers), or one sentence.

    Args:
        vectors: how many are trained; None for as many as the matrix has.
    """
    star = task.teacher_gram
    refuse_lost(matrix, "gram", of)
    try:
        G = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise bad(
            "gram", of, "an array of numbers", matrix, "heads_gram(task, K, V)"
        ) from None
    V = G.shape[-1] if G.ndim >= 2 else 0
    count = V - len(star) if vectors is None else vectors
    if G.ndim < 2 or G.shape[-2] != V or count + len(star) != V or count < 1:
        size = "V" if vectors is None else str(vectors + len(star))
        must = f"of shape (..., {size}, {size}), trained vectors and {len(star)} teachers"
        raise bad("gram", of, must, f"shape {G.shape}", "heads_gram(task, K, V)")
    known = np.isfinite(G).all() and np.abs(G - G.swapaxes(-1, -2)).max() <= GRAM_TOLERANCE
    if not known or np.abs(G[..., count:, count:] - star).max() > GRAM_TOLERANCE:
        must = "symmetric and finite, with the task's own teachers last"
        raise bad("gram", of, must, "another matrix", "heads_gram(task, K, V)")
    least = float(np.linalg.eigvalsh(G)[..., 0].min())
    if least < -GRAM_TOLERANCE * max(1.0, float(np.abs(G).max())):
        hint = "inner products of vectors"
        raise bad("gram", of, "positive semidefinite", f"eigenvalue {least:.3g}", hint)
    return G
