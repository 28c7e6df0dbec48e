"""The mean loss of heads on a planted task's nodes, at any Gram matrix, with its error.

notation: u_h, w_h scores and values of head h (student_gram.py), a_h = weights(lam u_h), y_c the
label's values with chances p_c, T the output.

    squared loss    E[sum_c p_c (y_c - T)^2 | nodes]
                    = sum_c p_c (y_c - sum_hl a_hl E w_hl)^2 + sum_l scale_l^2 a_l^T Q_l a_l
    any other       sum_c p_c loss(T, y_c)

averaged over the points of a scrambling; the error is the standard error over scramblings, widened
so that 5 of it hold as for a normal (numerics/border/sampled_estimate.py), and what no node has
shown (sampled_mean.py) up to what an output typically loses that has nothing to do with its label:
each output with the label of another node and, of heads and a squared loss, the worst weights on
the largest value, E (|y| + S max_l |w_l|)^2, S the largest sum of |weights|. Where E y^2 is another
one with what is read drawn further out (nodes.py), the difference is part of the error. A squared
loss leaves the label noise out, as `excess` does; every other loss has it among its nodes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border.sampled_estimate import widened
from attnscope.numerics.border.sampled_mean import tail_size, unseen_above
from attnscope.numerics.border.x64 import computed_x64
from attnscope.optional import needs
from attnscope.tasks.planted.definition_checks import check_one_number
from attnscope.theory.loss_values import loss_values
from attnscope.theory.nodes.nodes import SCRAMBLING_COUNT, Nodes, far_squares, nodes_of
from attnscope.theory.nodes.student_gram import Seen, embedded_inverses, seen_by
from attnscope.theory.nodes.unread_tokens import (
    MIDPOINT_RULE_SIZES,
    Apart,
    Moments,
    moments_of,
)

__all__ = [
    "NODE_METHOD",
    "Reader",
    "cached",
    "cached_nodes",
    "means_on",
    "node_excess",
    "reader_of",
    "settled",
]

NODE_METHOD = "quasi-monte-carlo"
NODE_MEAN_ROUNDING = 1e-13  # relative: a mean of positive terms with a few roundings each
FAR_STANDARD_ERRORS = 4.0  # a difference of this many standard errors is significant
PROBE_NODE_COUNT = 1 << 11  # enough for the size of a label and the tokens that it reads
NODE_NUMBERS_PER_CHUNK = 1 << 19  # entries of an array processed at a time: 4 MB
# sets of nodes and compiled gradients that a task holds: some 10 MB each
CACHED_NODE_SETS = 12


class Reader(NamedTuple):
    """What reads a token: `heads` heads of one kind, or a function of projections.

    function: (fields (L, vectors), inverse temperature) -> output, by JAX; None for heads.
    loss: "squared", "logistic" or a function (output, label).
    """

    head: Any
    heads: int
    loss: Any
    function: Callable[..., Any] | None = None
    vectors: int = 0

    @property
    def averaged(self) -> bool:
        """Whether values are averaged out given the scores."""
        return self.function is None and self.loss == "squared"

    @property
    def order(self) -> list[int]:
        """The trained vectors k_1, v_1, k_2, ... with the scores first."""
        if self.function is not None:
            return list(range(self.vectors))
        return [*range(0, 2 * self.heads, 2), *range(1, 2 * self.heads, 2)]

    @property
    def scores(self) -> int:
        """Trained vectors with a normal of their own per token."""
        return self.heads if self.averaged else len(self.order)

    @property
    def form(self) -> Reader:
        """The same at inverse temperature 1: what is compiled does not depend on it."""
        if self.head is None:
            return self
        head = copy.copy(self.head)
        object.__setattr__(head, "inverse_temperature", 1.0)  # heads are frozen
        return self._replace(head=head)

    def shape(self, alone: bool) -> tuple[int, bool, bool]:
        """What the nodes depend on."""
        return self.scores, self.alike, alone

    @property
    def alone(self) -> bool:
        """Whether tokens that no label reads need no nodes (unread_tokens.py)."""
        return self.averaged and self.head.componentwise and self.heads in MIDPOINT_RULE_SIZES

    @property
    def alike(self) -> bool:
        """Whether the location of a token does not matter."""
        return self.function is None and (self.head.componentwise or self.head.normalised)


def reader_of(task: Any, predictor: Any, vectors: int = 0) -> Reader:
    """The reader of a predictor, a MultiHead or a function of projections, with the task's loss."""
    loss = getattr(task, "loss", "squared")
    if hasattr(predictor, "weights") or hasattr(predictor, "head"):
        check_one_number(task)
    if hasattr(predictor, "head"):
        return Reader(predictor.head, predictor.heads, loss)
    if hasattr(predictor, "weights"):
        return Reader(predictor, 1, loss)
    return Reader(None, 0, loss, predictor, vectors)


def node_excess(
    task: Any, reader: Reader, G: np.ndarray, lam: float, samples: int, seed: int
) -> tuple[float, float, str]:
    """(excess, error, method) at one Gram matrix (V, V) of (trained vectors, teachers)."""
    star = task.teacher_gram
    alone = settled(task, reader, G, lam)
    nodes = cached_nodes(task, reader, samples, seed, alone)
    scramblings, _, each, _ = nodes.normals.shape[1:]
    tail = Tail(scramblings * each)
    found = means_on(nodes, reader, G, lam, star, tail)
    value = float(found.means.mean())
    seen = widened(
        float(found.means.std(ddof=1)) / math.sqrt(SCRAMBLING_COUNT), SCRAMBLING_COUNT
    )
    error = math.hypot(seen, nodes.unit**2 * tail.unseen())
    error += _far_error(task, reader)
    return value, error + found.apart_error + NODE_MEAN_ROUNDING * abs(value), NODE_METHOD


def _far_error(task: Any, reader: Reader) -> float:
    """The part of the label's square beyond all nodes, if draws further out show one."""
    if reader.loss != "squared":
        return 0.0
    found = cached(task, ("far", reader.alike), lambda: far_squares(task, reader.alike))
    if found is None or abs(found[0]) <= FAR_STANDARD_ERRORS * found[1]:
        return 0.0
    return float(abs(found[0]) + FAR_STANDARD_ERRORS * found[1])


def settled(task: Any, reader: Reader, G: np.ndarray, lam: float) -> bool:
    """Whether tokens that no label reads are known by their moments, at this lambda."""
    if not reader.alone:
        return False
    few = cached_nodes(task, reader, PROBE_NODE_COUNT, 0, True)
    if few.apart is None:
        return False
    return _unread_moments(few, few.apart, reader, G, lam, task.teacher_gram).settled(
        _label_mean_square(few)
    )


def _unread_moments(
    nodes: Nodes, apart: Apart, reader: Reader, G: np.ndarray, lam: float, star: np.ndarray
) -> Moments:
    unread = np.zeros((1, *star.shape))
    law = seen_by(G, reader.order, reader.scores, star, unread)
    return moments_of(apart, reader.head, reader.heads, law, lam)


def _label_mean_square(nodes: Nodes) -> np.ndarray:
    """(m,) mean squares of the label."""
    each = (nodes.chances * nodes.answers**2).sum(2)
    return np.asarray(each.mean((1, 2)))


def cached_nodes(task: Any, reader: Reader, samples: int, seed: int, alone: bool) -> Nodes:
    """The nodes of a task; kept with it, because they are the same for every Gram matrix."""
    noise = 0.0 if reader.loss == "squared" else task.noise
    key = ("nodes", reader.shape(alone), samples, seed, noise)
    make = lambda: nodes_of(task, reader.scores, samples, seed, reader.alike, noise, alone)
    return cached(task, key, make)


def cached(task: Any, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """The result of `make`, computed once for every key; the task keeps the last few."""
    held = vars(task).setdefault("_nodes", {})
    if key not in held:
        while len(held) >= CACHED_NODE_SETS:
            held.pop(next(iter(held)))
        held[key] = make()
    return held[key]


class OnNodes(NamedTuple):
    """means (S,) over scramblings; apart_error: of the moments of tokens without nodes."""

    means: np.ndarray
    apart_error: float


class Tail:
    """The largest losses on n nodes of each latent, and what one may typically come to."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.top = np.empty(0)
        self.typical = 0.0

    def add(self, losses: np.ndarray, typical: np.ndarray, weight: float) -> None:
        """Those of a block (S', n) of a latent of probability `weight`."""
        both = np.concatenate([self.top, losses.ravel()])
        count = min(tail_size(self.n) + 1, len(both))
        self.top = np.sort(np.partition(both, -count)[-count:])
        self.typical += weight * float(typical.sum()) / self.n

    def unseen(self) -> float:
        """What nodes above all of these may add to the mean, as a standard error."""
        return unseen_above(self.top, self.n, self.typical)


def means_on(
    nodes: Nodes,
    reader: Reader,
    G: np.ndarray,
    lam: float,
    star: np.ndarray,
    tail: Tail | None = None,
) -> OnNodes:
    """Means of the loss over the points of each scrambling; every loss is added to the tail."""
    law = seen_by(G, reader.order, reader.scores, star, embedded_inverses(star, nodes.reads))
    S, _, n, L = nodes.normals.shape[1:]
    size = max(1, NODE_NUMBERS_PER_CHUNK // (n * L))
    out = np.zeros(S)
    known = (
        None
        if nodes.apart is None
        else _unread_moments(nodes, nodes.apart, reader, G, lam, star)
    )
    for i, weight in enumerate(nodes.weights):
        added = (0.0, 0.0) if known is None else (known.mean[i], known.variance[i])
        for s in range(0, S, size):
            part = slice(s, s + size)
            losses, typical = _losses_and_typical(nodes, i, part, reader, law, lam, added)
            if tail is not None:
                tail.add(losses, typical, float(weight))
            out[part] += weight * losses.mean(1)
    error = (
        0.0
        if known is None
        else float(nodes.weights @ known.error(_label_mean_square(nodes)))
    )
    return OnNodes(nodes.unit**2 * out, nodes.unit**2 * error)


def _losses_and_typical(
    nodes: Nodes, i: int, part: slice, reader: Reader, law: Seen, lam: float,
    added: tuple[float, float],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(S', n) losses of a block, and what each could typically be (module docstring).

    Args:
        added: mean and variance of what tokens without nodes add to an output.
    """
    scales = nodes.scales[i, part] if nodes.scales.shape[1] > 1 else nodes.scales[i]
    answers = nodes.answers[i, part] - added[0]
    chances = nodes.chances[i, part]
    mask = None if nodes.mask is None else nodes.mask[i, part]
    pattern = nodes.pattern[i]
    offsets = np.einsum("lar,lr->la", law.on_means[pattern], nodes.means[i])

    def projection(a: int) -> np.ndarray:
        """(S', n, L) of trained vector a."""
        on = law.on_normals[pattern, a]
        noise = nodes.normals[i, part, 0] * (on[:, 0] * scales)
        for j in range(1, on.shape[1]):
            if on[:, j].any():
                noise += nodes.normals[i, part, j] * (on[:, j] * scales)
        if offsets[:, a].any():
            noise += offsets[:, a]
        for j in range(nodes.seen.shape[2]):
            on_seen = law.on_seen[pattern, a, j]
            read = np.flatnonzero(on_seen)
            if len(read) == 1:  # as in tasks with one informative location
                noise[:, :, read[0]] += on_seen[read[0]] * nodes.seen[i, part, j, :, read[0]]
            elif len(read):
                noise += nodes.seen[i, part, j] * on_seen
        return noise

    fields = [projection(a) for a in range(len(reader.order))]
    spread: Any = 0.0
    reach: Any = 0.0
    if reader.function is not None:
        output = _function_outputs(reader, fields, lam)
    else:
        H = reader.heads
        weights = [_head_weights(reader.head, lam * fields[h], mask) for h in range(H)]
        output = sum((weights[h] * fields[H + h]).sum(-1) for h in range(H))
        if reader.averaged:
            spread = _value_variance(weights, law.left[pattern], scales) + added[1]
            reach = _largest_typical_loss(weights, fields[H:], answers)
    of_another = _mean_loss(reader.loss, np.roll(output, 1, axis=1), answers, chances)
    losses = _mean_loss(reader.loss, output, answers, chances) + spread
    return losses, np.maximum(of_another, reach)


def _largest_typical_loss(
    weights: list[np.ndarray], values: list[np.ndarray], answers: np.ndarray
) -> np.ndarray:
    """(S', n): (|y| + S max |w|)^2, S of the block."""
    heaviest = sum(np.abs(a).sum(-1) for a in weights).max()
    largest = np.max([np.abs(w).max(-1) for w in values], axis=0)
    return (np.abs(answers).max(axis=1) + heaviest * largest) ** 2


def _head_weights(head: Any, scores: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    flat = scores.reshape(-1, scores.shape[-1])
    real = None if mask is None else mask.reshape(flat.shape)
    return head.weights(flat, real).reshape(scores.shape)


def _value_variance(
    weights: list[np.ndarray], left: np.ndarray, scales: np.ndarray
) -> np.ndarray:
    total: Any = 0.0
    for g, one in enumerate(weights):
        for h, other in enumerate(weights):
            total = total + (one * other * (left[:, g, h] * scales**2)).sum(-1)
    return total


def _function_outputs(reader: Reader, fields: list[np.ndarray], lam: float) -> np.ndarray:
    """Outputs (S', n) or (S', n, o) of a function of projections."""
    needs("jax", "the risk of a function of projections")
    import jax

    seen = np.stack(fields, axis=-1)
    with computed_x64():
        each = jax.vmap(lambda x: reader.function(x, lam))  # type: ignore[misc]
        out = np.asarray(each(seen.reshape(-1, *seen.shape[2:])))
    if not np.isfinite(out).all():
        raise bad("predictor", "risk", "a function with finite values", "NaN or infinity")
    return out.reshape(*seen.shape[:2], *out.shape[1:])


def _mean_loss(
    loss: Any, output: np.ndarray, answers: np.ndarray, chances: np.ndarray
) -> np.ndarray:
    """(S', n): the loss, averaged over the label's values (S', C, n) or (S', C, n, o)."""
    total: Any = 0.0
    for c in range(chances.shape[1]):
        several = answers.ndim == 4
        total = total + chances[:, c] * loss_values(loss, output, answers[:, c], several)
    return total
