"""What sharing a linear layer over positions is worth, exactly (new here).

notation: N = positions, n = sequences, s = noise.

Inputs x in R^N are white, labels y = H x + s e at every position, and H commutes with shifts of the
ring of N positions: one filter of N coefficients for all of them. Least squares, excess per
position on a new input:

    shared filter     s^2/N [(N - r)/(n - 1) + r/(n - 2)],   r = 2 (N even), 1 (N odd); 1 where N = 1
    own weights       s^2 N/(n - N - 1)

Proof. The Fourier transform turns the filter into N regressions with one parameter each. At a
complex frequency sum |x|^2 over the sequences is Gamma(n) distributed with E 1/Gamma(n) = 1/(n-1);
at the r real ones it is chi-square with E 1/chi2_n = 1/(n-2). Own weights are N regressions with N
parameters on n white inputs, E tr (X'X)^-1 = N/(n - N - 1) (Wishart). A shared layer learns from
every position: its error does not grow with N, and n may be far below N.
"""

from __future__ import annotations

import numpy as np

from attnscope.errors import bad
from attnscope.numerics.border import validation as check
from attnscope.numerics.border.estimate import Estimate, estimate

__all__ = ["shared_layer_risk"]

CLOSED_FORM_ROUNDING = 8 * float(
    np.finfo(np.float64).eps
)  # five operations on exact integers


def shared_layer_risk(
    positions: int, sequences: int, noise: float, shared: bool = True
) -> Estimate:
    """Error per position of a linear layer fitted to n sequences of N positions: one filter shared
    by all positions, or own weights at each.

    Args:
        positions: N >= 1 on a ring.
        sequences: n >= 3; without sharing n >= N + 2, below which the error is infinite.
        noise: s >= 0 of the labels.
        shared: one filter for all positions, or own weights at each.

    >>> round(shared_layer_risk(32, 20, 0.5).excess, 6)
    0.013204
    >>> round(shared_layer_risk(32, 80, 0.5, shared=False).excess, 6)
    0.170213
    """
    of = "shared_layer_risk"
    N = check.integer(positions, "positions", of, 1)
    n = check.integer(sequences, "sequences", of, 1)
    s = check.real(noise, "noise", of, 0)
    if not isinstance(shared, bool | np.bool_):
        raise bad("shared", of, "True or False", shared)
    least = 3 if shared else N + 2
    if n < least:
        must = f"at least {least}: below, the expected error is infinite"
        raise bad("sequences", of, must, n, "shared=True" if n > 2 and not shared else "")
    if shared:
        real = min(N, 2 - N % 2)
        share = (N - real) / N / (n - 1) + real / N / (n - 2)
        method = "closed form, shared filter"
    else:
        share = N / (n - N - 1)
        method = "closed form, own weights"
    excess = s * s * share
    return estimate(excess, CLOSED_FORM_ROUNDING * excess, method, s)
