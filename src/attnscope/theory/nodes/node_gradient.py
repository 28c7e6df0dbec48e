"""The mean loss on a planted task's nodes, differentiated in the Gram matrix and the inverse
temperature.

    R(G, lam) = mean over nodes, each with its mirror image (zeta -> -zeta), of the loss of
    node_risk.py,         dR/dG, dR/dlam by JAX on the same nodes.

The factor C of what the teachers leave open is singular where trained vectors lie in their span
(the oracle): dC/drest ~ 1/C. With a node and its mirror image the loss is even in C zeta, a smooth
function of C^2 = rest, and what multiplies 1/C is of order C: the derivative is finite to 1e-11
with the small FACTOR_JITTER of student_gram.py on the diagonal. Where C vanishes and the values'
part W zeta does not (k at a teacher that the label reads), what is left is a^2 W^2 (zeta^2 - 1), of
mean 0, whose noise would turn with the direction of W: with a at zeta = 0 it is taken off (CALM of
it, as C vanishes), and R stays smooth in the trained vectors. Unread tokens (unread_tokens.py) add
M and V to the loss, and (dR/dM) dM + dV to its derivative.

Errors, where they are requested, add three sources: the scatter over scramblings, widened as a
risk's; how far two rules for the unread tokens differ; and what nodes do not resolve. A derivative
comes from few nodes where weights are steep, and from none where they jump between two nodes:
scatter then shows nothing. So every score is also moved by +-SCORE_DIFFERENCE_STEP and +-2
SCORE_DIFFERENCE_STEP of its deviation, with random signs, and the difference quotient (fourth
order) compared with the derivative at each node; the mean of |their difference|, times how far a
score moves with an entry of G, is the third source.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import AttnscopeError
from attnscope.numerics.border.sampled_estimate import widened
from attnscope.numerics.border.x64 import computed_x64
from attnscope.optional import needs
from attnscope.theory.jax_weights import weight_function
from attnscope.theory.nodes.midpoint import midpoint_grid
from attnscope.theory.nodes.node_risk import Reader, cached, cached_nodes, settled
from attnscope.theory.nodes.nodes import SCRAMBLING_COUNT, Nodes
from attnscope.theory.nodes.student_gram import embedded_inverses, seen_by
from attnscope.theory.nodes.unread_tokens import MIDPOINT_RULE_SIZES, Apart, token_moments

__all__ = ["NodeGradient", "node_gradient"]

# in standard deviations of a score: of 2^14 nodes about ten lie within this distance of any point
# that matters, and difference quotients of smooth weights err by 1e-10
SCORE_DIFFERENCE_STEP = 2e-3
QUOTIENT_ROUNDING = 1e-12  # relative to the loss: ten roundings over SCORE_DIFFERENCE_STEP


class NodeGradient(NamedTuple):
    """value, gram (V, V) and inverse temperature derivatives: means over scramblings, and their
    errors.

    gram[a, j] is the derivative in the inner product of trained vector a with vector j: for two
    trained vectors, in both places of the matrix at once. parts (S, V, V): of each scrambling. The
    errors are NaN unless they were requested.
    """

    value: float
    gram: np.ndarray
    inverse_temperature: float
    parts: np.ndarray
    gram_error: np.ndarray
    inverse_temperature_error: float


def node_gradient(
    task: Any, reader: Reader, samples: int, seed: int, of: str
) -> Callable[..., NodeGradient]:
    """A function (G, lam, errors=False) -> NodeGradient, compiled at its first call.

    Which tokens have nodes is decided at the first G of an inverse temperature: one smooth function
    of G.
    """
    needs("jax", f"{of} on {type(task).__name__}")
    decided: dict[float, bool] = {}

    def gradient(G: np.ndarray, lam: float, errors: bool = False) -> NodeGradient:
        if lam not in decided:
            decided[lam] = settled(task, reader, G, lam)
        alone = decided[lam]
        nodes = cached_nodes(task, reader, samples, seed, alone)
        key = ("gradient", reader.form, samples, seed, alone)
        compiled = cached(task, key, lambda: Compiled(nodes, reader, task.teacher_gram, of))
        return compiled.at(np.asarray(G, dtype=np.float64), float(lam), errors)

    return gradient


class Compiled:
    """The derivatives on one set of nodes."""

    def __init__(self, nodes: Nodes, reader: Reader, star: np.ndarray, of: str) -> None:
        self.nodes = nodes
        self.vectors = len(reader.order)
        self.of = of
        self.arrays = _flat_arrays(nodes)
        self.slopes, self.unresolved = _jitted_derivatives(nodes, reader, star, of)
        self.moments = (
            None if nodes.apart is None else _moment_rules(nodes.apart, reader, star, of)
        )
        tallest = np.abs(nodes.means @ star).max(initial=0.0)
        self.reach = 1 + tallest / max(float(nodes.scales.max()), 1e-300)

    def at(self, G: np.ndarray, lam: float, errors: bool) -> NodeGradient:
        nodes = self.nodes
        m, S = nodes.normals.shape[:2]
        weights = nodes.unit**2 * nodes.weights[:, None] * np.ones(S)
        mean = np.zeros(m)
        variance = np.zeros(m)
        moved: Any = None
        with computed_x64():
            if self.moments is not None:
                # the coarse rule is needed for the error only
                rules = self.moments if errors else self.moments[-1:]
                moved = [[np.asarray(x) for x in rule(G, lam)] for rule in rules]
                mean, variance = moved[-1][:2]
            given = (*self.arrays, np.repeat(mean, S))
            found = self.slopes(G, lam, given)
            values, by_mean, by_gram, warm = (
                np.asarray(x).reshape(m, S, *np.shape(x)[1:]) for x in found
            )
            rough = (
                self._unresolved_error(G, lam, given, values.mean()) if errors else math.nan
            )
        values = values + variance[:, None]
        off: tuple[Any, Any] = (0.0, 0.0)
        if moved is not None:
            fine, coarse = (x[2:] for x in (moved[-1], moved[0]))
            by_gram = by_gram + _chain_rule(by_mean, fine[0], fine[1])
            warm = warm + _chain_rule(by_mean, fine[2], fine[3])
            apart = [a - b for a, b in zip(fine, coarse, strict=True)]
            off = tuple(
                np.einsum("is,is...->...", weights / S, np.abs(_chain_rule(by_mean, *pair)))
                for pair in (apart[:2], apart[2:])
            )
        value, heat = ((weights * x).sum(0) for x in (values, warm))
        parts = np.einsum("is,isab->sab", weights, by_gram)
        n = self.vectors
        both_places = 1 - np.eye(n)
        own = parts[:, :n, :n]
        parts[:, :n, :n] = own + own.swapaxes(1, 2) * both_places
        if not (np.isfinite(value).all() and np.isfinite(parts).all()):
            raise AttnscopeError(
                f"the gradient of {self.of} must be finite in float64, got an overflow at these "
                "parameters; try values closer to 1."
            )
        gram = parts.mean(0)
        far = self.reach * rough
        scores = far / max(lam, 1e-300)  # a score moves with lambda by itself/lam
        return NodeGradient(
            float(value.mean()),
            gram,
            float(heat.mean()),
            parts,
            2 * off[0] + np.hypot(_scrambling_error(parts), far),
            float(2 * off[1] + np.hypot(_scrambling_error(heat), scores)),
        )

    def _unresolved_error(
        self, G: np.ndarray, lam: float, given: tuple[Any, ...], loss: float
    ) -> float:
        """What nodes do not resolve (module docstring), above the rounding of a quotient."""
        m, S = self.nodes.normals.shape[:2]
        each = np.asarray(self.unresolved(G, lam, given)).reshape(m, S).mean(1)
        found = float(self.nodes.weights @ each) - QUOTIENT_ROUNDING * abs(loss)
        return self.nodes.unit**2 * max(found, 0.0)


def _chain_rule(
    by_mean: np.ndarray, of_mean: np.ndarray, of_variance: np.ndarray
) -> np.ndarray:
    """(m, S, ...): (dR/dM) dM + dV, of blocks' derivatives (m, ...)."""
    axes = (1,) * (of_mean.ndim - 1)
    return by_mean.reshape(*by_mean.shape, *axes) * of_mean[:, None] + of_variance[:, None]


def _scrambling_error(x: np.ndarray) -> np.ndarray:
    scale = widened(1.0, SCRAMBLING_COUNT) / math.sqrt(SCRAMBLING_COUNT)
    return np.asarray(x.std(0, ddof=1) * scale)


def _flat_arrays(nodes: Nodes) -> tuple[np.ndarray, ...]:
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


def _moment_rules(
    apart: Apart, reader: Reader, star: np.ndarray, of: str
) -> list[Callable[..., Any]]:
    """For each rule (G, lam) -> M, V (m,), then dM/dG, dV/dG, dM/dlam, dV/dlam."""
    import jax
    from jax import numpy as jnp

    weigh = weight_function(reader.head, of)
    unread = np.zeros((1, *star.shape))

    def rule(count: int) -> Callable[..., Any]:
        grid = midpoint_grid(reader.heads, count)

        def of_blocks(G: Any, lam: Any) -> Any:
            law = seen_by(G, reader.order, reader.scores, star, unread, jnp)
            found = token_moments(apart, weigh, reader.heads, law, lam, *grid, jnp)
            return tuple(apart.numbers @ x for x in found)

        def every(G: Any, lam: Any) -> Any:
            values = of_blocks(G, lam)
            (mean_gram, mean_heat), (variance_gram, variance_heat) = jax.jacrev(
                of_blocks, (0, 1)
            )(G, lam)
            return (*values, mean_gram, variance_gram, mean_heat, variance_heat)

        return jax.jit(every)

    return [rule(count) for count in MIDPOINT_RULE_SIZES[reader.heads]]


def _jitted_derivatives(
    nodes: Nodes, reader: Reader, star: np.ndarray, of: str
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """(G, lam, arrays) -> values, d/dM (m S,), d/dG (m S, V, V), d/dlam (m S,); and what is not
    resolved, (m S,).
    """
    import jax
    from jax import lax
    from jax import numpy as jnp

    inverses = embedded_inverses(star, nodes.reads)
    output = _output_function(reader, of)
    calmed = _known_noise_function(reader, of)
    loss = _loss_function(reader.loss)
    masked = nodes.mask is not None
    reads_any = nodes.reads.any(axis=1)
    each, L = nodes.normals.shape[3:]
    moving_vectors = reader.heads if reader.function is None else len(reader.order)
    rng = np.random.default_rng(0)
    signs = np.where(rng.random((moving_vectors, each, L)) < 0.5, -1.0, 1.0)

    def losses(G: Any, lam: Any, mean: Any, arrays: Any, sign: float, shift: Any) -> Any:
        """(n,), every score moved by `shift` of its deviation."""
        scales, seen, normals, answers, chances, mask, means, pattern = arrays
        law = seen_by(G, reader.order, reader.scores, star, inverses, jnp)
        fixed = jnp.einsum("lar,lr->al", law.on_means[pattern], means)[:, None, :]
        fixed = fixed + jnp.einsum("lar,rnl->anl", law.on_seen[pattern], seen)
        moving = scales * jnp.einsum("laq,qnl->anl", law.on_normals[pattern], normals)
        fields = fixed + sign * moving
        if shift is not None:
            moved = fields[:moving_vectors] + shift * scales * signs
            fields = jnp.concatenate([moved, fields[moving_vectors:]])
        real = mask if masked else None
        T, spread = output(fields, law.left[pattern], scales, real, lam)
        if reader.averaged:
            known = jnp.asarray(reads_any)[pattern]
            still = fixed + jnp.where(known, 0.0, sign) * moving
            W = law.on_normals[pattern][:, reader.heads :]
            calm = (1 - law.open[pattern]) * known
            spread = spread - calmed(still, moving, W, scales, real, lam, calm)
        shifted = T if nodes.apart is None else T + mean
        each_class = [chances[c] * loss(shifted, answers[c]) for c in range(chances.shape[0])]
        return sum(each_class) + spread

    def value(G: Any, lam: Any, mean: Any, arrays: Any) -> Any:
        both = [losses(G, lam, mean, arrays, sign, None).mean() for sign in (1.0, -1.0)]
        return (both[0] + both[1]) / 2

    slope = jax.value_and_grad(value, (0, 1, 2))

    def every(G: Any, lam: Any, given: Any) -> Any:
        def part(x: Any) -> Any:
            return slope(G, lam, x[-1], x[:-1])

        found, (by_gram, by_heat, by_mean) = lax.map(part, given)
        return found, by_mean, by_gram, by_heat

    def unresolved(G: Any, lam: Any, given: Any) -> Any:
        def part(x: Any) -> Any:
            at = lambda shift: losses(G, lam, x[-1], x[:-1], 1.0, shift)
            _, exact = jax.jvp(at, (0.0,), (1.0,))
            near = at(SCORE_DIFFERENCE_STEP) - at(-SCORE_DIFFERENCE_STEP)
            far = at(2 * SCORE_DIFFERENCE_STEP) - at(-2 * SCORE_DIFFERENCE_STEP)
            return jnp.abs((8 * near - far) / (12 * SCORE_DIFFERENCE_STEP) - exact).mean()

        return lax.map(part, given)

    return jax.jit(every), jax.jit(unresolved)


def _output_function(reader: Reader, of: str) -> Callable[..., Any]:
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


def _known_noise_function(reader: Reader, of: str) -> Callable[..., Any]:
    """(n,) noise of mean 0 in an output's square: (sum_l calm_l s_l a0_l.W_l zeta_l)^2 less its
    mean, a0 the weights where the tokens with calm_l > 0 have zeta = 0.
    """
    from jax import numpy as jnp

    if not reader.averaged:
        return lambda *_: 0.0
    weigh = weight_function(reader.head, of)
    H = reader.heads

    def noise(
        still: Any, moving: Any, W: Any, scales: Any, mask: Any, lam: Any, calm: Any
    ) -> Any:
        weights = calm * weigh(lam * still[:H], mask)
        drawn = (weights * moving[H:]).sum((0, 2)) ** 2
        across = jnp.einsum("laq,lbq->lab", W, W)
        mean = jnp.einsum("gnl,hnl,lgh,nl->n", weights, weights, across, scales**2)
        return drawn - mean

    return noise


def _loss_function(loss: Any) -> Callable[[Any, Any], Any]:
    from jax import numpy as jnp

    def squared(output: Any, label: Any) -> Any:
        squares = (output - label) ** 2
        return squares if squares.ndim == 1 else squares.sum(-1)

    def logistic(output: Any, label: Any) -> Any:
        return jnp.logaddexp(0.0, -jnp.sign(label) * output)

    known = {"squared": squared, "logistic": logistic}
    return known[loss] if isinstance(loss, str) else loss
