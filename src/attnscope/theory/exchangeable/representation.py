"""Sufficiency and minimality of a representation as numbers, for finite topics.

notation: X a sequence of L tokens, T = T(X) a representation, p its law, post = P(z | .), r_z the
mean of a label in topic z.

    regret   E|E[r_z | X] - E[r_z | T]|^2 = risk from T - risk from X, in squares, so 0 comes out as
        1e-30 and not as 1e-16
    information  I(z; T) = sum_t p(t) KL(post_t || pi)                   entropy  H(T), both in nats

T is sufficient for every label with y independent of X given z iff the regret of the K indicator
labels r = I vanishes, iff I(z; T) = I(z; X), iff T determines the posterior. The posterior itself
is therefore minimal among representations sufficient for ALL such labels; for one label the law of
y given X may be coarser still. Merging two posterior atoms of masses p_i, p_j into one costs
exactly

    p_i p_j/(p_i + p_j) |post_i - post_j|^2 > 0

in summed Brier risk: the variance of a two-point law. Everything is by enumeration of V^L sequences
(or of counts), exact to rounding. That the posterior is minimal sufficient is from Zhang et al.
(arXiv 2212.14852); these numbers and the merge cost are new here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import entr, gammaln, kl_div, logsumexp, softmax

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.context_arrays import context_array
from attnscope.tasks.base import checked_law
from attnscope.tasks.exchangeable.topics import Topics, count_vectors

__all__ = [
    "Atoms",
    "Representation",
    "Sequences",
    "all_sequences",
    "cells",
    "merge_costs",
    "posterior_atoms",
    "representation",
]

LARGEST_SEQUENCE_COUNT = 2_000_000  # 16 MB per token position
# posteriors closer than this in every coordinate are one atom: above rounding (1e-14), and merging
# them costs < 1e-22
POSTERIOR_TIE_WIDTH = 1e-11
STATISTIC_NAMES = ("tokens", "counts", "posterior", "map", "rounded", "prefix")

Statistic = str | Callable[[np.ndarray], np.ndarray]


class Sequences(NamedTuple):
    """All V^L sequences: tokens (N, L), probability (N,), posterior (N, K),
    log probability (N,).
    """

    tokens: np.ndarray
    probability: np.ndarray
    posterior: np.ndarray
    log_probability: np.ndarray


class Atoms(NamedTuple):
    """The distinct posteriors (A, K) that sequences of one length lead to,
    with their masses (A,).
    """

    mass: np.ndarray
    posterior: np.ndarray


class Representation(NamedTuple):
    """Number of values of T that occur, H(T) and I(z; T) in nats,
    regret in summed squared error over the labels.
    """

    cells: int
    entropy: float
    information: float
    regret: float


def all_sequences(task: Topics, length: int) -> Sequences:
    """Every sequence of that length with its probability and posterior."""
    of = "all_sequences"
    L = check.integer(length, "length", of, 0)
    V = task.vocabulary
    # V^(10^12) has no end
    if (
        L * math.log(V) > math.log(LARGEST_SEQUENCE_COUNT) + 1
        or V**L > LARGEST_SEQUENCE_COUNT
    ):
        hint = "a shorter length, or posterior_atoms, which enumerates counts"
        raise bad(
            "length",
            of,
            f"such that at most {LARGEST_SEQUENCE_COUNT} sequences are enumerated",
            f"{V}^{L}",
            hint,
        )
    tokens = (
        np.stack(np.unravel_index(np.arange(V**L), (V,) * L), axis=1)
        if L
        else np.zeros((1, 0), dtype=int)
    )
    logits = task.log_joint(task.counts(tokens))
    total = logsumexp(logits, axis=1)
    possible = np.isfinite(total)
    posterior = softmax(logits[possible], axis=1)
    return Sequences(tokens[possible], np.exp(total[possible]), posterior, total[possible])


def representation(
    task: Topics,
    length: int,
    statistic: Statistic = "posterior",
    labels: np.ndarray | None = None,
) -> Representation:
    """How much of the topic a map of the sequence keeps, and at what size.

    Args:
        task: Topics.
        length: L >= 0, the tokens seen.
        statistic: "tokens" | "counts" | "posterior" | "map" (the likeliest topic) | "rounded"
            (posterior to 0.1) | "prefix" (all but the last token), or a function of tokens (N, L)
            with values (N,) or (N, m): sequences with equal values are merged.
        labels: r, (K,) or (K, m), whose regret is meant; the K indicators of the topics if None.

    >>> task = Topics([0.5, 0.5], [[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]])
    >>> [representation(task, 4, name).cells for name in ("tokens", "counts", "posterior", "map")]
    [81, 15, 15, 2]
    """
    of = "representation"
    checked_law(task, Topics, of, "Topics([0.5, 0.5], [[0.7, 0.3], [0.2, 0.8]])")
    if labels is None:
        r = np.eye(task.topics)
    else:
        r = context_array(labels, "labels", of, ())
        if r.ndim not in (1, 2) or len(r) != task.topics:
            must = f"finite, one for each of the {task.topics} topics"
            raise bad("labels", of, must, f"shape {r.shape}")
        r = r.reshape(task.topics, -1)
    everything = all_sequences(task, length)
    groups = _cell_numbers(task, everything, statistic)
    mass, post = _merged_posteriors(groups, everything.log_probability, everything.posterior)
    regret = everything.probability @ np.sum(
        ((everything.posterior - post[groups]) @ r) ** 2, axis=1
    )
    # kl_div = x log(x/y) - x + y has one sign: no cancellation where T is nearly uninformative
    seen = task.prior > 0
    information = mass @ np.sum(kl_div(post[:, seen], task.prior[seen]), axis=1)
    return Representation(
        len(mass), float(entr(mass).sum()), float(information), float(regret)
    )


def _cell_numbers(task: Topics, everything: Sequences, statistic: Statistic) -> np.ndarray:
    """The cell 0 .. A-1 of each sequence."""
    x = everything.tokens
    post = everything.posterior
    if not callable(statistic) and statistic not in STATISTIC_NAMES:
        raise bad(
            "statistic",
            "representation",
            f"one of {STATISTIC_NAMES} or a function of tokens (N, L)",
            statistic,
        )
    if callable(statistic):
        out = np.asarray(statistic(x))
        if out.ndim not in (1, 2) or len(out) != len(x):
            raise bad(
                "statistic",
                "representation",
                "a function with values (N,) or (N, m)",
                f"shape {out.shape}",
            )
    elif statistic in ("posterior", "rounded"):
        out = cells(post) if statistic == "posterior" else np.round(post / 0.1)
    else:
        out = {
            "tokens": lambda: x,
            "counts": lambda: task.counts(x),
            "map": lambda: _likeliest_topic(post),
            "prefix": lambda: x[:, :-1],
        }[statistic]()
    rows = out.reshape(len(x), -1)
    return (
        np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        if rows.shape[1]
        else np.zeros(len(x), dtype=int)
    )


def _likeliest_topic(post: np.ndarray) -> np.ndarray:
    """The most probable topic, the first of those that tie up to rounding."""
    return np.argmax(post >= post.max(axis=1, keepdims=True) - POSTERIOR_TIE_WIDTH, axis=1)


def cells(points: np.ndarray, same: float = POSTERIOR_TIE_WIDTH) -> np.ndarray:
    """Which of the points (N, K) are equal up to rounding: labels (N,).
    Each coordinate is cut at gaps wider than `same`.
    """
    columns = []
    for x in np.asarray(points, dtype=np.float64).T:
        order = np.argsort(x, kind="stable")
        label = np.empty(len(x), dtype=np.int64)
        label[order] = np.concatenate([[0], np.cumsum(np.diff(x[order]) > same)])
        columns.append(label)
    return np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].ravel()


def posterior_atoms(task: Topics, length: int) -> Atoms:
    """The distinct posteriors of sequences of that length and their masses,
    by enumeration of counts.

    Args:
        task: Topics.
        length: L >= 0, the tokens seen.

    >>> import attnscope as at
    >>> task = at.Topics([0.5, 0.5], [[0.7, 0.3], [0.2, 0.8]])
    >>> atoms = at.posterior_atoms(task, 2)
    >>> atoms.mass, atoms.posterior[:, 0].round(3)
    (array([0.365, 0.37 , 0.265]), array([0.123, 0.568, 0.925]))
    """
    of = "posterior_atoms"
    checked_law(task, Topics, of, "Topics([0.5, 0.5], [[0.7, 0.3], [0.2, 0.8]])")
    L = check.integer(length, "length", of, 0)
    c = np.concatenate(list(count_vectors(L, task.vocabulary, of)))
    logits = task.log_joint(c)
    possible = np.isfinite(logits.max(axis=1))
    logits = logits[possible]
    c = c[possible]
    log_p = gammaln(L + 1) - gammaln(c + 1.0).sum(axis=1) + logsumexp(logits, axis=1)
    posterior = softmax(logits, axis=1)
    return Atoms(*_merged_posteriors(cells(posterior), log_p, posterior))


def _merged_posteriors(
    groups: np.ndarray, log_p: np.ndarray, posterior: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mass (A,) and posterior (A, K) of each group, weighted relative to its likeliest member.

    A group whose mass underflows to 0 still has the posterior of its members.
    """
    top = np.full(groups.max() + 1, -np.inf)
    np.maximum.at(top, groups, log_p)
    weight = np.exp(log_p - top[groups])
    total = np.bincount(groups, weight)
    joint = np.stack([np.bincount(groups, weight * column) for column in posterior.T], axis=1)
    return np.exp(top + np.log(total)), joint / total[:, None]


def merge_costs(atoms: Atoms) -> np.ndarray:
    """Summed Brier regret (A, A) of merging atoms i and j:
    p_i p_j/(p_i + p_j) |post_i - post_j|^2; 0 on the diagonal.

    Args:
        atoms: as `posterior_atoms` returns them.

    >>> import attnscope as at
    >>> task = at.Topics([0.5, 0.5], [[0.7, 0.3], [0.2, 0.8]])
    >>> at.merge_costs(at.posterior_atoms(task, 2)).round(4)
    array([[0.    , 0.0725, 0.1971],
           [0.0725, 0.    , 0.0394],
           [0.1971, 0.0394, 0.    ]])
    """
    of = "merge_costs"
    if not (hasattr(atoms, "mass") and hasattr(atoms, "posterior")):
        raise bad("atoms", of, "what posterior_atoms returns", atoms)
    p = check.array(atoms.mass, "mass", of, (None,)).astype(np.float64)
    posterior = check.array(atoms.posterior, "posterior", of, (len(p), None))
    check.fits_in_memory(
        3 * len(p) ** 2, 8, "merge costs", of, "fewer atoms: a shorter length"
    )
    distance = np.zeros((len(p), len(p)))
    for column in posterior.astype(np.float64).T:
        distance += np.subtract.outer(column, column) ** 2
    # p_i p_j/(p_i + p_j) as the smaller times a share in [1/2, 1]: no underflow of a product, no
    # 0/0
    large = np.maximum.outer(p, p)
    share = large / np.where(large > 0, np.add.outer(p, p), 1.0)
    return np.minimum.outer(p, p) * share * distance
