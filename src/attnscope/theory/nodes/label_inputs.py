"""Evaluating a planted task's label: at given projections, and at redrawn projections.

What a label reads is proved (labels/provenance_tags.py) or declared by its author. To check the
declaration, nodes.py evaluates the label a second time at every node, with all unread projections
redrawn, and takes everything as read where a label changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnscope.numerics.semidefinite import semidefinite_root

__all__ = ["answers_at", "redrawn"]

LABEL_DRAW_SEED = 0x4EAD  # a label draws the same random numbers in both evaluations


def redrawn(
    task: Any, means: np.ndarray, scales: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """(n, L, r) projections on the teachers of tokens with means (L, r) and scales (L,)."""
    G = task.teacher_gram
    noise = rng.standard_normal((n, *means.shape)) @ semidefinite_root(G).T
    return means @ G + scales[:, None] * noise


def answers_at(
    task: Any, fields: np.ndarray, latent: np.ndarray, stream: Any = LABEL_DRAW_SEED
) -> np.ndarray:
    """What the label depends on: the probabilities of its classes, or its value with one random
    stream.
    """
    if task.likelihood is not None and task.classes is not None:
        return task.class_chances(fields, latent)
    return task.checked_label(fields, latent, np.random.default_rng(stream))
