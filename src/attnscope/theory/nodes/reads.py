"""Which projections a planted task's label looks at, for each value of its latent.

notation: f (n, L, r) projections of the tokens on the teachers, z_i the latent's values.

A label that does not look at f_lj, given z_i, leaves that projection to be averaged out exactly
(students.py): in single-location regression L + 1 of L (r + 1) coordinates are left. What a label
looks at is found by trying: it is asked again with f_lj drawn anew, and looks at f_lj where any
answer changes. nodes.py asks once more, at every node, with all that is said to be unread drawn
anew, and takes everything as read where an answer changes; so what is missed here is missed by
every node, as in any sampled mean.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.numerics.semidefinite import semidefinite_root

__all__ = ["answers_at", "redrawn", "what_is_read"]

PROBES = (
    2048  # sequences asked per latent value and projection; all nodes are asked again later
)
# questions to a label before everything is taken as read: a second for one that takes a millisecond
MOST = 1000
STREAM = 0x4EAD  # of the random numbers that a label may draw: the same for both questions


def what_is_read(task: Any, values: np.ndarray) -> np.ndarray:
    """(m, L, r) bool, of a defined task (tasks/planted/planted.py) and its latent's values."""
    means, scales = task.token_law(values)
    m, L, r = means.shape
    if m * L * r > MOST:
        return np.ones((m, L, r), bool)
    rng = np.random.default_rng(STREAM)
    out = np.empty((m, L, r), bool)
    for i in range(m):
        latent = np.repeat(values[i : i + 1], PROBES, axis=0)
        fields = redrawn(task, means[i], scales[i], PROBES, rng)
        other = redrawn(task, means[i], scales[i], PROBES, rng)
        first = answers_at(task, fields, latent)
        for l, j in np.ndindex(L, r):
            changed = fields.copy()
            changed[:, l, j] = other[:, l, j]
            out[i, l, j] = not np.array_equal(answers_at(task, changed, latent), first)
    return out


def redrawn(
    task: Any, means: np.ndarray, scales: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """(n, L, r) projections on the teachers of tokens with means (L, r) and scales (L,)."""
    G = task.teacher_gram
    noise = rng.standard_normal((n, *means.shape)) @ semidefinite_root(G).T
    return means @ G + scales[:, None] * noise


def answers_at(
    task: Any, fields: np.ndarray, latent: np.ndarray, stream: Any = STREAM
) -> np.ndarray:
    """What the label depends on: the probabilities of its classes, or its value with one random
    stream.
    """
    if task.likelihood is not None and task.classes is not None:
        return task.class_chances(fields, latent)
    return task.checked_label(fields, latent, np.random.default_rng(stream))
