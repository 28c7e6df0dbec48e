"""Fixed nodes for the mean of a loss over a planted task: what the teachers see, the label, and
standard normals for what the trained vectors see beyond.

notation: L = length, r teachers, S scramblings of n points each, m blocks (latent values), q
normals per token for the trained vectors.

Given the latent, a token's projections are Gaussian. Those on the teachers that the label reads
(labels/label_blocks.py) come first, so that labels are computed once, with NumPy, whatever the
trained vectors are; what these see beyond is in student_gram.py. All normals are Phi^-1 of the
coordinates of a Sobol' sequence, scrambled (Matousek) S times independently: each scrambling is an
unbiased mean of its own, and their scatter is the standard error.

    finite latents, at most LARGEST_BLOCK_COUNT   one block each, weighted by its probability; latents that are
                                     permutations of one another are one block where weights of
                                     tokens do not depend on their locations
    any other definition             one block; latents drawn anew in every scrambling
    a task with projections alone    one block; the teachers' projections drawn by the task itself

Where weights act on each score alone and the loss is squared, tokens that no label reads have no
nodes (unread_tokens.py).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from attnscope.numerics.semidefinite import semidefinite_root
from attnscope.tasks.base import is_defined
from attnscope.theory.labels.carriers import Unsupported
from attnscope.theory.labels.label_blocks import what_is_read
from attnscope.theory.nodes.label_inputs import answers_at, redrawn
from attnscope.theory.nodes.unread_tokens import Apart, apart_of, taken

__all__ = ["SCRAMBLING_COUNT", "Nodes", "far_squares", "nodes_of"]

SCRAMBLING_COUNT = 32  # a standard error with 31 degrees of freedom is widened by a quarter
LARGEST_BLOCK_COUNT = 64  # with more latent values than this, latents are drawn
# coordinates of a Sobol' sequence; further ones, whose share of a variance is small, are drawn
SOBOL_COORDINATES = 1024
SOBOL_BITS = 52  # per coordinate: normals up to 8 standard deviations
NODE_SEED = 0x90DE5
FAR_WIDTH_FACTOR = 2.5  # far_squares draws this many times as wide as the law
FAR_NODE_COUNT = 1 << 14


class Nodes(NamedTuple):
    """Blocks side by side; m blocks, S scramblings, n points, L tokens.

    weights: (m,) of the blocks.
    reads: (P, r) bool, the different sets of teachers that a label reads of a token;
    pattern: (m, L) which set. means: (m, L, r). scales: (m, S or 1, n or 1, L).
    seen: (m, S, r, n, L) projections on the teachers, 0 where unread.
    normals: (m, S, q, n, L). answers: (m, S, C, n) or (m, S, C, n, o) the label's values, and
    chances: (m, S, C, n) their probabilities. mask: (m, S, n, L) or None. unit: of the label.
    apart: the tokens that have no nodes; L then counts the others, with zeros where a block has
    fewer.
    """

    weights: np.ndarray
    reads: np.ndarray
    pattern: np.ndarray
    means: np.ndarray
    scales: np.ndarray
    seen: np.ndarray
    normals: np.ndarray
    answers: np.ndarray
    chances: np.ndarray
    mask: np.ndarray | None
    unit: float
    apart: Apart | None = None


class Law(NamedTuple):
    """Blocks of a defined task: latent values (m, ...), weights (m,), means (m, L, r), scales (m,
    L), reads (m, L, r).
    """

    values: np.ndarray
    weights: np.ndarray
    means: np.ndarray
    scales: np.ndarray
    reads: np.ndarray


def nodes_of(
    task: Any, q: int, samples: int, seed: int, alike: bool, noise: float = 0.0,
    alone: bool = False,
) -> Nodes:  # fmt: skip
    """About `samples` nodes: a power of two per block and scrambling.

    Args:
        q: normals per token for the trained vectors.
        alike: whether weights of tokens do not depend on their locations.
        alone: whether tokens that no label reads need no nodes (unread_tokens.py).
        noise: standard deviation of label noise that is drawn; 0 where a loss accounts for it.
    """
    law = blocks_of(task, alike) if is_defined(task) else None
    m = 1 if law is None else len(law.values)
    n = 1 << max(4, math.ceil(math.log2(samples / (SCRAMBLING_COUNT * m))))
    if law is not None:
        made = _nodes_by_latent(task, law, q, n, seed, alone)
        if made is None:  # a label reads what it was thought not to
            everything = law._replace(reads=np.ones_like(law.reads))
            made = _nodes_by_latent(task, everything, q, n, seed, alone)
        assert made is not None
    else:
        made = _nodes_of_drawn_latents(task, q, n, seed)
    if noise:
        rng = np.random.default_rng([seed, NODE_SEED, 2])
        added = noise / made.unit * rng.standard_normal(made.answers.shape)
        made = made._replace(answers=made.answers + added)
    return made


def blocks_of(task: Any, alike: bool) -> Law | None:
    """The latent's values as blocks, or None where there are too many."""
    if task.latents is None:
        return None
    values, weights = task.enumerated("risk")
    if len(values) > LARGEST_BLOCK_COUNT:
        return None
    possible = weights > 0
    values = values[possible]
    means, scales = task.token_law(values)
    try:
        reads, codes = what_is_read(task, values)
    except Unsupported:  # unknown what is read, so everything counts as read
        reads = np.ones(means.shape, bool)
        codes = np.arange(len(values), dtype=np.uint64)
    law = Law(values, weights[possible], means, scales, reads)
    return _merged_blocks(law, codes) if alike else law


def _merged_blocks(law: Law, codes: np.ndarray) -> Law:
    """Latents that are permutations of one another, labels included, are one.

    Args:
        codes: (m,) of the label's expressions (labels/provenance_tags.py), in which what is read is
            numbered by its location: the permutation must keep the order of the tokens that are
            read.
    """
    rows = np.concatenate([law.means, law.scales[:, :, None], law.reads], axis=2)
    place: dict[bytes, int] = {}
    kept: list[int] = []
    weights: list[float] = []
    for i, weight in enumerate(law.weights):
        read = law.reads[i].any(1)
        others = rows[i][~read]
        key = rows[i][read].tobytes() + others[np.lexsort(others.T[::-1])].tobytes()
        key += codes[i].tobytes()
        if key in place:
            weights[place[key]] += float(weight)
            continue
        place[key] = len(kept)
        kept.append(i)
        weights.append(float(weight))
    return Law(
        law.values[kept],
        np.array(weights),
        law.means[kept],
        law.scales[kept],
        law.reads[kept],
    )


# -- normals ---------------------------------------------------------------------------------------


def _sobol_normals(size: int, n: int, seed: list[int]) -> np.ndarray:
    """(n, size): scrambled Sobol' points as standard normals."""
    from scipy.stats import qmc  # imported late: half a second

    rng = np.random.default_rng(seed)
    leading = min(size, SOBOL_COORDINATES)
    points = qmc.Sobol(leading, scramble=True, bits=SOBOL_BITS, seed=rng).random(n)
    # the middle of the cell, so that 0 is no coordinate
    found = ndtri(points + 0.5**SOBOL_BITS / 2)
    if size == leading:
        return found
    return np.concatenate([found, rng.standard_normal((n, size - leading))], axis=1)


# -- blocks ----------------------------------------------------------------------------------------


def _nodes_by_latent(
    task: Any, law: Law, q: int, n: int, seed: int, alone: bool
) -> Nodes | None:
    """A block per latent; None where a label reads more than it was thought to."""
    m, L, r = law.means.shape
    apart = apart_of(law.means, law.scales, law.reads) if alone else None
    kept = np.tile(np.arange(L), (m, 1)) if apart is None else apart.kept
    reads, place = np.unique(law.reads.reshape(-1, r), axis=0, return_inverse=True)
    roots = [_read_gram_root(task.teacher_gram, row) for row in reads]
    pattern = place.reshape(m, L)
    blocks = []
    for i in range(m):
        size = int(law.reads[i].sum()) + kept.shape[1] * q
        parts = [
            _sobol_normals(size, n, [seed, NODE_SEED, i, s]) for s in range(SCRAMBLING_COUNT)
        ]
        own = [roots[p] for p in pattern[i]]
        made = [
            _block_nodes(task, law, i, q, z, own, kept[i], [seed, s])
            for s, z in enumerate(parts)
        ]
        whole = [x for x in made if x is not None]
        if len(whole) < len(made):
            return None
        blocks.append(whole)
    seen, normals, answers, chances = (
        np.stack([np.stack([scrambling[k] for scrambling in block]) for block in blocks])
        for k in range(4)
    )
    means, scales, pattern = (
        np.stack([taken(x[i], kept[i], 0) for i in range(m)])
        for x in (law.means, law.scales, pattern)
    )
    return Nodes(
        law.weights, reads, pattern, means, scales[:, None, None], seen, normals, answers,
        chances, None, 1.0, apart,
    )  # fmt: skip


def far_squares(task: Any, alike: bool) -> np.ndarray | None:
    """(2,): by how much E y^2 is larger where what is read is drawn FAR_WIDTH_FACTOR times as wide,
    and the
    standard error of that; None where there are no blocks.

    A class that no node has met lies far out more often than not: with x = FAR_WIDTH_FACTOR z,
    weighted by phi(x)/phi(z) FAR_WIDTH_FACTOR, events of 5 standard deviations are as frequent as
    those of 2.
    """
    law = blocks_of(task, alike) if is_defined(task) else None
    if law is None:
        return None
    L = law.means.shape[1]
    total = variance = 0.0
    for i in range(len(law.values)):
        count = int(law.reads[i].sum())
        wide = min(FAR_WIDTH_FACTOR, math.sqrt(1 + 6 / max(count, 1)))
        roots = [_read_gram_root(task.teacher_gram, row) for row in law.reads[i]]
        z = _sobol_normals(max(count, 1), FAR_NODE_COUNT, [FAR_NODE_COUNT, NODE_SEED, i])
        squares = []
        for scale in (1.0, wide):
            x = scale * z
            made = _block_nodes(task, law, i, 0, x, roots, np.arange(L), [FAR_NODE_COUNT, 0])
            if made is None:
                return None
            _, _, answers, chances = made
            square = answers**2 if answers.ndim == 2 else (answers**2).sum(-1)
            weight = scale**count * np.exp(((z * z - x * x) / 2).sum(1))
            squares.append(weight * (chances * square).sum(0))
        near, far = squares
        total += law.weights[i] * float(far.mean() - near.mean())
        variance += law.weights[i] ** 2 * float(near.var() + far.var()) / FAR_NODE_COUNT
    return np.array([total, math.sqrt(variance)])


def _read_gram_root(gram: np.ndarray, read: np.ndarray) -> np.ndarray:
    """(r, count) with root root^T the Gram matrix of what is read; rows of the others are 0."""
    out = np.zeros((len(read), int(read.sum())))
    out[read] = semidefinite_root(gram[np.ix_(read, read)])
    return out


def _block_nodes(
    task: Any,
    law: Law,
    i: int,
    q: int,
    z: np.ndarray,
    roots: list[np.ndarray],
    kept: np.ndarray,
    seed: list[int],
) -> tuple[np.ndarray, ...] | None:
    """(seen, normals, answers, chances) of one latent at normals z (n, size), for the tokens
    `kept`; a label that draws random numbers has its own stream in every scrambling.
    """
    n = len(z)
    mean = law.means[i] @ task.teacher_gram
    seen = np.zeros((n, *mean.shape))
    used = 0
    for l, root in enumerate(roots):
        count = root.shape[1]
        seen[:, l] = mean[l] + law.scales[i, l] * z[:, used : used + count] @ root.T
        used += count
    latent = np.repeat(law.values[i : i + 1], n, axis=0)
    answers, chances = _label_and_chances(task, seen, latent, [*seed, NODE_SEED, i, 3])
    unread = ~law.reads[i]
    if unread.any():
        rng = np.random.default_rng([i, NODE_SEED])
        other = np.where(unread, redrawn(task, law.means[i], law.scales[i], n, rng), seen)
        if not np.array_equal(
            answers_at(task, other, latent), answers_at(task, seen, latent)
        ):
            return None
    seen = taken(np.where(law.reads[i], seen, 0.0), kept, 1)
    rest = z[:, used : used + len(kept) * q].reshape(n, q, len(kept))
    return np.moveaxis(seen, 2, 0), np.moveaxis(rest, 1, 0), answers, chances


def _label_and_chances(
    task: Any, fields: np.ndarray, latent: np.ndarray, stream: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The label's values (C, n) or (1, n, o) and their probabilities (C, n)."""
    if getattr(task, "likelihood", None) is not None and task.classes is not None:
        chances = task.class_chances(fields, latent).T
        classes = np.repeat(np.array(task.classes)[:, None], len(fields), axis=1)
        return classes, chances
    label = answers_at(task, fields, latent, stream)
    return label[None], np.ones((1, len(fields)))


def _nodes_of_drawn_latents(task: Any, q: int, n: int, seed: int) -> Nodes:
    """One block whose teachers' side is drawn; every projection counts as read."""
    L = task.length
    G = task.teacher_gram
    r = len(G)
    rows: list[tuple[np.ndarray, ...]] = []
    masks: list[np.ndarray | None] = []
    unit = 1.0
    for s in range(SCRAMBLING_COUNT):
        rng = np.random.default_rng([seed, NODE_SEED, s, 1])
        if is_defined(task):
            latent = task.drawn_latent(n, rng)
            means, scales = task.token_law(latent)
            z = _sobol_normals(L * (r + q), n, [seed, NODE_SEED, 0, s])
            noise = z[:, : L * r].reshape(n, L, r) @ semidefinite_root(G).T
            seen = means @ G + scales[:, :, None] * noise
            normals = z[:, L * r :].reshape(n, q, L)
            answers, chances = _label_and_chances(task, seen, latent, [seed, NODE_SEED, s, 3])
            mask = None
        else:
            drawn = task.projections(n, G, rng)
            seen, scales, mask, unit = drawn.fields, drawn.scales, drawn.mask, drawn.unit
            normals = _sobol_normals(L * q, n, [seed, NODE_SEED, 0, s]).reshape(n, q, L)
            answers, chances = drawn.label[None], np.ones((1, n))
        rows.append(
            (np.moveaxis(seen, 2, 0), np.moveaxis(normals, 1, 0), answers, chances, scales)
        )
        masks.append(mask)
    seen, normals, answers, chances, scales = (
        np.stack([x[k] for x in rows])[None] for k in range(5)
    )
    mask = None if masks[0] is None else np.stack([x for x in masks if x is not None])[None]
    everything = np.ones((1, r), bool)
    return Nodes(
        np.ones(1), everything, np.zeros((1, L), int), np.zeros((1, L, r)), scales, seen,
        normals, answers, chances, mask, unit,
    )  # fmt: skip
