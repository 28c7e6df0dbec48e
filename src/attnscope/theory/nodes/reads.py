"""Asking a planted task's label: at given projections, and at projections drawn anew.

What a label reads is a proof (labels/provenance_tags.py) or its author's word. nodes.py asks once
more, at every node, with all that is said to be unread drawn anew, and takes everything as read
where an answer changes: a check of the author's word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.numerics.semidefinite import semidefinite_root

__all__ = ["answers_at", "redrawn"]

STREAM = 0x4EAD  # of the random numbers that a label may draw: the same for both questions


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
