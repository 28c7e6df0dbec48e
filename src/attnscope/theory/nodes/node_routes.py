"""Risk and gradient of every planted task: the last row of the route table.

From the moments of the label where they are enough (labels/moment_risk.py: squared loss, one head,
a label that depends on at most one projection), else on fixed nodes.

At overlaps the Gram matrix is that of a head's k and v with the first two teachers; of further ones
a head keeps what these imply (overlaps.py), k.T = a.(K.T, V.T), a = (k.K, k.V) M, and a derivative
in k.K collects those of all implied products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border.whole_values import refuse_lost
from attnscope.theory.jax_weights import weight_function
from attnscope.theory.labels.label_blocks import LabelLaw
from attnscope.theory.labels.moment_risk import moment_excess, moment_law
from attnscope.theory.nodes.node_gradient import NodeGradient, node_gradient
from attnscope.theory.nodes.node_risk import Reader, node_excess, reader_of
from attnscope.theory.overlaps import GRAM_TOLERANCE, Overlaps, head_gram, implied_products
from attnscope.theory.routes.table import Excess, Route

if TYPE_CHECKING:
    from attnscope.theory.labels.moment_gradient import MomentGradient

__all__ = [
    "GRADIENT_NODES",
    "NODE_ROUTE",
    "checked_gram",
    "defined_excess",
    "gram_excess",
    "gram_gradient",
]

RISK_NODES = 100_000  # nodes of a risk by default
# nodes of a gradient: each costs some ten times one of a risk, and training asks thousands of times
GRADIENT_NODES = 1 << 14


def defined_excess(
    task: Any, predictor: Any, o: Overlaps, lam: float,
    samples: int = RISK_NODES, seed: int = 0, nodes: bool = False,
) -> Excess:  # fmt: skip
    """The excess at overlaps of any shape: by moments, else on nodes, the same for all."""
    G = head_gram(o, task.teacher_gram)
    return gram_excess(task, predictor, G, lam, samples, seed, nodes)


def gram_excess(
    task: Any, predictor: Any, G: np.ndarray, lam: float, samples: int, seed: int,
    nodes: bool = True,
) -> Excess:  # fmt: skip
    """The excess at Gram matrices (..., V, V) of (trained vectors, teachers); by moments where they
    are enough, unless `nodes`.
    """
    law = LabelLaw(None) if nodes else moment_law(task, predictor)

    def one(g: np.ndarray) -> tuple[float, float, str]:
        found = None if law.blocks is None else moment_excess(law, predictor, g, lam)
        if found is not None:
            return found
        return node_excess(task, _reader(task, predictor, g), g, lam, samples, seed)

    rows = [one(g) for g in G.reshape(-1, *G.shape[-2:])]
    excess, error = (np.array([row[k] for row in rows]).reshape(G.shape[:-2]) for k in (0, 1))
    return Excess(excess, error, ", ".join(sorted({row[2] for row in rows})))


def _reader(task: Any, predictor: Any, G: np.ndarray) -> Reader:
    return reader_of(task, predictor, len(G) - len(task.teacher_gram))


def _gradient_at(
    task: Any, predictor: Any, G: np.ndarray, lam: float, errors: bool = False
) -> MomentGradient | NodeGradient:
    from attnscope.theory.labels.moment_gradient import moment_gradient  # no risk needs it

    law = moment_law(task, predictor)
    found = None if law.blocks is None else moment_gradient(law, predictor, G, lam)
    if found is not None:
        return found
    reader = _reader(task, predictor, G)
    return node_gradient(task, reader, GRADIENT_NODES, 0, "risk_gradient")(G, lam, errors)


def gram_gradient(task: Any, predictor: Any, G: np.ndarray, lam: float) -> np.ndarray:
    """(m, V): derivatives of the risk in the inner products of m trained vectors with all V."""
    return _gradient_at(task, predictor, G, lam).gram[: len(G) - len(task.teacher_gram)]


def overlap_slopes(
    task: Any, predictor: Any, o: Overlaps, lam: float, errors: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """(6, ...) partial derivatives in the overlaps and the inverse temperature, and their errors."""
    implied = implied_products(task.teacher_gram)
    pair = len(implied)

    def collected(
        gram: np.ndarray, onto: np.ndarray, inverse_temperature: float
    ) -> list[float]:
        cross = np.zeros((2, 2))
        cross[:, :pair] = gram[:2, 2:] @ onto.T
        return [*cross.ravel(), gram[0, 1], inverse_temperature]

    grams = head_gram(o, task.teacher_gram)
    out = np.empty((2, 6, *grams.shape[:-2]))
    for i in np.ndindex(grams.shape[:-2]):
        found = _gradient_at(task, predictor, grams[i], lam, errors)
        out[0, :, *i] = collected(found.gram, implied, found.inverse_temperature)
        out[1, :, *i] = collected(
            found.gram_error, np.abs(implied), found.inverse_temperature_error
        )
    return out[0], out[1]


def node_route_gradient(task: Any, predictor: Any, o: Overlaps, lam: float) -> np.ndarray:
    return overlap_slopes(task, predictor, o, lam, False)[0]


def refuse_weights(predictor: Any, of: str) -> None:
    """Nodes can be differentiated if the weights can."""
    weight_function(getattr(predictor, "head", predictor), of)


NODE_ROUTE = Route(
    defined_excess,
    node_route_gradient,
    exact=False,
    measured=overlap_slopes,
    refuse=refuse_weights,
)


def checked_gram(
    matrix: object, task: Any, vectors: int | None, of: str,
    name: str = "gram", hint: str = "heads_gram(task, K, V)",
) -> np.ndarray:  # fmt: skip
    """Gram matrices (..., V, V) of (trained vectors, teachers), or one sentence.

    Args:
        vectors: how many are trained; None for as many as the matrix has.
    """
    star = task.teacher_gram
    refuse_lost(matrix, name, of)
    try:
        G = np.array(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise bad(name, of, "an array of numbers", matrix, hint) from None
    V = G.shape[-1] if G.ndim >= 2 else 0
    count = V - len(star) if vectors is None else vectors
    if G.ndim < 2 or G.shape[-2] != V or count + len(star) != V or count < 1:
        size = "V" if vectors is None else str(vectors + len(star))
        must = f"of shape (..., {size}, {size}), trained vectors and {len(star)} teachers"
        raise bad(name, of, must, f"shape {G.shape}", hint)
    known = np.isfinite(G).all() and np.abs(G - G.swapaxes(-1, -2)).max() <= GRAM_TOLERANCE
    if not known or np.abs(G[..., count:, count:] - star).max() > GRAM_TOLERANCE:
        must = "symmetric and finite, with the task's own teachers last"
        raise bad(name, of, must, "another matrix", hint)
    least = float(np.linalg.eigvalsh(G)[..., 0].min())
    if least < -GRAM_TOLERANCE * max(1.0, float(np.abs(G).max())):
        raise bad(name, of, "positive semidefinite", f"eigenvalue {least:.3g}", hint)
    return G
