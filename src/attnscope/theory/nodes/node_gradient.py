"""The mean loss on a planted task's nodes, differentiated in the Gram matrix and the temperature.

    R(G, lam) = mean over nodes, each with its mirror image (zeta -> -zeta), of the loss of
    node_risk.py,         dR/dG, dR/dlam by JAX on the same nodes.

The factor C of what the teachers leave open is singular where trained vectors lie in their span (the
oracle): dC/drest ~ 1/C. With a node and its mirror image the loss is even in C zeta, a smooth
function of C^2 = rest, and what multiplies 1/C is of order C: the derivative is finite to 1e-11 with
the small JITTER of students.py on the diagonal. Exact up to the nodes' own error, whose size the
scatter over scramblings tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.numerics.border.sampled_estimate import widened
from attnscope.numerics.border.x64 import x64
from attnscope.theory.jax_weights import weight_function
from attnscope.theory.nodes.node_risk import Reader, _kept, cached_nodes
from attnscope.theory.nodes.nodes import SCRAMBLINGS, Nodes
from attnscope.theory.nodes.students import embedded_inverses, seen_by

__all__ = ["NodeGradient", "node_gradient"]


class NodeGradient(NamedTuple):
    """value, gram (V, V) and temperature derivatives: means over scramblings, and their errors.

    gram[a, j] is the derivative in the inner product of trained vector a with vector j: for two
    trained vectors, in both places of the matrix at once.
    """

    value: float
    gram: np.ndarray
    temperature: float
    value_error: float
    gram_error: np.ndarray
    temperature_error: float


def node_gradient(
    task: Any, reader: Reader, samples: int, seed: int, of: str
) -> Callable[[np.ndarray, float], NodeGradient]:
    """A function (G, lam) -> NodeGradient, compiled at its first call."""
    nodes = cached_nodes(task, reader, samples, seed)
    key = ("gradient", reader, samples, seed)
    compiled = _kept(task, key, lambda: _compiled(nodes, reader, task.teacher_gram, of))
    arrays = _arrays(nodes)
    m = len(reader.order)
    S = nodes.normals.shape[1]

    def gradient(G: np.ndarray, lam: float) -> NodeGradient:
        with x64():
            found = compiled(np.asarray(G, dtype=np.float64), float(lam), arrays)
            values, slopes, warm = (np.asarray(x) for x in found)
        weights = nodes.unit**2 * nodes.weights[:, None]
        values = (weights * values.reshape(-1, S)).sum(0)
        warm = (weights * warm.reshape(-1, S)).sum(0)
        slopes = np.einsum(
            "is,isab->sab", weights * np.ones(S), slopes.reshape(-1, S, *G.shape)
        )
        own = slopes[:, :m, :m]
        slopes[:, :m, :m] = own + own.swapaxes(1, 2) * (1 - np.eye(m))
        if not (np.isfinite(values).all() and np.isfinite(slopes).all()):
            raise AttnscopeError(
                f"the gradient of {of} must be finite in float64, got an overflow at these "
                "parameters; try values closer to 1."
            )
        parts = [(x.mean(0), _error(x)) for x in (values, slopes, warm)]
        (value, a), (slope, b), (heat, c) = parts
        return NodeGradient(float(value), slope, float(heat), float(a), b, float(c))

    return gradient


def _error(x: np.ndarray) -> np.ndarray:
    scale = widened(1.0, SCRAMBLINGS) / math.sqrt(SCRAMBLINGS)
    return np.asarray(x.std(0, ddof=1) * scale)


def _arrays(nodes: Nodes) -> tuple[np.ndarray, ...]:
    """Per block and scrambling (m S, ...): scales, seen, normals, answers, chances, mask, means,
    pattern.
    """
    m, S = nodes.normals.shape[:2]
    flat = lambda x: x.reshape(m * S, *x.shape[2:])
    scales = np.broadcast_to(nodes.scales, (m, S, *nodes.scales.shape[2:]))
    shape = (*nodes.normals.shape[:2], *nodes.normals.shape[3:])
    mask = np.ones(shape, bool) if nodes.mask is None else nodes.mask
    each = [scales, nodes.seen, nodes.normals, nodes.answers, nodes.chances, mask]
    again = [np.repeat(x, S, axis=0) for x in (nodes.means, nodes.pattern)]
    return (*(flat(np.ascontiguousarray(x)) for x in each), *again)


def _compiled(nodes: Nodes, reader: Reader, star: np.ndarray, of: str) -> Callable[..., Any]:
    """(G, lam, arrays) -> values (m S,), d/dG (m S, V, V), d/dlam (m S,)."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    inverses = embedded_inverses(star, nodes.reads)
    output = _output(reader, of)
    loss = _loss(reader.loss)
    masked = nodes.mask is not None

    def value(G: Any, lam: Any, arrays: Any) -> Any:
        scales, seen, normals, answers, chances, mask, means, pattern = arrays
        law = seen_by(G, reader.order, reader.scores, star, inverses, jnp)
        fixed = jnp.einsum("lar,lr->al", law.on_means[pattern], means)[:, None, :]
        fixed = fixed + jnp.einsum("lar,rnl->anl", law.on_seen[pattern], seen)
        moving = scales * jnp.einsum("laq,qnl->anl", law.on_normals[pattern], normals)
        total = 0.0
        for sign in (1.0, -1.0):
            fields = fixed + sign * moving
            T, spread = output(
                fields, law.left[pattern], scales, mask if masked else None, lam
            )
            told = sum(chances[c] * loss(T, answers[c]) for c in range(chances.shape[0]))
            total = total + (told + spread).mean() / 2
        return total

    slope = jax.value_and_grad(value, (0, 1))

    def every(G: Any, lam: Any, arrays: Any) -> Any:
        found, (by_gram, by_heat) = lax.map(lambda part: slope(G, lam, part), arrays)
        return found, by_gram, by_heat

    return jax.jit(every)


def _output(reader: Reader, of: str) -> Callable[..., Any]:
    """(fields (a, n, L), left, scales, mask, lam) -> outputs (n,) and what averaging adds."""
    import jax
    from jax import numpy as jnp

    if reader.function is not None:
        function = reader.function

        def of_function(fields: Any, left: Any, scales: Any, mask: Any, lam: Any) -> Any:
            return jax.vmap(lambda x: function(x, lam))(jnp.moveaxis(fields, 0, -1)), 0.0

        return of_function
    weigh = weight_function(reader.head, of)
    H = reader.heads

    def of_heads(fields: Any, left: Any, scales: Any, mask: Any, lam: Any) -> Any:
        weights = weigh(lam * fields[:H], mask)
        T = (weights * fields[H:]).sum((0, 2))
        if not reader.averaged:
            return T, 0.0
        return T, jnp.einsum("gnl,hnl,lgh,nl->n", weights, weights, left, scales**2)

    return of_heads


def _loss(loss: Any) -> Callable[[Any, Any], Any]:
    from jax import numpy as jnp

    def squared(output: Any, label: Any) -> Any:
        squares = (output - label) ** 2
        return squares if squares.ndim == 1 else squares.sum(-1)

    def logistic(output: Any, label: Any) -> Any:
        return jnp.logaddexp(0.0, -jnp.sign(label) * output)

    known = {"squared": squared, "logistic": logistic}
    return known[loss] if isinstance(loss, str) else loss
