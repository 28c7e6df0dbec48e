"""How the Bayes risk of an O(1) spike falls: the pair's integral and the error exponent of
orthogonal signals.

notation: nu = strength, L = length.

At L = 2 the risk is e^{-nu/4}/sqrt(4 pi nu) int e^{-z^2/(4 nu)}/(2 cosh(z/2)) dz, and for nu -> inf
the integral tends to int dz/(2 cosh(z/2)) = pi; each of L - 1 wrong tokens alone gives (L-1)
sqrt(pi/nu) e^{-nu/4}/2. With L = e^{r nu} Gallager's bound for orthogonal signals is tight,

    E(r) = max over 0 <= q <= 1 of q/(2 (1 + q)) - q r.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mpmath import mp, mpf

__all__ = ["asymptotic", "exponent"]


def asymptotic(nu: float, L: float) -> Any:
    """(L-1) sqrt(pi/nu) e^{-nu/4}/2."""
    with mp.workdps(40):
        pi = 2 * mp.quad(lambda z: 1 / mp.cosh(z / 2), [0, 1, 4, 16, 200]) / 2
        return (mpf(L) - 1) * mp.exp(-mpf(nu) / 4) / mp.sqrt(4 * mp.pi * mpf(nu)) * pi


def exponent(rate: float) -> float:
    """E(r), from the maximum over a grid that contains the maximiser q = 1/sqrt(2 r)
    - 1 clipped to [0, 1].
    """
    inner = float(np.clip(1 / np.sqrt(2 * rate) - 1, 0, 1)) if rate > 0 else 1.0
    q = np.append(np.linspace(0, 1, 10_001), inner)
    return float(np.max(q / (2 * (1 + q)) - q * rate))
