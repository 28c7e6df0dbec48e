"""Derivatives of a block's risk in what the head sees, and their chain to the Gram matrix.

notation: as in token_kinds.py: of each kind a, b, cov = s^2 k.v, vu = s^2 |k|^2, vw = s^2 |v|^2; of
the token that is read a, a_x, v = a_z^2, b, b_x, cov = a_z b_z. G the Gram matrix of (k, v,
teachers), J the column of the teacher that is read.

    dR/d(k.T_j) = sum_a R_a mu_aj + [j = J] s (R_{a_x} - 2 s (k.T_J) R_v - s (v.T_J) R_cov),   ...

The variables are polynomials in G (no root, no factor of a matrix): derivatives stay finite where
a_z vanishes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnscope.theory.labels.label_blocks import LabelBlock
from attnscope.theory.labels.token_kinds import Kinds

__all__ = ["Slopes", "gram_slopes"]


class Slopes(NamedTuple):
    """value: the block's risk without E y^2; its derivatives kinds (A, 6) in a, b, cov, vu, vw, lam
    and read (7,) in a, a_x, v, b, b_x, cov, lam, and the errors of these.
    """

    value: float
    kinds: np.ndarray
    read: np.ndarray
    kinds_error: np.ndarray
    read_error: np.ndarray


def gram_slopes(
    G: np.ndarray, block: LabelBlock, kinds: Kinds, by_kind: np.ndarray, by_read: np.ndarray,
    absolute: bool = False,
) -> np.ndarray:  # fmt: skip
    """(2, V) derivatives in the inner products of k and v with all vectors; with `absolute` those
    of errors.
    """
    size = np.abs if absolute else np.asarray
    sign = 1.0 if absolute else -1.0
    G = size(G)
    out = np.zeros((2, G.shape[1]))
    means, s = size(kinds.laws[:, :-1]), kinds.laws[:, -1]
    a, b, cov, vu, vw, _ = by_kind.T
    out[0, 2:] += a @ means
    out[1, 2:] += b @ means
    out[0, 1] += cov @ s**2
    out[0, 0] += vu @ s**2
    out[1, 1] += vw @ s**2
    mean, scale = size(block.means[block.token]), float(block.scales[block.token])
    J = 2 + block.teacher
    ra, rax, rv, rb, rbx, rcov, _ = by_read
    out[0, 2:] += ra * mean
    out[1, 2:] += rb * mean
    out[0, J] += scale * rax + sign * scale**2 * (2 * rv * G[0, J] + rcov * G[1, J])
    out[1, J] += scale * rbx + sign * scale**2 * rcov * G[0, J]
    out[0, 0] += scale**2 * rv
    out[0, 1] += scale**2 * rcov
    out[1, 0] = out[0, 1]
    return out
